/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/plan/reorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "hwloc_topo/rank_order.h"

void dlr_plan_reorder_weigh(const struct dlr_plan_want *want, unsigned most,
                            struct dlr_plan_reorder *r)
{
    r->gain_ms = DLR_PLAN_SENT * r->saves * want->fetch_ms * want->steps;
    r->cost_ms = want->fetch_ms * (most ? most : 1);
    r->taken = !want->weigh || r->gain_ms > r->cost_ms;
}

static bool may_move(const struct dlr_plan_want *want)
{
    if (!want->reorder || want->ordered)
        return false;
    for (unsigned p = 1; p < want->nplaces; p++)
        if (want->tasks[p] != want->tasks[0])
            return false;
    return true;
}

int dlr_plan_reorder(const struct dlr_plan_nodes *pn, const struct dlr_plan_want *want,
                     unsigned group, unsigned *place, struct dlr_plan_reorder *ret)
{
    DLR_AUTO_FREE unsigned *to = calloc(want->nplaces, sizeof(*to));
    struct dlr_topo_moves moves;
    struct dlr_topo_cost now, then;

    if (!may_move(want))
        return 0;
    if (!to || dlr_topo_renew(pn->node, place, want->nplaces, group, to, &moves) < 0 ||
        dlr_topo_cost(pn->node, place, want->nplaces, group, &now) < 0 ||
        dlr_topo_cost(pn->node, to, want->nplaces, group, &then) < 0)
        return -ENOMEM;
    if (now.apart + now.split <= then.apart + then.split)
        return 0;
    ret->moves = moves.nodes;
    ret->saves = now.apart + now.split - then.apart - then.split;
    dlr_plan_reorder_weigh(want, moves.most, ret);
    if (ret->taken)
        memcpy(place, to, want->nplaces * sizeof(*place));
    return 0;
}
