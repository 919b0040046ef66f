/* SPDX-License-Identifier: Apache-2.0 */
/* What a request waits for, by its handle, from the call that makes it to the one that
 * ends it.
 */
#ifndef DLR_INTERPOSE_REQUESTS_H
#define DLR_INTERPOSE_REQUESTS_H

#include "interpose/communicators.h"

struct dlr_mpi_request {
    uintptr_t handle; /* 0: free */
    struct dlr_mpi_comm *comm;
    uint64_t id; /* of comm: another one may have its place by then */
    uint64_t bytes;
    uintptr_t made; /* where a communicator's handle will be written; 0: none */
    struct dlr_mpi_birth birth; /* of that */
    int32_t peer, tag;
    uint32_t call; /* that is begun with MPI_Start, or that was begun */
    bool persistent;
    bool collective; /* one of comm is under way, to be ended with this */
};

/* False when there is no room for it. One of the same handle that is still here has
 * ended unseen: *ret_old, with handle 0 when there was none.
 */
bool dlr_mpi_request_add(const struct dlr_mpi_request *request,
                         struct dlr_mpi_request *ret_old);

/* A request, without taking it. False for one that is not known. */
bool dlr_mpi_request_peek(uintptr_t handle, struct dlr_mpi_request *ret);

/* It ends. A persistent one stays, without its operation, unless it is freed. */
bool dlr_mpi_request_take(uintptr_t handle, bool freed, struct dlr_mpi_request *ret);

/* A persistent collective begins. */
void dlr_mpi_request_start(uintptr_t handle);

#endif
