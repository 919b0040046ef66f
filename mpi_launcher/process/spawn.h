/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a program that must not outlive its parent, from a process that blocks signals
 * and has threads.
 */
#ifndef DLR_MPI_LAUNCHER_PROCESS_SPAWN_H
#define DLR_MPI_LAUNCHER_PROCESS_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/err.h"

struct dlr_spawn {
    const char *const *argv; /* argv[0]: path of the program; NULL-terminated */
    int out_fd;              /* its stdout; -1: /dev/null */
    int pass_fd;             /* its descriptor 3; -1: none. Nothing else is inherited */
    bool at_once;            /* not waited for: what cannot be run ends with 127 */
};

/* The child has default signal handlers, no blocked signals, stdin from /dev/null and
 * our stderr, and is killed when the calling thread ends. Returns when the exec has
 * succeeded or failed, for which a file server may take its time, but for at_once.
 * *ret_pidfd (close-on-exec) is the caller's and becomes readable
 * at its end; reap with dlr_spawn_reap().
 */
int dlr_spawn(const struct dlr_spawn *spawn, pid_t *ret_pid, int *ret_pidfd,
              struct dlr_err *err);

/* The wait status of an ended child; closes pidfd. Does not block: -EAGAIN while it
 * runs.
 */
int dlr_spawn_reap(int pidfd, int *ret_status);

#endif
