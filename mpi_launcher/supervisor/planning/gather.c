/* SPDX-License-Identifier: Apache-2.0 */
/* Reports over the control plane: a rendezvous without MPI, or what survivors hold. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/supervisor.h"

static void gather_done(struct dlr_sup *s)
{
    struct dlr_plan plan = {0};
    struct dlr_plan_want want;
    struct dlr_err err = {0};
    int rc;

    s->gather.active = false;
    if (s->gather.for_persist) {
        dlr_sup_persist_reports(s);
        return;
    }
    dlr_sup_stop_rendezvous(s); /* by MPI: it is late */
    dlr_sup_fill_want(s, &want);
    rc = dlr_plan_make(s->gather.reports, s->gather.n, &want, &plan, &err);
    dlr_sup_take_plan(s, rc, &plan, err.text);
}

static void gather_check(struct dlr_sup *s)
{
    if (!s->gather.active)
        return;
    for (unsigned i = 0; i < s->members->n; i++)
        if (s->gather.asked[i])
            return;
    gather_done(s);
}

void dlr_sup_gather(struct dlr_sup *s, bool for_persist)
{
    struct dlr_gather *g = &s->gather;

    for (unsigned i = 0; i < g->n; i++)
        dlr_plan_report_done(&g->reports[i]);
    free(g->reports);
    free(g->asked);
    *g = (struct dlr_gather){
        .active = true, .for_persist = for_persist, .id = dlr_sup_ids(s, 1)};
    g->reports = calloc(s->members->n, sizeof(*g->reports));
    g->asked = calloc(s->members->n, 1);
    if (!g->reports || !g->asked) {
        g->active = false;
        return; /* the limit of the phase runs */
    }
    for (unsigned i = 0; i < s->members->n; i++) {
        json_t *msg;

        if (!dlr_sup_is_candidate(s->steps, i))
            continue;
        g->asked[i] = 1;
        msg = dlr_msg_new("report");
        json_object_set_new(msg, "id", json_integer(g->id));
        dlr_sup_send(s->nodes, i, msg);
    }
}

void dlr_sup_on_report(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    struct dlr_gather *g = &s->gather;
    struct dlr_plan_report *r;
    struct dlr_err err;
    uint64_t id;

    if (!g->active || dlr_msg_uint(msg, "id", INT64_MAX, &id) < 0 || id != g->id ||
        !g->asked[node])
        return;
    g->asked[node] = 0;
    r = &g->reports[g->n];
    if (dlr_plan_report_from_json(json_object_get(msg, "report"), r, &err) < 0)
        dlr_sup_refuse(s->nodes);
    else if (dlr_streq(r->node.name, s->members->list[node].node.name))
        g->n++;
    else
        dlr_plan_report_done(r);
    gather_check(s);
}

void dlr_sup_gather_lost(struct dlr_sup *s, unsigned node)
{
    if (!s->gather.active)
        return;
    s->gather.asked[node] = 0;
    if (s->gather.for_persist) /* a rendezvous begins anew by itself */
        gather_check(s);
    else
        s->gather.active = false;
}
