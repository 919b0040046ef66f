/* SPDX-License-Identifier: Apache-2.0 */
/* All stacks of one process. */
#ifndef DLR_MPI_LAUNCHER_UNWIND_PROCESS_H
#define DLR_MPI_LAUNCHER_UNWIND_PROCESS_H

#include <jansson.h>

#include "mpi_launcher/unwind/native.h"
#include "mpi_launcher/unwind/thread.h"

struct dlr_unwound {
    const struct dlr_unwind_thread *thread;
    const dlr_frame_text *native, *python; /* the innermost first */
    unsigned nnative, npython;
    bool whole; /* native reaches the beginning of the thread */
    int rc;     /* negative: there are no frames; as dlr_held's */
};

struct dlr_unwind_ops {
    void (*thread)(void *arg, const struct dlr_unwound *unwound);
    void (*note)(void *arg, const char *text); /* what could not be read, and why */
};

/* Reads the process and tells ops its threads, the first one first. SIGCHLD must be
 * blocked. 0, or -errno after a note that says why nothing could be read. Blocking,
 * about until deadline_ms at most; a file server that hangs may take longer.
 */
int dlr_unwind_process(pid_t pid, int64_t deadline_ms, const struct dlr_unwind_ops *ops,
                       void *arg);

/* The same as an object: {"pid", "comm", "threads": [{"tid", "comm", "state", "wchan",
 * "waits", "native", "python", "whole"}], "notes"}; at most DLR_STACK_BYTES of frames.
 * The caller's; NULL without memory.
 */
json_t *dlr_unwind_json(pid_t pid, int64_t deadline_ms, int *ret_rc);

/* The same into a tree: below the program's and the thread's name Python's frames, then
 * those of compiled code that the innermost of them has called, then what the thread
 * waits in. notes: an array that gets what could not be read.
 */
int dlr_unwind_into(struct dlr_stack_tree *tree, pid_t pid, uint32_t rank,
                    int64_t deadline_ms, json_t *notes);

#endif
