/* SPDX-License-Identifier: Apache-2.0 */
/* Who keeps whose copies or parity, across failure domains, and what that survives.
 * Pure functions of the places' nodes.
 */
#ifndef DLR_HWLOC_TOPO_HOLDERS_H
#define DLR_HWLOC_TOPO_HOLDERS_H

#include <stdbool.h>

#include "hwloc_topo/topo.h"

/* Sets are dealt out: places s, s + nsets, s + 2 nsets ... are set s, and rows other
 * places hold one part each for it: a copy where a set is one place (nsets is nplaces),
 * else a shard of parity. A set is lost when more than rows of its places and holders
 * are.
 */
struct dlr_topo_sets {
    const struct dlr_topo_node *nodes;
    const unsigned *place; /* [nplaces] index into nodes; NULL: place p is node p */
    size_t nplaces;
    unsigned nsets; /* 1 to nplaces */
    unsigned rows;  /* at most nplaces less the places of set 0 */
};

/* ret_holder[set * rows + row]. The holders of a set are different places outside it.
 * A place holds as many parts as any other, or as can be: at most two more.
 *
 * Parts begin at equal distances on the ring of places, which says nothing about nodes:
 * an order that keeps leaves together then has them apart already. Parts that are on one
 * leaf with another of their set (or, where that must be, in one domain) are exchanged
 * with others until no exchange, among the DLR_TOPO_EXCHANGES next, helps. With one
 * part each of sets of one place no assignment has fewer on their own leaf (up to that
 * many places). So a node that is replaced changes the holders of its own sets and of
 * those that they are exchanged with, not of all. 0 or -ENOMEM.
 */
#define DLR_TOPO_EXCHANGES 512u
int dlr_topo_holders(const struct dlr_topo_sets *sets, unsigned *ret_holder);

/* For each place the place that keeps the copy of its node's snapshots: a permutation
 * without a fixed point (n >= 2), so that every node keeps exactly one other's; on
 * another leaf for as many places as can be (all, unless one leaf holds more than half
 * of the nodes); deterministic. For n < 2 ret_partner[0] = 0: there is nobody to keep a
 * copy.
 */
void dlr_topo_partners(const struct dlr_topo_node *nodes, const unsigned *place,
                       size_t nplaces, unsigned *ret_partner);

/* The same for several copies: ret_holder[p * copies + j], all different and none p
 * itself. Every place keeps as many copies as are kept of it. copies is from 1 to
 * DLR_TOPO_COPIES_MAX and less than nplaces (or nplaces < 2).
 */
#define DLR_TOPO_COPIES_MAX 4
void dlr_topo_copies(const struct dlr_topo_node *nodes, const unsigned *place,
                     size_t nplaces, unsigned copies, unsigned *ret_holder);

/* What a failure of one thing takes: the sets that are lost with it. */
struct dlr_topo_loss {
    unsigned things; /* leaves, or domains, that there are */
    unsigned bad;    /* of them take a set with them */
    unsigned place;  /* the first that fails with one of those */
    unsigned most;   /* parts of one set that fail together */
};

struct dlr_topo_survival {
    struct dlr_topo_loss leaf;   /* things 0: no switches are known */
    struct dlr_topo_loss domain; /* things 0: there is none below a leaf */
    unsigned nodes;              /* any so many nodes may be lost at once */
};
/* Computed from the holders themselves, not from how they were chosen. 0 or -ENOMEM. */
int dlr_topo_survives(const struct dlr_topo_sets *sets, const unsigned *holder,
                      struct dlr_topo_survival *ret);

/* "any 2 nodes, any one leaf switch"; "any one node, not leaf switch 'l0' (1 of 3)": the
 * first of those whose loss takes data, how many they are, of how many. 0 or
 * -ENAMETOOLONG.
 */
#define DLR_TOPO_SURVIVAL_TEXT 640
int dlr_topo_survival_text(const struct dlr_topo_sets *sets,
                           const struct dlr_topo_survival *survival, char *buf,
                           size_t size);

#endif
