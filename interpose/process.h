/* SPDX-License-Identifier: Apache-2.0 */
/* What the wrappers know of their process and of each of its threads. */
#ifndef DLR_INTERPOSE_PROCESS_H
#define DLR_INTERPOSE_PROCESS_H

#include "interpose/abi.h"
#include "watch/map.h"

#define DLR_MPI_LINES 4 /* of a thread that waits: as many as a look takes */

struct dlr_mpi_process {
    struct dlr_watch_map map;      /* its page is NULL while nothing is to be done */
    const struct dlr_mpi_abi *abi; /* NULL before MPI_Init has ended */
    bool tried;                    /* to get a page: that may take long */
    bool first;                    /* to say on the page that calls are told */
    bool many_threads;             /* that may call MPI at a time */
    bool coarse;                   /* times would cost too much: they are a tick's */
    int64_t coarse_ns;             /* CLOCK_BOOTTIME less the clock of ticks */
    uint64_t call_cost_ns;
    void *type_size;
    uintptr_t type_null;
};

struct dlr_mpi_thread {
    const volatile uint64_t
        *mark; /* on the stack of the call under way; NULL: none is */
    void *const volatile *caller_at; /* where its return address is, and which it is */
    void *caller;
    uint32_t tid, nlines;
    int lines[DLR_MPI_LINES]; /* of the page: what it waits for */
    uint64_t entered_ns;
    uintptr_t polled; /* what it asks for again and again; how often, to a limit */
    unsigned polls;
    bool polls_differ;
    uint64_t window_ns, window_step; /* since when calls are counted for their cost */
    uint64_t window_calls;
    unsigned windows_over;
};

extern struct dlr_mpi_process dlr_mpi_process;

/* CLOCK_BOOTTIME. */
uint64_t dlr_mpi_now(void);

/* MPI_Init is called; it has ended well; MPI_Finalize is called; it has ended. */
void dlr_mpi_process_begin(void);
void dlr_mpi_process_ready(void);
void dlr_mpi_process_end(void);
void dlr_mpi_process_left(void);

/* The thread has made one more call with times. Stops them for all when they take more
 * than 0.3 % of the time, three windows of a second or a step one after the other.
 */
void dlr_mpi_weigh(struct dlr_mpi_thread *thread, uint64_t now_ns);

#endif
