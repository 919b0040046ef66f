/* SPDX-License-Identifier: Apache-2.0 */
/* The plan that a round has: what it must know, how it is taken, what is told of it. */
#include "mpi_launcher/supervisor/planning/plan_in_force.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/loss_rate.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/planning/verdicts.h"
#include "mpi_launcher/supervisor/planning/version_json.h"

const struct dlr_plan *dlr_sup_plan(const struct dlr_sup_planning *planning)
{
    return &planning->plan;
}

int dlr_sup_place_of(const struct dlr_sup_planning *planning, unsigned rank)
{
    return planning->plan.place_of[rank];
}

int dlr_sup_node_of(const struct dlr_sup_planning *planning, unsigned place)
{
    return dlr_members_find(planning->members, planning->plan.places[place].node.name);
}

void dlr_sup_fill_want(struct dlr_sup_planning *planning, struct dlr_plan_want *want)
{
    memset(want, 0, sizeof(*want));
    dlr_sup_want_places(planning, want);
    dlr_format(want->batch, sizeof(want->batch), "%s",
               dlr_sup_batch(planning->env.nodes));
    want->former = planning->former;
    want->nformer = planning->nformer;
    want->prefer = planning->prefer;
    want->nprefer = planning->prefer ? planning->step.nprefer : 0;
    want->ordered = planning->step.ordered;
    want->group = planning->env.conf->group;
    want->reorder = planning->env.conf->reorder != DLR_REORDER_NEVER;
    want->weigh = planning->env.conf->reorder == DLR_REORDER_AUTO;
    want->full = planning->full;
    want->nfull = planning->nfull;
    planning->ops->want(planning->arg, want);
}

/* --- what is told of it ----------------------------------------------------------- */

static json_t *place_row(const struct dlr_sup_planning *planning, unsigned place)
{
    const struct dlr_plan *plan = &planning->plan;
    const struct dlr_plan_place *p = &plan->places[place];
    char leaf[DLR_TOPO_NAME] = "";
    json_t *row;

    dlr_topo_leaf(&p->node, leaf, sizeof(leaf));
    row = json_pack("{s:s,s:s,s:s,s:i,s:i,s:o*,s:b}", "node", p->node.name, "leaf",
                    leaf, "path", p->node.path, "first", plan->ranks[p->from], "tasks",
                    p->tasks, "ranks", dlr_plan_place_ranks(plan, place), "moved",
                    p->moved);
    if (p->partner != place)
        json_object_set_new(row, "partner",
                            json_string(plan->places[p->partner].node.name));
    planning->ops->beside(planning->arg, place, row);
    return row;
}

static json_t *order_row(const struct dlr_topo_cost *order)
{
    return json_pack("{s:i,s:i,s:i}", "apart", (int)order->apart, "least",
                     (int)order->least, "split", (int)order->split);
}

static json_t *reorder_row(const struct dlr_plan_reorder *r)
{
    return json_pack("{s:i,s:i,s:b,s:f,s:f}", "moves", (int)r->moves, "saves",
                     (int)r->saves, "taken", r->taken, "gain_s", r->gain_ms / 1e3,
                     "cost_s", r->cost_ms / 1e3);
}

/* Once, and when it changes. */
static void tell_groups(struct dlr_sup_planning *planning)
{
    const struct dlr_topo_cost *order = &planning->plan.order;
    unsigned group = planning->env.conf->group;

    if (order->split == planning->split)
        return;
    planning->split = order->split;
    if (order->split)
        dlr_user_line(planning->env.io,
                      "--dlrover-group=%u: %u of %u groups are not under one leaf "
                      "switch, the first is of places %u to %u, under %u",
                      group, order->split, planning->plan.nplaces / group,
                      order->first * group, order->first * group + group - 1,
                      order->leaves);
}

json_t *dlr_sup_plan_rows(const struct dlr_sup_planning *planning)
{
    const struct dlr_plan *plan = &planning->plan;
    json_t *places = json_array(), *spares = json_array(), *row;

    for (unsigned i = 0; i < plan->nplaces; i++)
        json_array_append_new(places, place_row(planning, i));
    for (unsigned i = 0; i < plan->nspares; i++)
        json_array_append_new(spares, json_string(plan->spares[i].name));
    row = json_pack("{s:I,s:o,s:o,s:o,s:o}", "round",
                    (json_int_t)planning->ops->round(planning->arg), "places", places,
                    "spares", spares, "restore",
                    dlr_sup_version(plan->restore ? &plan->version : NULL), "order",
                    order_row(&plan->order));
    planning->ops->survives(planning->arg, row);
    return row;
}

void dlr_sup_tell_plan(struct dlr_sup_planning *planning)
{
    const struct dlr_plan *plan = &planning->plan;
    int64_t took_ms = dlr_sup_now() - planning->ops->since(planning->arg);
    json_t *row = dlr_sup_plan_rows(planning), *out = json_array(),
           *notes = json_array();

    for (unsigned i = 0; i < plan->nout; i++)
        json_array_append_new(out, json_pack("{s:s,s:s}", "node", plan->out[i].node,
                                             "reason", plan->out[i].reason));
    for (unsigned i = 0; i < plan->nnotes; i++) {
        json_array_append_new(notes, json_string(plan->notes[i]));
        dlr_user_line(planning->env.io, "%s", plan->notes[i]);
    }
    tell_groups(planning);
    dlr_sup_tell_verdicts(planning, plan);
    json_object_set_new(row, "took_ms", json_integer(took_ms));
    if (plan->reorder.moves)
        json_object_set_new(row, "reorder", reorder_row(&plan->reorder));
    json_object_set_new(row, "out", out);
    json_object_set_new(row, "notes", notes);
    dlr_journal_event(dlr_sup_journal(planning->env.io), "plan", row);
}

