/* SPDX-License-Identifier: Apache-2.0 */
/* Work that a dead file server may hold up, for those who must not wait for it: a process apart
 * does it. The caller waits a moment, or is told later through a descriptor.
 */
#ifndef DLR_MPI_LAUNCHER_PROCESS_OFFLOAD_H
#define DLR_MPI_LAUNCHER_PROCESS_OFFLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "mpi_launcher/process/fork_server.h"

struct dlr_aside;

/* The work: 0 or more, or -errno. arg is in memory that both processes see, so it holds no pointers.
 * *fd is the descriptor that the caller gave or -1; what it is in the end is given back to him.
 */
typedef int (*dlr_aside_fn)(void *arg, int *fd);

/* With an arg of size bytes, all zero. NULL when out of memory. */
struct dlr_aside *dlr_aside_new(size_t size);
void *dlr_aside_arg(struct dlr_aside *a); /* lives as long as a */
/* One that goes on is left alone. Accepts NULL, returns NULL. */
struct dlr_aside *dlr_aside_free(struct dlr_aside *a);

/* Starts fn(arg, fd). fd is taken over in any case. 0 or -errno. */
int dlr_aside_start(struct dlr_aside *a, struct dlr_apart *apart, dlr_aside_fn fn,
                    int fd);
/* Readable when it is done; closed by dlr_aside_end(). */
int dlr_aside_fd(const struct dlr_aside *a);
/* 0 with fn's result (-EIO: its process died) and the descriptor it gives, -1 none, the caller's; a
 * may be started again. -EAGAIN: it is not done.
 */
int dlr_aside_end(struct dlr_aside *a, int *ret_rc, int *ret_fd);

/* Works that are waited for, one at a time; one process does them all. */
struct dlr_aside_lane {
    struct dlr_apart *apart; /* starts it */
    int process;             /* its socket while it waits for work; -1 at first */
    struct dlr_aside *late;  /* went on when its caller did not wait any longer */
};

/* Does fn and waits limit_ms at most: fn's result, and *ret_fd as above. -ETIMEDOUT when it takes
 * longer: the lane has taken *a over, which is NULL then. -EBUSY at once while one of an earlier
 * call goes on. fd is taken over in any case.
 */
int dlr_aside_call(struct dlr_aside_lane *lane, struct dlr_aside **a, dlr_aside_fn fn,
                   int fd, int64_t limit_ms, int *ret_fd);
void dlr_aside_lane_done(struct dlr_aside_lane *lane);

#endif
