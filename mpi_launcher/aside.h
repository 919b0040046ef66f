/* SPDX-License-Identifier: Apache-2.0 */
/* Work that a dead file server may hold up, for those who must not wait for it: a thread of its
 * own does it. The caller waits a moment, or is told later through a descriptor.
 */
#ifndef DLR_MPI_LAUNCHER_ASIDE_H
#define DLR_MPI_LAUNCHER_ASIDE_H

#include <stdint.h>

struct dlr_aside;

/* The work: 0 or more, or -errno. It uses nothing but arg: whoever started it goes on. */
typedef int (*dlr_aside_fn)(void *arg);

/* Starts fn(arg). arg is the thread's until dlr_aside_end() has given its result. */
int dlr_aside_start(dlr_aside_fn fn, void *arg, struct dlr_aside **ret);
/* Readable when it is done; closed by dlr_aside_end(). */
int dlr_aside_fd(const struct dlr_aside *a);
/* 0 with fn's result: a is freed, arg is the caller's again. -EAGAIN: it is not done. */
int dlr_aside_end(struct dlr_aside *a, int *ret_rc);

/* Works that are waited for, one at a time. {0} at first. */
struct dlr_aside_lane {
    struct dlr_aside *late; /* went on when its caller did not wait any longer */
    void *arg;
    void (*forget)(void *arg);
};

/* Does fn(arg) and waits limit_ms at most: fn's result, arg is the caller's. -ETIMEDOUT when it
 * takes longer: forget(arg) is called after its end, by a later call. -EBUSY at once while one
 * of an earlier call goes on: forget(arg) has been called.
 */
int dlr_aside_call(struct dlr_aside_lane *lane, dlr_aside_fn fn, void *arg,
                   void (*forget)(void *arg), int64_t limit_ms);

#endif
