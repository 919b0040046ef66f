/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a round: places, spares, who is left out. What is restored: restore.c. */
#include "mpi_launcher/plan/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/inject.h"
#include "hwloc_topo/holders.h"
#include "hwloc_topo/rank_order.h"
#include "mpi_launcher/plan/json_fields.h"
#include "mpi_launcher/plan/nodes.h"
#include "mpi_launcher/plan/reorder.h"

static int no_memory(struct dlr_err *err)
{
    return dlr_fail(err, -ENOMEM, "out of memory");
}

/* Fills world, ranks and place_of. */
static int take_sizes(const struct dlr_plan_want *want, struct dlr_plan *plan,
                      struct dlr_err *err)
{
    uint64_t world = 0;
    unsigned p;
    int rc;

    if (!want->nplaces || want->nplaces > DLR_PLAN_NODES_MAX)
        return dlr_fail(err, -EINVAL, "%u places", want->nplaces);
    for (p = 0; p < want->nplaces; p++) {
        if (!want->tasks[p])
            return dlr_fail(err, -EINVAL, "place %u has no task", p);
        world += want->tasks[p];
    }
    if (world > DLR_PLAN_RANKS_MAX)
        return dlr_fail(err, -EINVAL, "more than %u ranks", DLR_PLAN_RANKS_MAX);
    plan->world = (unsigned)world;
    rc = dlr_plan_former_place(plan, want->tasks, want->nplaces, want->ranks);
    if (rc == -ENOMEM)
        return no_memory(err);
    return rc < 0 ? dlr_fail(err, -EINVAL, "the places do not have every rank once")
                  : 0;
}

/* --- who is left out -------------------------------------------------------------- */

/* Nodes in doubt come back, those with a place first, until there are enough: a network
 * that drops our probes, or one that is slow, must not stop a job that could run.
 */
static void end_doubt(struct dlr_plan_nodes *pn, const struct dlr_plan_want *want)
{
    unsigned good = 0, i;

    for (i = 0; i < pn->n; i++)
        good += pn->usable[i] && !pn->doubt[i];
    for (i = 0; i < want->nformer && good < want->nplaces; i++)
        if (pn->usable[pn->seat[i]] && pn->doubt[pn->seat[i]]) {
            pn->doubt[pn->seat[i]] = 0;
            good++;
        }
    for (i = 0; i < pn->n && good < want->nplaces; i++)
        if (pn->usable[i] && pn->doubt[i]) {
            pn->doubt[i] = 0;
            good++;
        }
}

static bool may_sit(const struct dlr_plan_nodes *pn, unsigned i)
{
    return pn->usable[i] && !pn->doubt[i];
}

static void why_out(const struct dlr_plan_nodes *pn, unsigned i,
                    struct dlr_plan_out *out)
{
    const struct dlr_plan_report *r = pn->report[i];
    unsigned k = 0;

    memcpy(out->node, r->node.name, sizeof(out->node));
    if (pn->full[i]) {
        dlr_format(out->reason, sizeof(out->reason), "%s", pn->full[i]);
        return;
    }
    if (!pn->failed[i]) {
        dlr_format(out->reason, sizeof(out->reason), "%u of %u nodes cannot reach it",
                   pn->silent_by[i], pn->voters[i]);
        return;
    }
    while (r->checks[k].verdict < DLR_HEALTH_FAIL)
        k++;
    dlr_format(out->reason, sizeof(out->reason), "%s: %s", r->checks[k].check,
               r->checks[k].reason);
}

/* A slow node that too few others replace takes part: a warning. */
static void keep_slow(struct dlr_plan_check *c)
{
    char reason[sizeof(c->reason)];

    if (c->verdict < DLR_HEALTH_FAIL)
        return;
    memcpy(reason, c->reason, sizeof(reason));
    c->verdict = DLR_HEALTH_WARN;
    snprintf(c->reason, sizeof(c->reason),
             "%.*s; it takes part: too few nodes without it",
             (int)sizeof(c->reason) - 48, reason);
}

