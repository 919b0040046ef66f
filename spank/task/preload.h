/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a task's program gets the library that watches its calls of MPI. */
#ifndef DLR_SPANK_TASK_PRELOAD_H
#define DLR_SPANK_TASK_PRELOAD_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "spank/task/task_env.h"

/* The loader that has started a process: a file. */
struct dlr_loader {
    dev_t dev;
    ino_t ino; /* 0: not known */
};

/* That of this process. */
void dlr_preload_own_loader(struct dlr_loader *ret);

/* In a task, as the user: adds to ret an LD_PRELOAD with libdlrover-mpi.so of the
 * directory libexec behind what the user preloads. program is what is executed, found
 * as execvp() does; own is slurmstepd's loader, for which the library was built. env
 * says whose calls are watched (DLROVER_WATCH: auto or all).
 *
 * -errno with the reason when the program does not get it: nobody asks for it, or the
 * loader would have something to say about it. Opens the program, the interpreter of a
 * script and the library: regular files, without waiting for a FIFO.
 */
int dlr_task_preload(const struct dlr_loader *own, const char *libexec,
                     const char *program, char *const env[], struct dlr_task_env *ret,
                     struct dlr_err *err);

#endif
