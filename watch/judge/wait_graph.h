/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank waits for which, as a graph: of the ranks that stand still the calls in
 * which they are, of the communicators of these calls the members. For watch/judge/judge.c.
 */
#ifndef DLR_WATCH_JUDGE_WAIT_GRAPH_H
#define DLR_WATCH_JUDGE_WAIT_GRAPH_H

#include "watch/judge/judge.h"
#include "watch/judge/place.h"

#define DLR_WAIT_NONE UINT32_MAX

/* A rank in a communicator in which somebody waits. */
struct dlr_wait_member {
    uint32_t group, rank;
    uint32_t at;      /* among the group's by what they have entered, fewest first */
    uint32_t number;  /* its rank there */
    uint64_t entered; /* comm->entered */
    const struct dlr_look_comm *comm;
};

struct dlr_wait_group {
    uint64_t id;
    uint32_t size;
    uint32_t first, count; /* in by_number and by_entered */
    bool odd;              /* what its members say of it cannot all be true */
    bool whole;            /* all members are known */
    uint64_t idle_from;    /* an operation above may wait for one that has begun it */
    uint32_t waits, nwaits, any, nany; /* in waits: those with AMONG, with ANY */
};

enum dlr_wait_kind {
    DLR_WAIT_UNKNOWN, /* for ranks of which nothing is known */
    DLR_WAIT_AMONG,   /* for the first `for_whom` members of the group */
    DLR_WAIT_INSIDE,  /* all have entered; some of them do not wait there */
    DLR_WAIT_FLIGHT,  /* all that is waited for has been begun by the others */
    DLR_WAIT_PEER,    /* for the rank `for_whom` */
    DLR_WAIT_ANY,     /* for any member of the group */
};

/* A call of a rank: of rank r those from r * DLR_LOOK_CALLS on. */
struct dlr_wait {
    uint8_t kind;
    bool used, partly; /* partly: some of those waited for are not known */
    bool one_of;       /* the call has others: one may be all that is missing */
    uint32_t group, for_whom;
    uint32_t lead; /* the wait that is over when this one is: the first of its call */
    uint64_t number;
};

struct dlr_wait_graph {
    const struct dlr_judge_input *in;
    uint8_t *places; /* enum dlr_place */
    struct dlr_wait *waits;
    struct dlr_wait_group *groups;
    uint32_t ngroups;
    struct dlr_wait_member *members; /* by rank: of r from of_rank[r] on */
    uint32_t nmembers, *of_rank;
    uint32_t *by_number, *by_entered; /* members of each group */
    uint32_t *in_group;               /* waits with AMONG or ANY of each group */
    uint32_t nin_group;
    uint32_t *to_peer; /* waits with PEER, by whom they are for */
    uint32_t nto_peer;
    uint32_t *slots; /* hash table of groups */
    size_t nslots;
};

/* -ENOMEM; done in any case. */
int dlr_wait_graph_init(struct dlr_wait_graph *g, const struct dlr_judge_input *in);
void dlr_wait_graph_done(struct dlr_wait_graph *g);

/* The waits for one rank: *ret_n of them. */
const uint32_t *dlr_wait_graph_for(const struct dlr_wait_graph *g, uint32_t rank,
                                   size_t *ret_n);

enum dlr_held { DLR_HELD_NOT, DLR_HELD_BY_OTHERS, DLR_HELD_EACH_OTHER };

/* Of those that WAIT the ones that can never go on, whatever those do that do not: held
 * has room for an enum dlr_held of each rank. Strict: they hold each other by waits that
 * no other rank can end; only where none do by any. -ENOMEM.
 */
int dlr_wait_graph_deadlock(const struct dlr_wait_graph *g, uint8_t *held,
                            bool *ret_strict);

#endif