static int list_out(const struct dlr_plan_nodes *pn, struct dlr_plan *plan)
{
    unsigned i, k, n = 0;

    for (i = 0; i < pn->n; i++)
        n += pn->report[i]->nchecks;
    plan->out = calloc(pn->n + 1, sizeof(*plan->out));
    plan->verdicts = calloc(n + 1, sizeof(*plan->verdicts));
    if (!plan->out || !plan->verdicts)
        return -ENOMEM;
    for (i = 0; i < pn->n; i++) {
        const struct dlr_plan_report *r = pn->report[i];

        if (!may_sit(pn, i))
            why_out(pn, i, &plan->out[plan->nout++]);
        for (k = 0; k < r->nchecks; k++)
            if (r->checks[k].verdict != DLR_HEALTH_OK ||
                dlr_after(r->checks[k].reason, DLR_INJECTED)) {
                struct dlr_plan_verdict *v = &plan->verdicts[plan->nverdicts++];

                memcpy(v->node, r->node.name, sizeof(v->node));
                v->check = r->checks[k];
                if (may_sit(pn, i))
                    keep_slow(&v->check);
            }
    }
    return 0;
}

/* --- places ----------------------------------------------------------------------- */

/* Places that belong together; 1: none do. */
static unsigned group_of(const struct dlr_plan_want *want)
{
    return want->group > 1 && want->nplaces % want->group == 0 ? want->group : 1;
}

/* Those preferred that may sit, then others in topology order; all of them in that
 * order, unless the list's own is asked for.
 */
static int place_preferred(const struct dlr_plan_nodes *pn, const unsigned *order,
                           unsigned n, const struct dlr_plan_want *want,
                           unsigned *ret_place)
{
    DLR_AUTO_FREE unsigned char *seated = calloc(pn->nall + 1, 1);
    DLR_AUTO_FREE unsigned *sorted = calloc(n + 1, sizeof(*sorted));
    unsigned p = 0, k = 0;

    if (!seated || !sorted)
        return -ENOMEM;
    for (unsigned i = 0; i < want->nprefer && p < want->nplaces; i++) {
        long at = dlr_plan_nodes_find(pn, want->prefer[i]);

        if (at >= 0 && may_sit(pn, at) && !seated[at]++)
            ret_place[p++] = at;
    }
    for (unsigned i = 0; i < n && p < want->nplaces; i++)
        if (!seated[order[i]]++)
            ret_place[p++] = order[i];
    if (want->ordered)
        return 0;
    for (unsigned i = 0; i < n; i++)
        if (seated[order[i]])
            sorted[k++] = order[i];
    return dlr_topo_choose(pn->node, sorted, k, k, group_of(want), ret_place);
}

static int place_again(const struct dlr_plan_nodes *pn,
                       const struct dlr_plan_want *want, unsigned *ret_place,
                       struct dlr_plan *plan, struct dlr_err *err)
{
    DLR_AUTO_FREE unsigned char *alive = calloc(pn->nall + 1, 1);
    unsigned i;
    int rc;

    if (!alive)
        return no_memory(err);
    for (i = 0; i < pn->nall; i++)
        alive[i] = may_sit(pn, i);
    rc = dlr_topo_replace(pn->node, pn->nall, pn->seat, want->nplaces, alive, ret_place,
                          err);
    return rc < 0
               ? rc
               : dlr_plan_reorder(pn, want, group_of(want), ret_place, &plan->reorder);
}

static int too_few(const struct dlr_plan_nodes *pn, const struct dlr_plan_want *want,
                   const struct dlr_plan *plan, unsigned good, struct dlr_err *err)
{
    char first[DLR_PLAN_NOTE + DLR_TOPO_NAME + 16] = "";

    if (plan->nout)
        dlr_format(first, sizeof(first), " (%s: %s)", plan->out[0].node,
                   plan->out[0].reason);
    return dlr_fail(err, -ENOSPC,
                    "%u nodes are needed, %u reported, %u of them are usable%.300s",
                    want->nplaces, pn->n, good, first);
}

/* place[p] gets the node of place p; the rest that may sit become the plan's spares. */
static int seat_nodes(struct dlr_plan_nodes *pn, const struct dlr_plan_want *want,
                      struct dlr_plan *plan, unsigned *place, struct dlr_err *err)
{
    DLR_AUTO_FREE unsigned *order = calloc(pn->n + 1, sizeof(*order));
    DLR_AUTO_FREE unsigned char *seated = calloc(pn->nall + 1, 1);
    unsigned good = 0, i;
    int rc = 0;

