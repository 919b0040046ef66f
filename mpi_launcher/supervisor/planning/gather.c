/* SPDX-License-Identifier: Apache-2.0 */
/* Reports over the control plane: a rendezvous without MPI, or what nodes hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"

static void gather_done(struct dlr_sup_planning *planning)
{
    struct dlr_plan plan = {0};
    struct dlr_plan_want want;
    struct dlr_err err = {0};
    int rc;

    planning->gather.active = false;
    if (!planning->gather.for_plan) {
        planning->ops->reported(planning->arg, planning->gather.reports,
                                planning->gather.n);
        return;
    }
    dlr_sup_rendezvous_stop(planning); /* by MPI: it is late */
    dlr_sup_fill_want(planning, &want);
    rc =
        dlr_plan_make(planning->gather.reports, planning->gather.n, &want, &plan, &err);
    planning->ops->planned(planning->arg, rc, &plan, err.text);
}

static void gather_check(struct dlr_sup_planning *planning)
{
    if (!planning->gather.active)
        return;
    for (unsigned i = 0; i < planning->members->n; i++)
        if (planning->gather.asked[i])
            return;
    gather_done(planning);
}

void dlr_sup_gather_drop(struct dlr_sup_planning *planning)
{
    struct dlr_sup_gather *g = &planning->gather;

    for (unsigned i = 0; i < g->n; i++)
        dlr_plan_report_done(&g->reports[i]);
    free(g->reports);
    free(g->asked);
    *g = (struct dlr_sup_gather){0};
}

void dlr_sup_gather_start(struct dlr_sup_planning *planning, bool for_plan)
{
    struct dlr_sup_gather *g = &planning->gather;

    dlr_sup_gather_drop(planning);
    *g = (struct dlr_sup_gather){.active = true,
                                 .for_plan = for_plan,
                                 .id = planning->ops->request(planning->arg)};
    g->reports = calloc(planning->members->n, sizeof(*g->reports));
    g->asked = calloc(planning->members->n, 1);
    if (!g->reports || !g->asked) {
        g->active = false;
        return; /* the limit of the phase runs */
    }
    for (unsigned i = 0; i < planning->members->n; i++) {
        json_t *msg;

        if (!dlr_sup_is_candidate(planning->env.steps, i))
            continue;
        g->asked[i] = 1;
        msg = dlr_msg_new("report");
        json_object_set_new(msg, "id", json_integer(g->id));
        dlr_sup_send(planning->env.nodes, i, msg);
    }
}

void dlr_sup_gather(struct dlr_sup_planning *planning)
{
    dlr_sup_gather_start(planning, false);
}

void dlr_sup_gather_stop(struct dlr_sup_planning *planning)
{
    planning->gather.active = false;
}

void dlr_sup_gather_report(struct dlr_sup_planning *planning, unsigned node,
                           const json_t *msg)
{
    struct dlr_sup_gather *g = &planning->gather;
    struct dlr_plan_report *r;
    struct dlr_err err;
    uint64_t id;

    if (!g->active || dlr_msg_uint(msg, "id", INT64_MAX, &id) < 0 || id != g->id ||
        !g->asked[node])
        return;
    g->asked[node] = 0;
    r = &g->reports[g->n];
    if (dlr_plan_report_from_json(json_object_get(msg, "report"), r, &err) == 0) {
        const struct dlr_member *m = &planning->members->list[node];

        if (m->mapped)
            memcpy(r->node.path, m->node.path, sizeof(r->node.path));
        if (dlr_streq(r->node.name, m->node.name))
            g->n++;
        else
            dlr_plan_report_done(r);
    }
    gather_check(planning);
}

void dlr_sup_gather_lost(struct dlr_sup_planning *planning, unsigned node)
{
    if (!planning->gather.active)
        return;
    planning->gather.asked[node] = 0;
    if (planning->gather.for_plan) /* a rendezvous begins anew by itself */
        planning->gather.active = false;
    else
        gather_check(planning);
}
