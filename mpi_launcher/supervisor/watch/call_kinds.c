/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/watch/call_kinds.h"

#include <string.h>

#include "watch/judge/judge.h"

static uint8_t kind_of(const struct dlr_mpi_call *call)
{
    switch (call->kind) {
    case DLR_MPI_SEND:
        return DLR_CALL_SENDS;
    case DLR_MPI_RECEIVE:
        return DLR_CALL_RECEIVES;
    case DLR_MPI_EXCHANGE:
        return DLR_CALL_SENDS | DLR_CALL_RECEIVES;
    case DLR_MPI_WAITANY:
    case DLR_MPI_WAITSOME:
        return DLR_CALL_ONE_OF;
    case DLR_MPI_POLL:
        return DLR_CALL_POLLS | DLR_CALL_RECEIVES;
    case DLR_MPI_TEST:
    case DLR_MPI_TESTALL:
        return DLR_CALL_POLLS;
    case DLR_MPI_TESTANY:
    case DLR_MPI_TESTSOME:
        return DLR_CALL_POLLS | DLR_CALL_ONE_OF;
    case DLR_MPI_OTHER: /* one-sided, and Mrecv: for whom it waits is not known */
    case DLR_MPI_FILE:
        return DLR_CALL_ALONE;
    default:
        return 0;
    }
}

/* Those that are begun only, too. */
static uint8_t neighbors(const struct dlr_mpi_call *call)
{
    return strstr(call->name, "eighbor_") ? DLR_CALL_NEIGHBORS : 0;
}

void dlr_call_kinds(uint8_t kinds[DLR_CALL_KINDS])
{
    kinds[0] = 0;
    for (unsigned i = 1; i < DLR_CALL_COUNT; i++)
        kinds[i] = kind_of(&dlr_mpi_calls[i]) | neighbors(&dlr_mpi_calls[i]);
}
