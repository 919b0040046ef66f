/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes a plan can choose from, in one order whatever order reports came in.
 * Private to the plan.
 */
#ifndef DLR_MPI_LAUNCHER_PLAN_NODES_H
#define DLR_MPI_LAUNCHER_PLAN_NODES_H

#include "mpi_launcher/plan/plan.h"

struct dlr_plan_nodes {
    unsigned n; /* nodes that reported, by the bytes of names */
    const struct dlr_plan_report **report; /* [n] */
    unsigned nall; /* and after them the former round's nodes that did not */
    struct dlr_topo_node *node; /* [nall] */
    unsigned char *usable;      /* [nall] it reported, has no fault and has room */
    unsigned char *failed;      /* [n] a check; usable: it is slow, and in doubt */
    const char **full;          /* [n] why it has no room, or comes last; NULL none */
    unsigned char *doubt; /* [nall] most others cannot reach it, it is slow or last */
    unsigned *silent_by;  /* [n] how many of them */
    unsigned *voters;     /* [n] of how many */
    unsigned *seat;       /* [nformer] index of each former seat's node */
};

/* 0, -EEXIST, -ENOMEM. dlr_plan_nodes_done() in every case. */
int dlr_plan_nodes_init(struct dlr_plan_nodes *pn,
                        const struct dlr_plan_report *reports, unsigned nreports,
                        const struct dlr_plan_want *want, struct dlr_err *err);
void dlr_plan_nodes_done(struct dlr_plan_nodes *pn);

/* Index of a node that reported, or -1. */
long dlr_plan_nodes_find(const struct dlr_plan_nodes *pn, const char *name);

/* The restore part of a plan. place_node[p] is the index of the node at place p; NULL
 * when nobody has a place.
 */
int dlr_plan_choose(const struct dlr_plan_nodes *pn, const struct dlr_plan_want *want,
                    const unsigned *place_node, struct dlr_plan *plan,
                    struct dlr_err *err);

#endif