    plan->spares = calloc(pn->n + 1, sizeof(*plan->spares));
    if (!order || !seated || !plan->spares)
        return no_memory(err);
    dlr_topo_order(pn->node, pn->n, order);
    for (i = 0; i < pn->n; i++)
        if (may_sit(pn, order[i]))
            order[good++] = order[i];
    if (good < want->nplaces)
        return too_few(pn, want, plan, good, err);
    if (want->nformer == want->nplaces)
        rc = place_again(pn, want, place, plan, err);
    else if (want->nprefer)
        rc = place_preferred(pn, order, good, want, place);
    else
        rc = dlr_topo_choose(pn->node, order, good, want->nplaces, group_of(want),
                             place);
    if (rc < 0)
        return rc == -ENOMEM ? no_memory(err) : rc;
    for (i = 0; i < want->nplaces; i++)
        seated[place[i]] = 1;
    for (i = 0; i < good; i++)
        if (!seated[order[i]])
            plan->spares[plan->nspares++] = pn->node[order[i]];
    return 0;
}

static int fill_places(const struct dlr_plan_nodes *pn,
                       const struct dlr_plan_want *want, const unsigned *place,
                       struct dlr_plan *plan)
{
    DLR_AUTO_FREE unsigned *partner = calloc(want->nplaces, sizeof(*partner));
    unsigned rank = 0, p;

    plan->places = calloc(want->nplaces, sizeof(*plan->places));
    if (!partner || !plan->places)
        return -ENOMEM;
    dlr_topo_partners(pn->node, place, want->nplaces, partner);
    if (dlr_topo_cost(pn->node, place, want->nplaces, group_of(want), &plan->order) < 0)
        return -ENOMEM;
    plan->nplaces = want->nplaces;
    for (p = 0; p < want->nplaces; p++) {
        struct dlr_plan_place *at = &plan->places[p];

        at->node = pn->node[place[p]];
        at->cpus = pn->report[place[p]]->cpus;
        at->port = pn->report[place[p]]->port;
        at->from = rank;
        at->tasks = want->tasks[p];
        at->partner = partner[p];
        at->moved = want->nformer == want->nplaces && pn->seat[p] != place[p];
        rank += want->tasks[p];
    }
    return 0;
}

/* --- the whole -------------------------------------------------------------------- */

static void forget_places(struct dlr_plan *plan)
{
    free(plan->places);
    free(plan->spares);
    plan->places = NULL;
    plan->spares = NULL;
    plan->nplaces = plan->nspares = 0;
}

int dlr_plan_make(const struct dlr_plan_report *reports, unsigned nreports,
                  const struct dlr_plan_want *want, struct dlr_plan *ret_plan,
                  struct dlr_err *err)
{
    DLR_CLEANUP(dlr_plan_nodes_done) struct dlr_plan_nodes pn = {0};
    DLR_AUTO_FREE unsigned *place = NULL;
    int rc;

    memset(ret_plan, 0, sizeof(*ret_plan));
    rc = take_sizes(want, ret_plan, err);
    if (rc == 0)
        rc = dlr_plan_nodes_init(&pn, reports, nreports, want, err);
    if (rc < 0)
        return rc;
    end_doubt(&pn, want);
    place = calloc(want->nplaces, sizeof(*place));
    if (!place || list_out(&pn, ret_plan) < 0)
        return no_memory(err);
    rc = seat_nodes(&pn, want, ret_plan, place, err);
    if (rc == 0 && fill_places(&pn, want, place, ret_plan) < 0)
        rc = no_memory(err);
    if (rc == 0)
        rc = dlr_plan_choose(&pn, want, place, ret_plan, err);
    if (rc < 0)
        forget_places(ret_plan);
    return rc;
}

int dlr_plan_restorable(const struct dlr_plan_report *reports, unsigned nreports,
                        const struct dlr_plan_want *want, struct dlr_plan *ret_plan,
                        struct dlr_err *err)
{
    DLR_CLEANUP(dlr_plan_nodes_done) struct dlr_plan_nodes pn = {0};
    int rc;

    memset(ret_plan, 0, sizeof(*ret_plan));
    rc = take_sizes(want, ret_plan, err);
    if (rc == 0)
        rc = dlr_plan_nodes_init(&pn, reports, nreports, want, err);
    if (rc == 0)
        rc = dlr_plan_choose(&pn, want, NULL, ret_plan, err);
    return rc;
}

void dlr_plan_done(struct dlr_plan *plan)
{
    unsigned r;

    for (r = 0; plan->sources && r < plan->made_by; r++)
        free(plan->sources[r].where);
    free(plan->places);
    free(plan->ranks);
    free(plan->place_of);
    free(plan->spares);
    free(plan->out);
    free(plan->verdicts);
    free(plan->sources);
    free(plan->notes);
    memset(plan, 0, sizeof(*plan));
}
