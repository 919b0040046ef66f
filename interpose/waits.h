/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that end requests: whom they wait for, and what has ended with them. */
#ifndef DLR_INTERPOSE_WAITS_H
#define DLR_INTERPOSE_WAITS_H

#include "interpose/process.h"
#include "interpose/requests.h"

#define DLR_MPI_KEPT 256 /* requests of a call whose ends are followed */

/* The call under way, with what has to be known from before it. */
struct dlr_mpi_wait {
    const struct dlr_mpi_call *call;
    const uintptr_t *a;
    unsigned n; /* requests in kept */
    uintptr_t kept[DLR_MPI_KEPT];
};

/* A line of the page for a thread that waits: of a request, of nobody known. */
void dlr_mpi_block(struct dlr_mpi_thread *thread, uint32_t number,
                   const struct dlr_mpi_request *request);

/* Before and after such a call. The latter says whether anything has ended. */
void dlr_mpi_wait_begin(struct dlr_mpi_thread *thread, struct dlr_mpi_wait *wait,
                        uint32_t number);
bool dlr_mpi_wait_end(struct dlr_mpi_wait *wait, uint64_t now_ns);

/* What hangs on a request ends with it. */
void dlr_mpi_request_ended(const struct dlr_mpi_request *request, uint64_t now_ns);

#endif
