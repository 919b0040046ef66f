/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/calls/calls.h"

#include <stddef.h>

#define ROW(name, wide, arguments, kind, comm, peer, tag, root, count, type, request)  \
    {"MPI_" name, DLR_MPI_##kind, arguments, comm,    peer, tag,                       \
     root,        count,          type,      request, wide},
#define CALL(name, ...) ROW(#name, false, __VA_ARGS__)
#define WIDE(name, ...)                                                                \
    ROW(#name, false, __VA_ARGS__) ROW(#name "_c", true, __VA_ARGS__)

const struct dlr_mpi_call dlr_mpi_calls[DLR_CALL_COUNT] = {
    {NULL},
#include "interpose/calls/mpi.calls"
};

const char *dlr_mpi_call_name(uint32_t number)
{
    return number < DLR_CALL_COUNT ? dlr_mpi_calls[number].name : NULL;
}
