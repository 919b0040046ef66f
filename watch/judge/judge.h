/* SPDX-License-Identifier: Apache-2.0 */
/* Who is to blame when a job stands still: the ranks for which the others wait and that
 * wait for nobody, from what two looks at all ranks have found. Pure: no clock, no I/O;
 * n log n for n ranks. Its rules: docs/hangs.md.
 */
#ifndef DLR_WATCH_JUDGE_JUDGE_H
#define DLR_WATCH_JUDGE_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watch/look.h"

/* What is known of a call, by the interposer's number of it. One that sends and receives
 * has one tag on its lines, which says nothing of the other.
 */
#define DLR_CALL_SENDS 1u
#define DLR_CALL_RECEIVES 2u
#define DLR_CALL_ONE_OF 4u /* of its requests one is enough, as for MPI_Waitany */
#define DLR_CALL_ALONE 8u  /* waits for no rank that could be named: files, windows */
#define DLR_CALL_NEIGHBORS 16u /* a collective that waits for some of the members */
#define DLR_CALL_POLLS 32u     /* asks and returns: in between the rank may compute */

enum dlr_verdict_kind {
    DLR_VERDICT_NONE,    /* it moves, or is where it may be */
    DLR_VERDICT_STILL,   /* named, nothing more: who it is may well be at work */
    DLR_VERDICT_STUCK,   /* proven: it will never move again by itself */
    DLR_VERDICT_UNKNOWN, /* ranks wait for some of which nothing is known */
};

/* In the order in which they are said: of several the first. */
enum dlr_blame {
    DLR_BLAME_NOBODY,
    DLR_BLAME_MISMATCH,    /* another operation, root or size than the others */
    DLR_BLAME_LEFT,        /* has finished or is dead, and others wait for it */
    DLR_BLAME_STOPPED,     /* by a signal */
    DLR_BLAME_DEADLOCK,    /* they wait for each other, all of them are named */
    DLR_BLAME_TRACED,      /* by a debugger */
    DLR_BLAME_DISK,        /* in a system call that cannot be interrupted */
    DLR_BLAME_NOT_ENTERED, /* has not come to a collective in which others are */
    DLR_BLAME_NOT_WAITED,  /* has begun one that all have begun, and does not wait */
    DLR_BLAME_AHEAD,       /* has gone on from one in which the others are held */
    DLR_BLAME_PEER,        /* others receive from it or send to it */
    DLR_BLAME_ANY_PEER,    /* the same, and any one of them would do */
    DLR_BLAME_NETWORK,     /* is where all have come that it waits for, and is held */
    DLR_BLAME_UNFINISHED,  /* all others have finished */
    DLR_BLAME_BEHIND,      /* at an earlier step than the others; no calls known */
    DLR_BLAME_ALL,         /* no rank waits for another */
    DLR_BLAME_NO_DATA,
};

enum dlr_part {
    DLR_PART_MOVES,
    DLR_PART_BUSY, /* does not move and waits for nobody */
    DLR_PART_WAITS,
    DLR_PART_CULPRIT,
    DLR_PART_UNKNOWN,
};

/* Of one rank, the two looks in the order of time. NULL: none. */
struct dlr_judge_rank {
    const struct dlr_look *before, *after;
    uint64_t still_ns; /* since something of it has moved, by its node's clock */
    uint64_t limit_ns; /* how long it may stand where it is (watch/judge/learn.h) */
};

struct dlr_judge_input {
    const struct dlr_judge_rank *ranks; /* of the whole world, by rank */
    size_t n;
    const uint8_t *calls; /* DLR_CALL_... by number; calls beyond are not known */
    size_t ncalls;
    bool suspended; /* the job is, by scontrol */
};

struct dlr_verdict {
    enum dlr_verdict_kind kind;
    enum dlr_blame blame;
    size_t moves, busy, waits, culprits, unknown; /* ranks */
    uint32_t first;                               /* the lowest culprit */
    bool first_step;    /* none of the culprits has begun a step */
    uint64_t waited_ns; /* by the one that waits longest */
    /* what most of them wait in; comm 0: nothing that can be named */
    uint64_t comm, number, bytes;
    uint32_t call;
};

/* parts has room for a byte for each rank, enum dlr_part. -ENOMEM; -EINVAL beyond 2^24
 * ranks.
 */
int dlr_judge(const struct dlr_judge_input *in, uint8_t *parts,
              struct dlr_verdict *ret);

/* At so much of its limit a rank that stands is named. */
static inline uint64_t dlr_judge_named_ns(uint64_t limit_ns)
{
    return limit_ns - limit_ns / 5;
}

/* "not entered", "deadlock", ... */
const char *dlr_blame_name(enum dlr_blame blame);

#endif
