/* SPDX-License-Identifier: Apache-2.0 */
/* The plan that a round has: what it must know, whether it is taken, what is told of
 * it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/supervisor.h"

void dlr_sup_fill_want(struct dlr_sup *s, struct dlr_plan_want *want)
{
    struct dlr_plan_world seats = dlr_sup_seats(s);

    memset(want, 0, sizeof(*want));
    want->nplaces = seats.nplaces;
    want->tasks = seats.tasks;
    want->ranks = seats.ranks;
    dlr_format(want->batch, sizeof(want->batch), "%s", dlr_sup_batch(s->nodes));
    want->former = s->former;
    want->nformer = s->nformer;
    want->prefer = s->prefer;
    want->nprefer = s->prefer ? s->step->nprefer : 0;
    want->ordered = s->step->ordered;
    s->blind = s->disk != NULL;
    s->awaits_disk = false;
    want->files = s->files;
    want->nfiles = s->nfiles;
    want->struck = s->struck;
    want->nstruck = s->nstruck;
    want->full = s->full;
    want->nfull = s->nfull;
    want->members = s->sets.rows > 0 ? s->conf.redundancy.members : 0;
    want->rows = s->sets.rows;
    want->worlds = s->worlds;
    want->nworlds = s->nworlds;
    want->has_committed = dlr_sup_newest(s->versions, &want->committed);
}

static json_t *place_row(struct dlr_sup *s, unsigned place)
{
    const struct dlr_plan_place *p = &s->plan->places[place];
    char leaf[DLR_TOPO_NAME] = "";
    json_t *row;

    dlr_topo_leaf(p->node.path, leaf, sizeof(leaf));
    row = json_pack("{s:s,s:s,s:i,s:i,s:o*,s:b}", "node", p->node.name, "leaf", leaf,
                    "first", s->plan->ranks[p->from], "tasks", p->tasks, "ranks",
                    dlr_plan_place_ranks(s->plan, place), "moved", p->moved);
    if (p->partner != place)
        json_object_set_new(row, "partner",
                            json_string(s->plan->places[p->partner].node.name));
    if (s->sets.rows > 0)
        json_object_set_new(row, "parity", dlr_sup_holder_names(s, place));
    else if (dlr_sup_copies(s) > 1)
        json_object_set_new(row, "partners", dlr_sup_holder_names(s, place));
    return row;
}

static void tell_verdicts(struct dlr_sup *s, const struct dlr_plan *plan)
{
    for (unsigned i = 0; i < plan->nverdicts; i++) {
        const struct dlr_plan_verdict *v = &plan->verdicts[i];

        dlr_journal_note(dlr_sup_journal(s->io), "check", "s:s,s:s,s:s,s:s", "node",
                         v->node, "check", v->check.check, "verdict",
                         dlr_health_verdict_name(v->check.verdict), "reason",
                         v->check.reason);
    }
}

json_t *dlr_sup_plan_rows(struct dlr_sup *s)
{
    json_t *places = json_array(), *spares = json_array();

    for (unsigned i = 0; i < s->plan->nplaces; i++)
        json_array_append_new(places, place_row(s, i));
    for (unsigned i = 0; i < s->plan->nspares; i++)
        json_array_append_new(spares, json_string(s->plan->spares[i].name));
    return json_pack("{s:I,s:o,s:o,s:o}", "round",
                     (json_int_t)dlr_policy_round(s->policy), "places", places,
                     "spares", spares, "restore",
                     dlr_sup_version(s->plan->restore ? &s->plan->version : NULL));
}

static void tell_plan(struct dlr_sup *s, int64_t took_ms)
{
    json_t *row = dlr_sup_plan_rows(s), *out = json_array(), *notes = json_array();

    for (unsigned i = 0; i < s->plan->nout; i++)
        json_array_append_new(out, json_pack("{s:s,s:s}", "node", s->plan->out[i].node,
                                             "reason", s->plan->out[i].reason));
    for (unsigned i = 0; i < s->plan->nnotes; i++) {
        json_array_append_new(notes, json_string(s->plan->notes[i]));
        dlr_sup_say(s->io, "%s", s->plan->notes[i]);
    }
    tell_verdicts(s, s->plan);
    json_object_set_new(row, "took_ms", json_integer(took_ms));
    json_object_set_new(row, "out", out);
    json_object_set_new(row, "notes", notes);
    dlr_journal_event(dlr_sup_journal(s->io), "plan", row);
}

/* The seats of this plan are what the next one starts from. */
static void keep_seats(struct dlr_sup *s)
{
    dlr_sup_holders_keep(s);
    free(s->former);
    s->former = calloc(s->plan->nplaces, sizeof(*s->former));
    s->nformer = s->former ? s->plan->nplaces : 0;
    for (unsigned i = 0; i < s->nformer; i++) {
        s->former[i].node = s->plan->places[i].node;
        if (dlr_sup_copies(s) > 1 || s->sets.rows > 0)
            memcpy(s->former[i].partner, DLR_PLAN_SEVERAL, sizeof(DLR_PLAN_SEVERAL));
        else
            memcpy(s->former[i].partner,
                   s->plan->places[s->plan->places[i].partner].node.name,
                   sizeof(s->former[i].partner));
    }
}

