/* SPDX-License-Identifier: Apache-2.0 */
/* Which node, link or rail of the network is bad: nodes meet in rounds of pairs, each
 * measures what it sees of the other, and all compute the same verdicts. Pure: no
 * message is sent here, no clock read.
 *
 * The first rounds are those of the circle method, so that no two nodes meet twice; then
 * nodes without one good link meet their nearest ones that are known to be good, and
 * links that no node explains are measured once more. A network without a fault takes
 * max(3, ceil(log2 n)) rounds (never more than it has pairs for), one with faults at
 * most DLR_TOURNAMENT_AGAIN more.
 *
 * A node is judged by its best link, so that whom it met does not matter: two bad nodes
 * that meet stay bad, each with the others. Latency, bandwidth out and bandwidth in are
 * judged apart, each against median and median absolute deviation (MAD) of its own kind,
 * with floors below which a difference means nothing. Of two explanations the one with
 * fewer faults is told, a node before its links.
 *
 * What cannot be told apart, by anybody: of two nodes the bad one from their bad link
 * (told: the link); of three nodes two bad links from the node that they share (told:
 * the node); of two and three nodes all equally slow from none, unless a limit says so.
 * Where no node is known to be good only links are told.
 */
#ifndef DLR_HEALTH_NETWORK_TOURNAMENT_H
#define DLR_HEALTH_NETWORK_TOURNAMENT_H

#include <stdbool.h>

#include "health/health.h"

/* More than this is bad by itself: no network that a training is given is so slow.
 * Gigabit Ethernet carries 117 MB/s, and two hosts of one building are below 1 ms.
 */
#define DLR_NET_LATENCY_US 10000.0f
#define DLR_NET_MBPS 10.0f

#define DLR_TOURNAMENT_AGAIN 3 /* rounds beyond the first ones */
#define DLR_TOURNAMENT_RAILS 8

/* What a node saw of its partner on one rail. All zero: no data. */
struct dlr_net_seen {
    float latency_us; /* half a round trip, the quickest of several */
    float mbps;       /* 10^6 bytes a second that came in */
    bool wrong;       /* bytes came that were not sent */
};

enum dlr_net_kind {
    DLR_NET_NODE, /* a, on every rail or on one of several */
    DLR_NET_LINK, /* between a and b */
};

enum dlr_net_grade {
    DLR_NET_GOOD,
    DLR_NET_SLOW,    /* slow but correct: a straggler */
    DLR_NET_BAD,     /* wrong, beyond a limit, or far below the others */
    DLR_NET_UNKNOWN, /* no data */
};

enum dlr_net_metric { DLR_NET_LATENCY, DLR_NET_OUT, DLR_NET_IN, DLR_NET_METRICS };

struct dlr_net_finding {
    enum dlr_net_kind kind;
    enum dlr_net_grade grade; /* never GOOD */
    enum dlr_net_metric metric;
    unsigned a, b;      /* DLR_NET_OUT: from a to b */
    int rail;           /* -1: all of them */
    float value, usual; /* us, or MB/s; 0: wrong bytes, or no data */
};

struct dlr_net_pair {
    unsigned a, b; /* a < b */
    unsigned tries;
    const struct dlr_net_seen *seen; /* [2 * rails]: at a, then at b, of each rail */
};

struct dlr_tournament; /* opaque */

/* For n nodes, 2 at least, and 1 to DLR_TOURNAMENT_RAILS rails. leaf[i] is any number
 * for the switch of node i, NULL unknown: links below one switch are compared with each
 * other, and so are those between two. Nodes that are near each other stand near each
 * other. -EINVAL, -ENOMEM.
 */
int dlr_tournament_new(unsigned n, unsigned rails, const uint64_t *leaf,
                       struct dlr_tournament **ret);
/* Accepts NULL, returns NULL. */
struct dlr_tournament *dlr_tournament_free(struct dlr_tournament *t);

/* The next round: whom each node meets; itself: nobody. False: there is none, or no
 * memory.
 */
bool dlr_tournament_next(struct dlr_tournament *t, unsigned *ret_partner);

/* What node i saw of partner[i] in that round: seen[i * rails + rail]. Of a pair that
 * meets again the better of each is kept; wrong bytes are never forgotten.
 */
void dlr_tournament_record(struct dlr_tournament *t, const unsigned *partner,
                           const struct dlr_net_seen *seen);

unsigned dlr_tournament_rounds(const struct dlr_tournament *t); /* so far */

/* Every pair that has met, in the order of their first meeting; borrowed. */
unsigned dlr_tournament_pairs(const struct dlr_tournament *t);
struct dlr_net_pair dlr_tournament_pair(const struct dlr_tournament *t, unsigned i);

/* What is bad, nodes first; *ret is the caller's, to be freed. Their number, or
 * -ENOMEM.
 */
int dlr_tournament_judge(const struct dlr_tournament *t, struct dlr_net_finding **ret);

/* The verdict of one node as the check "network", with the numbers in its reason. A bad
 * node is FAIL, a slow one WARN, or FAIL when stragglers are left out; what is bad with
 * a link, or not known, is WARN. names[n] is how reasons call the nodes.
 */
void dlr_tournament_say(const struct dlr_tournament *t,
                        const struct dlr_net_finding *findings, unsigned n,
                        const char *const *names, unsigned node, bool no_stragglers,
                        struct dlr_health_result *ret);

#endif