/* --- whether it is taken ---------------------------------------------------------- */

bool dlr_sup_plan_is_ours(const struct dlr_sup_planning *planning,
                          const struct dlr_plan *plan)
{
    for (unsigned i = 0; i < plan->nplaces; i++)
        if (dlr_members_find(planning->members, plan->places[i].node.name) < 0)
            return false;
    return plan->world == dlr_sup_placement_world(planning) &&
           plan->nplaces == planning->step.nplaces;
}

int dlr_sup_plan_refuse(struct dlr_sup_planning *planning, int rc,
                        const struct dlr_plan *plan, const char *why)
{
    unsigned left = 0, n = planning->members->n;
    unsigned char *failed_checks = calloc(n, 1);

    dlr_sup_tell_verdicts(planning, plan);
    for (unsigned i = 0; failed_checks && i < plan->nout; i++) {
        int node = dlr_members_find(planning->members, plan->out[i].node);

        if (node >= 0)
            failed_checks[node] = 1;
    }
    for (unsigned i = 0; failed_checks && i < n; i++)
        left += !failed_checks[i] && dlr_sup_is_candidate(planning->env.steps, i);
    free(planning->failed_checks);
    planning->failed_checks = failed_checks;
    dlr_user_line(planning->env.io, "%s", why);
    dlr_journal_note(dlr_sup_journal(planning->env.io), "rendezvous_failed", "s:s",
                     "why", why);
    return rc == -ENOSPC && !left ? -ENODEV : rc;
}

bool dlr_sup_is_unfit(const struct dlr_sup_planning *planning, unsigned node)
{
    return planning->failed_checks && planning->failed_checks[node];
}

void dlr_sup_plan_take(struct dlr_sup_planning *planning, struct dlr_plan *plan)
{
    dlr_sup_losses_count(planning->env.nodes, plan->nplaces);
    free(planning->failed_checks);
    planning->failed_checks = NULL;
    dlr_plan_done(&planning->plan);
    planning->plan = *plan;
    *plan = (struct dlr_plan){0};
}

int dlr_sup_plan_adopt(struct dlr_sup_planning *planning, const json_t *plan)
{
    const struct dlr_step_plan *step = &planning->step;
    struct dlr_plan *p = &planning->plan;
    struct dlr_err err;
    unsigned known = 0;
    int rc = dlr_plan_from_json(plan, p, &err);

    if (rc < 0)
        return rc;
    while (known < p->nplaces &&
           dlr_members_find(planning->members, p->places[known].node.name) >= 0)
        known++;
    if (known == p->nplaces &&
        (planning->env.conf->nodes.min ? p->nplaces <= step->nplaces
                                       : p->nplaces == step->nplaces))
        return 0;
    dlr_sup_plan_drop(planning);
    return -ESTALE;
}

void dlr_sup_plan_drop(struct dlr_sup_planning *planning)
{
    dlr_plan_done(&planning->plan);
}

/* --- what the next one must know -------------------------------------------------- */

void dlr_sup_keep_plan(struct dlr_sup_planning *planning)
{
    const struct dlr_plan *plan = &planning->plan;
    unsigned copies =
        planning->step.nplaces > 1 ? planning->env.conf->redundancy.copies : 0;
    bool several = copies > 1 || dlr_sup_parity_rows(planning) > 0;

    free(planning->former);
    planning->former = calloc(plan->nplaces, sizeof(*planning->former));
    planning->nformer = planning->former ? plan->nplaces : 0;
    for (unsigned i = 0; i < planning->nformer; i++) {
        struct dlr_plan_former_place *seat = &planning->former[i];
        const char *partner = plan->places[plan->places[i].partner].node.name;

        seat->node = plan->places[i].node;
        dlr_format(seat->partner, sizeof(seat->partner), "%s",
                   several ? DLR_PLAN_SEVERAL : partner);
    }
    planning->ops->kept(planning->arg);
}

bool dlr_sup_is_left_out(const struct dlr_sup_planning *planning, const char *node)
{
    for (unsigned i = 0; i < planning->nfull; i++)
        if (dlr_streq(planning->full[i].node, node))
            return true;
    return false;
}

void dlr_sup_leave_out(struct dlr_sup_planning *planning,
                       const struct dlr_plan_out *out)
{
    struct dlr_plan_out *more =
        realloc(planning->full, (planning->nfull + 1) * sizeof(*more));

    if (!more)
        return; /* it is found out again */
    planning->full = more;
    planning->full[planning->nfull++] = *out;
}

void dlr_sup_plan_done(struct dlr_sup_planning *planning)
{
    dlr_plan_done(&planning->plan);
    free(planning->former);
    free(planning->failed_checks);
    free(planning->full);
}
