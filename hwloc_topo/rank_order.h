/* SPDX-License-Identifier: Apache-2.0 */
/* Rank order: which nodes train, at which place, and who takes the place of a lost one.
 * Pure functions of the nodes' switch paths.
 *
 * The objective. Places stand in a ring: place i beside i + 1, the last beside the
 * first. Two nodes are apart at level l when their first l switches differ (all of
 * them, where a node has fewer). Counted are the neighbours that are apart, at the
 * deepest level first (NVLink domain, or leaf where there is none), then one level
 * above, and so on. Whoever has fewer at the first level that differs has the better
 * order. The fewest there can be at a level is the number of its switches that have a
 * place, or none if that is one; an order that keeps the nodes of each switch together
 * has the fewest at every level at once.
 *
 * Groups of more than one place come before that: as many of them as can be lie under
 * one switch of the deepest level, of the others as many as can be under one switch a
 * level above, and so on. That, too, is reached at every level at once. The ring then
 * has the fewest neighbours apart if every group is whole at the deepest level; if not,
 * those that are not come behind the whole ones of their switch.
 */
#ifndef DLR_HWLOC_TOPO_RANK_ORDER_H
#define DLR_HWLOC_TOPO_RANK_ORDER_H

#include "hwloc_topo/topo.h"

/* Sorts node indices so that nodes under one switch stand together, at every level;
 * among equals by natural name order ("n2" before "n10"). order[i] is an index into
 * nodes. The same input set in any order gives the same sequence of names.
 */
void dlr_topo_order(const struct dlr_topo_node *nodes, size_t n, unsigned *ret_order);

/* Chooses who trains, and where, when a job begins: of the n nodes in order
 * (dlr_topo_order() of those that can take part) nplaces, so that the objective above
 * is met by the choice, too; the others are spares. Of choices that are as good spares
 * come off the switch that has most nodes left, its last node first, so that every one
 * keeps a spare near. group: places that belong together, which must divide nplaces;
 * 1: none do. nplaces <= n. 0 or -ENOMEM.
 *
 * Of the spares so many are weighed that DLR_TOPO_CHOOSE_CELLS holds one cell for each
 * of them and each switch of the deepest level; more than that come off the fullest
 * switches.
 */
#define DLR_TOPO_CHOOSE_CELLS (1u << 22)
int dlr_topo_choose(const struct dlr_topo_node *nodes, const unsigned *order, size_t n,
                    size_t nplaces, unsigned group, unsigned *ret_place);

/* Chooses which node takes the place of each lost one so that only lost nodes' ranks
 * move.
 *   place[p]      index of the node at place p of the former round (places in rank
 *   order)
 *   alive[i]      whether node i can take part
 * For every lost place a node that is alive and not in any place is chosen: as many as
 * can be from the lost node's own domain or leaf, of the others as many as can be from
 * a level above, and so on; in the order of places and of dlr_topo_order(). Each
 * changes two neighbours, so no more than two more are apart at any level for each lost
 * place. ret_place gets the new assignment. 0, or -ENOSPC when there are fewer free
 * nodes than lost places (ret_place untouched, err says how many are short).
 */
int dlr_topo_replace(const struct dlr_topo_node *nodes, size_t n, const unsigned *place,
                     size_t nplaces, const unsigned char *alive, unsigned *ret_place,
                     struct dlr_err *err);

/* Orders the nodes that have places anew, after a loss, by the same objective, so that as
 * many as can be keep their places in it: of nodes that hang on one switch any may have
 * any of its places.
 *   place[p]      index of the node at place p; ret_place gets the new one, which may be
 *                 the same array
 */
struct dlr_topo_moves {
    unsigned nodes; /* have another place */
    unsigned most;  /* on one leaf that take a place of another one's node */
};
/* 0 or -ENOMEM (ret_place untouched). */
int dlr_topo_renew(const struct dlr_topo_node *nodes, const unsigned *place,
                   size_t nplaces, unsigned group, unsigned *ret_place,
                   struct dlr_topo_moves *ret);

/* What an order costs. Whatever is below the leaf does not count here. */
struct dlr_topo_cost {
    unsigned apart;  /* neighbours of the ring on two leaves */
    unsigned least;  /* the fewest there can be with these nodes */
    unsigned split;  /* groups on more than one leaf; 0 when group is 1 */
    unsigned first;  /* the first of them, by number from 0 */
    unsigned leaves; /* of that one */
};
/* 0 or -ENOMEM. */
int dlr_topo_cost(const struct dlr_topo_node *nodes, const unsigned *place,
                  size_t nplaces, unsigned group, struct dlr_topo_cost *ret);

#endif
