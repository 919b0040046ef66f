/* SPDX-License-Identifier: Apache-2.0 */
/* What one look at a rank found: its watch page, read once, every index, name and size
 * checked. Plain data, no pointer: made on the rank's node by watch/read.h, carried to
 * the supervisor, judged by watch/judge.h.
 */
#ifndef DLR_WATCH_LOOK_H
#define DLR_WATCH_LOOK_H

#include <stdbool.h>
#include <stdint.h>

/* Communicators of a look: those in which the rank is or that moved last; the page
 * holds 224.
 */
#define DLR_LOOK_COMMS 16
#define DLR_LOOK_CALLS 4 /* calls in which threads block; the page holds 32 */
#define DLR_LOOK_NAME 40
#define DLR_LOOK_ANY (-1) /* peer: any source */
#define DLR_LOOK_NOBODY (-2)
#define DLR_LOOK_WORLD 1u /* id of MPI_COMM_WORLD */

enum dlr_look_data {
    DLR_LOOK_NONE,
    /* a line was being written at each of three tries, or something in it cannot be:
     * what else is here is true, but it is not all
     */
    DLR_LOOK_TORN,
    DLR_LOOK_STEPS,
    DLR_LOOK_CALLS_TOO,
};

/* Of the process, from /proc; the page cannot say it. */
enum dlr_look_state {
    DLR_LOOK_ALIVE,
    DLR_LOOK_STOPPED, /* T */
    DLR_LOOK_TRACED,  /* t */
    DLR_LOOK_DISK,    /* D */
    DLR_LOOK_DEAD,
};

struct dlr_look_comm {
    uint64_t id, parent;
    uint32_t size, my_rank;
    /* of the last operation; op: the number of the call (interpose/calls/calls.h), 0
     * none, or not known
     */
    uint32_t op, type, root;
    uint32_t lost; /* operations of which nothing is known */
    /* operations counted at their begin and at their end: inside while entered > left
     */
    uint64_t entered, left;
    uint64_t bytes, entered_ns, left_ns;
};

struct dlr_look_call {
    uint64_t comm;
    int32_t peer; /* in comm's ranks; DLR_LOOK_ANY, DLR_LOOK_NOBODY */
    int32_t tag;
    /* call: interpose's number; of a wait: one entry for each request, the same tid */
    uint32_t tid, call;
    uint64_t bytes, entered_ns;
};

struct dlr_look {
    int32_t rank;
    uint32_t round;
    enum dlr_look_data data;
    enum dlr_look_state state;
    /* finished: MPI_Finalize was called; where no calls are told, dlr_watch_close. A
     * step takes it back, and MPI_Init of the rank's next program.
     */
    bool paused, finished;
    uint64_t step, total;    /* UINT64_MAX: no step yet; total 0: unknown */
    uint64_t step_ns;        /* CLOCK_BOOTTIME of the last step; 0: none */
    uint64_t moved_ns;       /* and of the last thing that moved */
    uint64_t phase_ns;       /* since; 0: no phase */
    uint64_t phase_limit_ns; /* 0: none declared */
    char phase[DLR_LOOK_NAME];
    uint64_t steps_ns, waited_ns, calls, bytes; /* totals of the round */
    uint64_t lost;          /* operations and calls that found no line on the page */
    uint32_t garbage, torn; /* lines that were not taken: TORN, see above */
    int32_t pid; /* of the component that asked first, as the agent knows it; 0: none */
    bool handler;        /* a signal makes it print its Python stacks */
    uint32_t more_comms; /* that the rank is inside of, without room here */
    uint32_t more_calls; /* the same */
    uint32_t ncomms, ncalls;
    struct dlr_look_comm comms[DLR_LOOK_COMMS];
    struct dlr_look_call in[DLR_LOOK_CALLS];
};

#endif
