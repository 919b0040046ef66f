/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of another process, held for as long as their registers and the upper end of
 * their stacks are copied. When we die in the middle of it the kernel lets them go.
 */
#ifndef DLR_MPI_LAUNCHER_UNWIND_HOLD_H
#define DLR_MPI_LAUNCHER_UNWIND_HOLD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "mpi_launcher/stacks/stack_tree.h"

#define DLR_UNWIND_STACK (64u << 10) /* bytes of each stack that are copied */

typedef char dlr_frame_text[DLR_STACK_FRAME];

struct dlr_held {
    pid_t tid;
    int rc; /* 0, or why there is nothing: -ETIMEDOUT, it did not stop; -errno */
#if defined(__x86_64__) || defined(__aarch64__)
    struct user_regs_struct regs;
#else
    char regs;
#endif
    uint64_t sp, pc, thread_pointer;
    unsigned char *stack; /* from sp on */
    size_t stack_size;
    dlr_frame_text *python; /* its frames by python.h, or NULL */
    unsigned npython;
    bool pending;
};

/* What is to be done with a thread while it is held; short. */
typedef void (*dlr_held_fn)(struct dlr_held *held, void *arg);

/* For a process that ends soon after: one that does not stop is ours until then.
 * Holds each of n threads (tid filled in, the rest zero), copies, calls fn, lets it go.
 * SIGCHLD must be blocked, and no child be waited for. Blocking until deadline_ms at
 * most: who has not stopped by then is let go as he is.
 */
void dlr_hold_threads(struct dlr_held *held, unsigned n, int64_t deadline_ms,
                      dlr_held_fn fn, void *arg);

/* Frees what the copies hold. */
void dlr_held_done(struct dlr_held *held, unsigned n);

#endif
