/* SPDX-License-Identifier: Apache-2.0 */
/* A little world of ranks that run a program of collectives, messages and waits, made by
 * chance, with one fault planted; it knows who is to blame, and what a look would find.
 */
#ifndef DLR_TESTS_UNIT_WATCH_JUDGE_PROGRAM_MODEL_H
#define DLR_TESTS_UNIT_WATCH_JUDGE_PROGRAM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "watch/judge/judge.h"

#define MODEL_RANKS 16
#define MODEL_COMMS 6
#define MODEL_EVENTS 64
#define MODEL_ITEMS (6 * MODEL_EVENTS + 16)
#define MODEL_TICK_NS 1000000000u
#define MODEL_PHASE_TICKS 60

enum model_fault {
    MODEL_HEALTHY,
    MODEL_LOOP,     /* `who` computes for ever before an item */
    MODEL_STOP,     /* stopped by a signal there */
    MODEL_LEAVE,    /* finishes there */
    MODEL_SKIP,     /* leaves a collective out */
    MODEL_MISMATCH, /* calls another operation */
    MODEL_CROSS,    /* `who` and `other` receive from each other */
    MODEL_SWAP,     /* does two collectives in the other order */
    MODEL_LOST,     /* all come to it, and it does not end */
    MODEL_FAULTS
};

/* Numbers of calls, for model_calls. */
enum {
    MODEL_ALLREDUCE = 1,
    MODEL_BARRIER,
    MODEL_BCAST,
    MODEL_REDUCE,
    MODEL_WAIT_COLLECTIVE,
    MODEL_SEND,
    MODEL_RECV,
    MODEL_RECV_ONE_OF,
    MODEL_SENDRECV,
    MODEL_WAIT_REQUEST,
    MODEL_NONBLOCKING, /* and from here on the same once more */
    MODEL_CALLS = 2 * MODEL_NONBLOCKING
};
extern const uint8_t model_calls[MODEL_CALLS];

enum model_kind {
    MODEL_COMPUTE,
    MODEL_STEP,
    MODEL_PHASE,
    MODEL_COLLECTIVE,
    MODEL_BEGIN,
    MODEL_END,
    MODEL_SENDS,
    MODEL_SENDS_EARLY, /* and goes on */
    MODEL_RECEIVES,
    MODEL_RECEIVES_ANY,
    MODEL_EXCHANGES,
    MODEL_SHIFTS, /* to the next of the members, from the one before */
    MODEL_ONE_OF,
    MODEL_POSTS, /* of a halo exchange: MPI_Irecv, then MPI_Send, then MPI_Wait */
    MODEL_HALO_SENDS,
    MODEL_HALO_WAITS,
    MODEL_BEGINS_SEND, /* MPI_Isend, and goes on; later its MPI_Wait */
    MODEL_ENDS_SEND,
    MODEL_RECEIVES_SLOWLY,
    MODEL_FOR_EVER,
};

struct model_event {
    uint32_t comm, call, root, a, b, c;
    bool sent, received, sent_too, lost;
    bool posted[2];      /* by a, by b */
    uint64_t arrives[2]; /* what a, what b has sent; 0: nothing yet */
    uint32_t flight;     /* ticks of each of these messages */
};

struct model_item {
    enum model_kind kind;
    uint32_t event; /* or, of what computes, for how many ticks */
};

/* What a rank has said when it came to an operation of a communicator. */
struct model_entry {
    uint32_t call, root, calls;
};

struct model_rank {
    struct model_item items[MODEL_ITEMS];
    uint32_t nitems, at;
    bool inside, stopped, finished, listens, mute;
    uint64_t until, moved, step, step_at, phase_at, inside_at;
    uint32_t calls; /* of MPI so far */
    uint64_t entered[MODEL_COMMS], left[MODEL_COMMS];
    uint64_t number[MODEL_EVENTS]; /* that this event's operation had here */
    struct model_entry log[MODEL_COMMS][MODEL_EVENTS + 1];
};

struct model {
    uint64_t seed, random, now, flies; /* until then some message does */
    uint32_t n, ncomms, nevents;
    uint32_t members[MODEL_COMMS][MODEL_RANKS], sizes[MODEL_COMMS];
    struct model_event events[MODEL_EVENTS];
    struct model_rank ranks[MODEL_RANKS];
    enum model_fault fault;
    uint32_t who, other, fault_event;
};

/* False when this program leaves no room for the fault. */
bool model_make(struct model *m, uint64_t seed, enum model_fault fault);

uint32_t model_random(struct model *m, uint32_t below);

void model_tick(struct model *m);
/* Nobody will ever move again, unless it computes for ever. */
bool model_is_still(const struct model *m);
bool model_is_over(const struct model *m);

void model_look(const struct model *m, uint32_t rank, struct dlr_look *ret);
uint64_t model_still_ns(const struct model *m, uint32_t rank);

#endif
