/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the calls that watch pages name, as constants: MPI's, which are wrapped
 * (interpose/calls/mpi.calls), and those of torch.distributed (torch.calls).
 */
#ifndef DLR_INTERPOSE_CALLS_CALLS_H
#define DLR_INTERPOSE_CALLS_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#define DLR_MPI_ARGUMENTS 12 /* of one call at most */

enum dlr_mpi_kind {
    DLR_MPI_LOCAL, /* waits for nobody: counted only */
    DLR_MPI_OTHER, /* may wait, one cannot say for whom: one-sided */
    DLR_MPI_FILE,
    DLR_MPI_SEND,
    DLR_MPI_RECEIVE,
    DLR_MPI_EXCHANGE, /* both; root: the rank that it sends to */
    DLR_MPI_ISEND,
    DLR_MPI_IRECEIVE,
    DLR_MPI_PERSISTENT,
    DLR_MPI_START,
    DLR_MPI_STARTALL,
    DLR_MPI_FORGET,
    DLR_MPI_POLL,
    DLR_MPI_WAIT,
    DLR_MPI_WAITALL, /* of several requests some may have ended already */
    DLR_MPI_WAITANY,
    DLR_MPI_WAITSOME,
    DLR_MPI_TEST,
    DLR_MPI_TESTALL,
    DLR_MPI_TESTANY,
    DLR_MPI_TESTSOME,
    DLR_MPI_COLLECTIVE,
    DLR_MPI_NEIGHBOR, /* a collective that waits for neighbours only */
    DLR_MPI_ICOLLECTIVE,
    DLR_MPI_COLLECTIVE_INIT,
    DLR_MPI_CREATE,  /* a communicator, by all members of one */
    DLR_MPI_ICREATE, /* the same, nonblocking; root: where the new one is written */
    DLR_MPI_CREATE_GROUP, /* by those only that will be in it */
    DLR_MPI_FREE,
    DLR_MPI_INIT,
    DLR_MPI_FINALIZE,
};

/* Arguments by number, -1: none. */
struct dlr_mpi_call {
    const char *name; /* "MPI_Send" */
    enum dlr_mpi_kind kind;
    int8_t arguments, comm, peer, tag, root, count, type, request;
    bool wide; /* counts are MPI_Count and not int */
};

/* The number of each call; 0 is none. */
#define CALL(name, ...) DLR_CALL_##name,
#define WIDE(name, ...) DLR_CALL_##name, DLR_CALL_##name##_c,
enum dlr_mpi_number {
    DLR_CALL_NONE,
#include "interpose/calls/mpi.calls"
    DLR_CALL_COUNT
};
#undef CALL
#undef WIDE

/* Those of torch.distributed: interpose/calls/torch.calls. */
#define CALL(name) DLR_TORCH_##name,
enum dlr_torch_number {
    DLR_CALL_TORCH = 1023, /* none of them */
#include "interpose/calls/torch.calls"
    DLR_TORCH_END
};
#undef CALL

/* By number; that of 0 has no name. */
extern const struct dlr_mpi_call dlr_mpi_calls[DLR_CALL_COUNT];

/* The name of a number that came in a watch page, "MPI_Send" or "all_reduce"; NULL for one
 * that there is not.
 */
const char *dlr_mpi_call_name(uint32_t number);

/* The number of "all_reduce" and alike; 0: there is none. */
uint32_t dlr_torch_call_number(const char *name);

#endif
