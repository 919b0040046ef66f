/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/calls/calls.h"

#include <stddef.h>

#include "common/base/str.h"

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

#undef CALL

#define CALL(name) #name,
static const char *const torch_calls[] = {
#include "interpose/calls/torch.calls"
};

const char *dlr_mpi_call_name(uint32_t number)
{
    if (number > DLR_CALL_TORCH && number < DLR_TORCH_END)
        return torch_calls[number - DLR_CALL_TORCH - 1];
    return number < DLR_CALL_COUNT ? dlr_mpi_calls[number].name : NULL;
}

uint32_t dlr_torch_call_number(const char *name)
{
    for (uint32_t i = 0; i < DLR_TORCH_END - DLR_CALL_TORCH - 1; i++)
        if (dlr_streq(torch_calls[i], name))
            return DLR_CALL_TORCH + 1 + i;
    return 0;
}