void dlr_sup_leave_out(struct dlr_sup *s, const struct dlr_plan_out *out)
{
    struct dlr_plan_out *more = realloc(s->full, (s->nfull + 1) * sizeof(*more));

    if (!more)
        return; /* it is found out again */
    s->full = more;
    s->full[s->nfull++] = *out;
}

bool dlr_sup_is_left_out(const struct dlr_sup *s, const char *node)
{
    for (unsigned i = 0; i < s->nfull; i++)
        if (dlr_streq(s->full[i].node, node))
            return true;
    return false;
}

/* Too few nodes are fit: another allocation may help, without those that are not. With
 * none fit it is nothing of the nodes' (a full file system that all share, say), and
 * would not.
 */
static void no_plan(struct dlr_sup *s, int rc, struct dlr_plan *plan, const char *why)
{
    unsigned left = 0;

    tell_verdicts(s, plan);
    free(s->unfit);
    s->unfit = calloc(s->members->n, 1);
    for (unsigned i = 0; i < plan->nout; i++) {
        int node = dlr_members_find(s->members, plan->out[i].node);

        if (node >= 0 && s->unfit)
            s->unfit[node] = 1;
    }
    for (unsigned i = 0; i < s->members->n; i++)
        left += s->unfit && !s->unfit[i] && dlr_sup_is_candidate(s->steps, i);
    if (rc == -ENOSPC && !left)
        rc = -ENODEV;
    dlr_sup_say(s->io, "%s", why);
    dlr_journal_note(dlr_sup_journal(s->io), "rendezvous_failed", "s:s", "why", why);
    dlr_plan_done(plan);
    dlr_policy_planned(s->policy, rc, NULL, why, dlr_sup_now());
}

static bool stops(struct dlr_sup *s, const struct dlr_plan *plan)
{
    char why[600];

    if (!dlr_sup_repeat_stops(s->versions, plan, why, sizeof(why)))
        return false;
    dlr_policy_give_up(s->policy, why);
    return true;
}

void dlr_sup_take_plan(struct dlr_sup *s, int rc, struct dlr_plan *plan,
                       const char *why)
{
    DLR_AUTO_FREE unsigned char *member = calloc(s->members->n, 1);
    char names[512];

    if (rc < 0) {
        no_plan(s, rc, plan, why);
        return;
    }
    if (dlr_sup_disk_wants(s, plan)) {
        dlr_plan_done(plan);
        return;
    }
    for (unsigned i = 0; i < plan->nplaces; i++) {
        int node = dlr_members_find(s->members, plan->places[i].node.name);

        if (node >= 0 && member)
            member[node] = 1;
        else
            rc = -EBADMSG;
    }
    if (rc < 0 || plan->world != dlr_sup_seats_world(s) ||
        plan->nplaces != s->step->nplaces) {
        dlr_plan_done(plan);
        dlr_policy_planned(s->policy, -EBADMSG, NULL, "the plan is not of this run",
                           dlr_sup_now());
        return;
    }
    if (!dlr_sup_names_fit(s, plan, names, sizeof(names))) {
        no_plan(s, -ENOSPC, plan, names);
        return;
    }
    if (stops(s, plan)) {
        dlr_plan_done(plan);
        return;
    }
    dlr_sup_losses_count(s->nodes, plan->nplaces);
    dlr_plan_done(&s->planning->plan);
    free(s->unfit);
    s->unfit = NULL;
    s->planning->plan = *plan;
    if (dlr_sup_holders_make(s) < 0) {
        dlr_policy_planned(s->policy, -ENOMEM, NULL, "out of memory", dlr_sup_now());
        return;
    }
    dlr_policy_planned(s->policy, 0, member, NULL, dlr_sup_now());
}

void dlr_sup_tell_plan(struct dlr_sup *s)
{
    tell_plan(s, dlr_sup_now() - s->phase_ms);
}

void dlr_sup_keep_plan(struct dlr_sup *s)
{
    keep_seats(s);
    dlr_sup_save_state(s);
}
