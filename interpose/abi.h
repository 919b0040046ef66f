/* SPDX-License-Identifier: Apache-2.0 */
/* The MPI library that the process has loaded: where its functions are and what its
 * handles and constants look like. Arguments are machine words: both a pointer (Open
 * MPI) and an int (MPICH) travel in one, in registers and on the stack, and are handed
 * on as they came, so that one build serves both.
 */
#ifndef DLR_INTERPOSE_ABI_H
#define DLR_INTERPOSE_ABI_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/calls/calls.h"

struct dlr_mpi_abi {
    const char *name;
    unsigned handle; /* bytes of a handle */
    uintptr_t world, comm_null, request_null, type_null;
    int any_source, undefined;
};

/* The next definition of a call behind ours, by the name under which it was called
 * (PMPI_X or MPI_X); NULL: no library has one.
 */
void *dlr_mpi_next(unsigned number, bool profiling);

/* Calls it. -1 where there is none, which no MPI returns. */
uintptr_t dlr_mpi_invoke(void *function, unsigned arguments, const uintptr_t *a);

/* Which library it is; NULL for one that we do not know. */
const struct dlr_mpi_abi *dlr_mpi_abi(void);

/* A handle as an argument, and one in memory. */
static inline uintptr_t dlr_mpi_handle(const struct dlr_mpi_abi *abi, uintptr_t word)
{
    return abi->handle == sizeof(int) ? (uint32_t)word : word;
}

static inline uintptr_t dlr_mpi_handle_at(const struct dlr_mpi_abi *abi,
                                          uintptr_t array, unsigned index)
{
    return abi->handle == sizeof(int) ? ((const uint32_t *)array)[index]
                                      : ((const uintptr_t *)array)[index];
}

/* Functions of the library that are asked, not counted: its own result, -1 when it has
 * none of that name.
 */
void *dlr_mpi_find(const char *name); /* NULL: it has none */
int dlr_mpi_ask(const char *name, unsigned arguments, const uintptr_t *a);

#endif
