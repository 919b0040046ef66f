/* SPDX-License-Identifier: Apache-2.0 */
/* Whether ranks of live nodes move after a swap, so that fewer neighbours in rank order
 * are on two leaves. Private to the plan.
 */
#ifndef DLR_MPI_LAUNCHER_PLAN_REORDER_H
#define DLR_MPI_LAUNCHER_PLAN_REORDER_H

#include "mpi_launcher/plan/nodes.h"

/* What a step sends from a node to its neighbour is not known. Assumed is this share of
 * the node's snapshot: with sixteen bytes of state for each parameter two bytes of
 * gradient that go round the ring twice.
 */
#define DLR_PLAN_SENT 0.25

/* Weighs moves against what they save, by what want says of the job:
 *   gain_ms  what DLR_PLAN_SENT of a snapshot takes, once for each neighbour (and each
 *            group) that is on one leaf then and is not now, in each step that is
 *            expected
 *   cost_ms  what a snapshot takes, once for each of those that come to one leaf and
 *            share its link
 * Sets them and taken in *r, whose moves and saves are known; most as in
 * struct dlr_topo_moves.
 */
void dlr_plan_reorder_weigh(const struct dlr_plan_want *want, unsigned most,
                            struct dlr_plan_reorder *r);

/* place[] of a round that has a former one, each lost node replaced: moves ranks of live
 * nodes where the user wants that and it saves something, and says so in *ret. Where
 * places have unlike numbers of tasks, or the user's list is the order, nobody moves.
 * 0 or -ENOMEM.
 */
int dlr_plan_reorder(const struct dlr_plan_nodes *pn, const struct dlr_plan_want *want,
                     unsigned group, unsigned *place, struct dlr_plan_reorder *ret);

#endif
