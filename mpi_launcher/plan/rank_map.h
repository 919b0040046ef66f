/* SPDX-License-Identifier: Apache-2.0 */
/* On which node each rank of the program is, collected from what the nodes' processes
 * say when they open their checkpoints. A launcher below Slurm's tasks (torchrun,
 * mpirun, a shell that forks) starts more ranks than there are tasks, in an order of
 * its own. Pure: no I/O, no clock.
 */
#ifndef DLR_MPI_LAUNCHER_PLAN_RANK_MAP_H
#define DLR_MPI_LAUNCHER_PLAN_RANK_MAP_H

#include <stdbool.h>
#include <stddef.h>

#define DLR_RANKMAP_TEXT 512

struct dlr_rankmap;

/* A process of a node that has opened its checkpoint, or is about to. */
struct dlr_rankmap_claim {
    unsigned rank, world;
    bool served; /* it has been let in; else it waits */
};

enum dlr_rankmap_state {
    DLR_RANKMAP_OPEN,  /* ranks are missing */
    DLR_RANKMAP_WHOLE, /* each rank is somewhere, once */
    /* it cannot become whole: a rank is there twice, beside all others */
    DLR_RANKMAP_TORN,
};

/* Of so many nodes, none of which has said anything. NULL: out of memory. */
struct dlr_rankmap *dlr_rankmap_new(unsigned nnodes);
struct dlr_rankmap *dlr_rankmap_free(struct dlr_rankmap *map);

/* All that is on node now, in place of what it said before; claims stays the caller's.
 * lost: one that had been let in has gone: then those that are in still are of a former
 * start of the program, and nothing is whole beside them. -EINVAL: a claim that cannot
 * be (the former word stays); -ENOMEM.
 */
int dlr_rankmap_tell(struct dlr_rankmap *map, unsigned node,
                     const struct dlr_rankmap_claim *claims, unsigned n, bool lost);

/* Nothing is whole before node has said what is there: a few processes that are a world
 * of their own must not take the place of ranks that have not been heard of yet.
 */
void dlr_rankmap_await(struct dlr_rankmap *map, unsigned node);

/* Does any process wait? */
bool dlr_rankmap_waits(const struct dlr_rankmap *map);

/* Where it stands. Whole: *ret_nodes has the node of each of *ret_world ranks, the
 * caller's to free. Else why says in one line who is missing, or what contradicts what;
 * names are the nodes' names. -ENOMEM.
 */
int dlr_rankmap_look(const struct dlr_rankmap *map, const char *const *names,
                     unsigned **ret_nodes, unsigned *ret_world,
                     char why[DLR_RANKMAP_TEXT]);

#endif
