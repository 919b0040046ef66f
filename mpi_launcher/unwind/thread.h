/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of a thread: its state, and what it waits in. */
#ifndef DLR_MPI_LAUNCHER_UNWIND_THREAD_H
#define DLR_MPI_LAUNCHER_UNWIND_THREAD_H

#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"

#define DLR_UNWIND_THREADS 512 /* of one process */
#define DLR_UNWIND_WHAT 160    /* bytes of a description */

struct dlr_unwind_thread {
    pid_t tid;
    char comm[32];
    char state; /* of /proc/PID/stat; '?' unknown */
    char wchan[64];
    char waits[DLR_UNWIND_WHAT]; /* "read of /data/x"; "" where it runs */
};

/* Fills in at most DLR_UNWIND_THREADS of a process, the first thread first. Their
 * number; *ret_more, how many there are beyond. -ESRCH when there is none.
 */
int dlr_unwind_threads(pid_t pid, struct dlr_unwind_thread *ret, unsigned *ret_more);

/* Why the process cannot be read: a zombie, traced, somebody else's, ... One line. */
void dlr_unwind_refusal(pid_t pid, int code, char *buf, size_t size);

/* Reads memory of another process. The number of bytes or -errno. */
ssize_t dlr_unwind_memory(pid_t pid, uint64_t at, void *buf, size_t size);

#endif
