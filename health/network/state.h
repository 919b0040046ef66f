/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the tournament. Private to this folder. */
#ifndef DLR_HEALTH_NETWORK_STATE_H
#define DLR_HEALTH_NETWORK_STATE_H

#include "health/network/tournament.h"

/* Nodes known to be good that have met one before it is blamed, and not its links. */
#define DLR_TOURNAMENT_EVIDENCE 2

struct dlr_tournament {
    unsigned n, rails;
    unsigned first, most,
        round; /* rounds of the circle, rounds at most, rounds so far */
    unsigned npairs;
    struct dlr_net_pair *pairs; /* [n / 2 * most] */
    struct dlr_net_seen *seen;  /* [npairs][2 * rails] */
    unsigned *met;              /* [n][most] pairs of each node */
    unsigned char *nmet;        /* [n] how many */
    uint64_t *leaf;             /* [n] switch of each; all 0: unknown */
};

struct dlr_net_reference {
    float usual, spread; /* median and MAD, of times */
};

/* What is thought of the nodes and links of one rail. Times are us, or us for a
 * megabyte; INFINITY is no data.
 */
struct dlr_net_opinion {
    float *best[DLR_NET_METRICS];          /* [n] of each node's links */
    unsigned char *grade[DLR_NET_METRICS]; /* [n] of each node, for the metric */
    unsigned char *node;                   /* [n] the worst of these */
    struct dlr_net_reference nodes[DLR_NET_METRICS];
    struct dlr_net_reference links[2][DLR_NET_METRICS]; /* of one leaf, between two */
};

/* 0, -ENOMEM; dlr_net_opinion_done() in every case. */
int dlr_net_opinion_make(const struct dlr_tournament *t, unsigned rail,
                         struct dlr_net_opinion *ret);
void dlr_net_opinion_done(struct dlr_net_opinion *o);

/* The pair in which a and b have met; NULL: they have not. */
const struct dlr_net_pair *dlr_net_met(const struct dlr_tournament *t, unsigned a,
                                       unsigned b);

/* How many nodes that are known to be good this one has met. */
unsigned dlr_net_evidence(const struct dlr_tournament *t,
                          const struct dlr_net_opinion *o, unsigned node);

/* What is usual for links like this one. */
const struct dlr_net_reference *dlr_net_usual(const struct dlr_tournament *t,
                                              const struct dlr_net_opinion *o,
                                              const struct dlr_net_pair *p,
                                              enum dlr_net_metric metric);

/* The time of a pair, from side (0: a) to the other for DLR_NET_OUT; its grade there
 * when that is worse than what its two nodes explain, else GOOD.
 */
float dlr_net_pair_time(const struct dlr_tournament *t, const struct dlr_net_pair *p,
                        unsigned rail, enum dlr_net_metric metric, unsigned side);
enum dlr_net_grade dlr_net_unexplained(const struct dlr_tournament *t,
                                       const struct dlr_net_opinion *o,
                                       const struct dlr_net_pair *p, unsigned rail,
                                       enum dlr_net_metric metric, unsigned side);

#endif
