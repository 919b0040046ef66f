/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that stand before MPI's, under both names: a program's C calls MPI_X,
 * Fortran's bindings call one or the other. Each calls on under its own name, so that a
 * profiling tool behind us is not left out; the second of the two is not counted.
 */
#include "interpose/calls/calls.h"
#include "interpose/track.h"

#define W uintptr_t
#define TAKES_0 void
#define TAKES_1 W a0
#define TAKES_2 TAKES_1, W a1
#define TAKES_3 TAKES_2, W a2
#define TAKES_4 TAKES_3, W a3
#define TAKES_5 TAKES_4, W a4
#define TAKES_6 TAKES_5, W a5
#define TAKES_7 TAKES_6, W a6
#define TAKES_8 TAKES_7, W a7
#define TAKES_9 TAKES_8, W a8
#define TAKES_10 TAKES_9, W a9
#define TAKES_11 TAKES_10, W a10
#define TAKES_12 TAKES_11, W a11
#define GIVES_0 0
#define GIVES_1 a0
#define GIVES_2 GIVES_1, a1
#define GIVES_3 GIVES_2, a2
#define GIVES_4 GIVES_3, a3
#define GIVES_5 GIVES_4, a4
#define GIVES_6 GIVES_5, a5
#define GIVES_7 GIVES_6, a6
#define GIVES_8 GIVES_7, a7
#define GIVES_9 GIVES_8, a8
#define GIVES_10 GIVES_9, a9
#define GIVES_11 GIVES_10, a10
#define GIVES_12 GIVES_11, a11

#define WRAPPER(symbol, profiling, number, n)                                          \
    W symbol(TAKES_##n);                                                               \
    W symbol(TAKES_##n)                                                                \
    {                                                                                  \
        const W a[] = {GIVES_##n};                                                     \
                                                                                       \
        return dlr_mpi_run(number, profiling, a, __builtin_frame_address(0));          \
    }
#define CALL(name, n, ...)                                                             \
    WRAPPER(MPI_##name, false, DLR_CALL_##name, n)                                     \
    WRAPPER(PMPI_##name, true, DLR_CALL_##name, n)
#define WIDE(name, n, ...)                                                             \
    CALL(name, n)                                                                      \
    WRAPPER(MPI_##name##_c, false, DLR_CALL_##name##_c, n)                             \
    WRAPPER(PMPI_##name##_c, true, DLR_CALL_##name##_c, n)

#include "interpose/calls/mpi.calls"
