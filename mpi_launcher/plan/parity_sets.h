/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks share parity. Places are dealt out to sets in turn, so that neighbours,
 * which sit on one leaf switch, are in different ones; the i-th ranks of a set's places
 * are a group, and each group has its parity shards on places outside the set. All of
 * it follows from the number of places and tasks, so it stays as it is when nodes are
 * replaced and over a requeue.
 */
#ifndef DLR_MPI_LAUNCHER_PLAN_PARITY_SETS_H
#define DLR_MPI_LAUNCHER_PLAN_PARITY_SETS_H

#include <stdbool.h>
#include <stddef.h>

#include "ckpt/redundancy/parity.h"
#include "hwloc_topo/holders.h"

struct dlr_parity_sets {
    unsigned nplaces, world;
    unsigned nsets, rows; /* rows: parity shards of a group */
    unsigned *first; /* [nplaces + 1] where each place begins in ranks, then world */
    unsigned *ranks; /* [world] of place 0, then of place 1 ... */
    unsigned *at;    /* [world] where a rank is in ranks */
};

/* Sets of at most members places, and of fewer where less than rows places would be
 * outside. ranks: of place 0, then of place 1 ...; NULL: 0, 1 ... -EINVAL when there
 * are no more places than rows. dlr_parity_sets_done().
 */
int dlr_parity_sets_init(struct dlr_parity_sets *sets, unsigned nplaces,
                         const unsigned *tasks, const unsigned *ranks, unsigned members,
                         unsigned rows);
void dlr_parity_sets_done(struct dlr_parity_sets *sets);

/* The ranks of rank's group, by place; their number. A rank's number in it is its
 * shard's.
 */
unsigned dlr_parity_sets_group(const struct dlr_parity_sets *sets, unsigned rank,
                               unsigned ret_ranks[DLR_PARITY_DATA_MAX]);

/* How the slots of a group's parity shards are numbered: beyond all ranks. */
unsigned dlr_parity_sets_shard(const struct dlr_parity_sets *sets,
                               unsigned first_of_group, unsigned row);

/* The sets as hwloc_topo/holders.h has them; nodes[p] is place p's and stays the
 * caller's.
 */
struct dlr_topo_sets dlr_parity_sets_places(const struct dlr_parity_sets *sets,
                                            const struct dlr_topo_node *nodes);

/* For each place the places that hold its set's shards: ret_holder[place * rows + row].
 * No place holds more than two beyond any other; on leaves without a member where there
 * are.
 */
int dlr_parity_sets_holders(const struct dlr_parity_sets *sets,
                            const struct dlr_topo_node *nodes, unsigned *ret_holder);

/* "RANK*COEF ..": what the parity shard number row of rank's group is made of. */
int dlr_parity_sets_parity_terms(const struct dlr_parity_sets *sets, unsigned rank,
                                 unsigned row, char *buf, size_t size);

/* The same for a rank that is lost: have[] are as many shards of its group as it has
 * ranks, as slots are numbered.
 */
int dlr_parity_sets_rebuild_terms(const struct dlr_parity_sets *sets, unsigned lost,
                                  const unsigned *have, char *buf, size_t size);

/* Where a lost rank can be made from: "SLOT@NODE ..", in memory of the caller's.
 * node_of says who has that slot, NULL nobody. -ENOENT: too little is left.
 * -ENAMETOOLONG.
 */
typedef const char *dlr_parity_sets_node_fn(void *arg, unsigned slot);
int dlr_parity_sets_sources(const struct dlr_parity_sets *sets, unsigned lost,
                            dlr_parity_sets_node_fn *node_of, void *arg, char *buf,
                            size_t size);
/* The same read back; their number, what cannot be read ends it. */
unsigned
dlr_parity_sets_read_sources(const char *text, unsigned ret_slot[DLR_PARITY_DATA_MAX],
                             char ret_node[DLR_PARITY_DATA_MAX][DLR_TOPO_NAME]);
/* Which of n sources makes rank, when that may be any node: of each lost rank of a
 * group another one, since a part that comes can go into one sum only. n: none of them,
 * or there are not as many sources as ranks of its group.
 */
typedef bool dlr_parity_sets_lost_fn(void *arg, unsigned rank);
unsigned dlr_parity_sets_maker(const struct dlr_parity_sets *sets, unsigned rank,
                               unsigned n, dlr_parity_sets_lost_fn *is_lost, void *arg);

#endif
