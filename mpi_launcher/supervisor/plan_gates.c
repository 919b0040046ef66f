/* SPDX-License-Identifier: Apache-2.0 */
/* How a plan comes about: what it must know, who may stop it, who is told. */
#include <errno.h>

#include "ckpt/base/version.h"
#include "common/base/cleanup.h"
#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/rejected_copies.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/planning.h"
#include "mpi_launcher/supervisor/rounds/first_cause.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/saved_state.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions.h"

/* The others' share of it. */
static void fill_want(void *arg, struct dlr_plan_want *ret)
{
    struct dlr_sup *s = arg;

    dlr_sup_disk_want(s->disk, ret);
    ret->rejected = dlr_sup_struck(s->copies, &ret->nrejected);
    ret->has_committed = dlr_sup_newest(s->versions, &ret->committed);
    if (ret->weigh)
        dlr_sup_expected(s->versions, &ret->steps, &ret->fetch_ms);
}

/* It is refused, or there is none. */
static bool refuse(struct dlr_sup *s, int rc, const struct dlr_plan *plan,
                   const char *why)
{
    rc = dlr_sup_plan_refuse(s->planning, rc, plan, why);
    dlr_policy_planned(s->policy, rc, NULL, why, dlr_sup_now());
    return true;
}

static bool is_early(struct dlr_sup *s, const struct dlr_plan *plan)
{
    return dlr_sup_disk_wants(s->disk, plan);
}

static bool is_foreign(struct dlr_sup *s, const struct dlr_plan *plan)
{
    if (dlr_sup_plan_is_ours(s->planning, plan))
        return false;
    dlr_policy_planned(s->policy, -EBADMSG, NULL, "the plan is not of this run",
                       dlr_sup_now());
    return true;
}

static bool is_misnamed(struct dlr_sup *s, const struct dlr_plan *plan)
{
    char why[512];

    return !dlr_sup_names_fit(s->rounds, plan, why, sizeof(why)) &&
           refuse(s, -ENOSPC, plan, why);
}

static bool is_repeated(struct dlr_sup *s, const struct dlr_plan *plan)
{
    char why[600];

    if (!dlr_sup_repeated_failure_stops(s->versions, plan, why, sizeof(why)))
        return false;
    dlr_policy_give_up(s->policy, why);
    return true;
}

static bool is_stopped(struct dlr_sup *s, const struct dlr_plan *plan)
{
    char why[600];

    (void)plan;
    if (!dlr_sup_rule_stops(s->rounds, why, sizeof(why)) ||
        !dlr_policy_failure(s->policy) || dlr_sup_unwritten(s->disk))
        return false; /* another round keeps what memory alone has */
    dlr_policy_give_up(s->policy, why);
    return true;
}

/* The next round would die as this one did. Where only a requeue can help, and the job
 * can be requeued, that is tried first.
 */
static bool is_starved(struct dlr_sup *s, const struct dlr_plan *plan)
{
    enum dlr_failure_action action = dlr_failure_rules_memory(&s->conf.on);
    char why[400];

    (void)plan;
    if (action == DLR_FAILURE_RESTARTS || !dlr_policy_failure(s->policy) ||
        !dlr_sup_starves(s->rounds, why, sizeof(why)))
        return false;
    if (action == DLR_FAILURE_STOPS && dlr_sup_unwritten(s->disk))
        return false; /* as a rule's stop */
    if (action == DLR_FAILURE_STOPS)
        dlr_policy_give_up(s->policy, why);
    else if (s->step->mem_said || /* more for the job is not more for the step */
             !dlr_sup_ending_for_memory(s->ending,
                                        dlr_failure_rules_say_memory(&s->conf.on)))
        return false;
    else
        dlr_policy_starves(s->policy, why);
    return true;
}

/* A plan is taken that none of these stops, in this order; who does has told the policy
 * what comes now.
 */
static bool (*const gates[])(struct dlr_sup *s, const struct dlr_plan *plan) = {
    is_early,    /* the disk had not been read */
    is_foreign,  /* it is of another run */
    is_stopped,  /* the user wants no other round after such a failure */
    is_starved,  /* it wants more memory than the job has */
    is_misnamed, /* the program's arguments name a node that is lost */
    is_repeated, /* the same failure would end what begins anew */
};

static void take_plan(struct dlr_sup *s, struct dlr_plan *plan)
{
    DLR_AUTO_FREE unsigned char *member = calloc(s->members->n, 1);

    dlr_sup_plan_take(s->planning, plan);
    if (!member || dlr_sup_holders_make(s->copies) < 0) {
        dlr_policy_planned(s->policy, -ENOMEM, NULL, "out of memory", dlr_sup_now());
        return;
    }
    for (unsigned i = 0; i < s->plan->nplaces; i++)
        member[dlr_members_find(s->members, s->plan->places[i].node.name)] = 1;
    dlr_policy_planned(s->policy, 0, member, NULL, dlr_sup_now());
}

static void on_planned(void *arg, int rc, struct dlr_plan *plan, const char *why)
{
    bool stopped = rc < 0 && refuse(arg, rc, plan, why);

    for (unsigned i = 0; !stopped && i < sizeof(gates) / sizeof(*gates); i++)
        stopped = gates[i](arg, plan);
    if (!stopped)
        take_plan(arg, plan);
    dlr_plan_done(plan);
}

static void on_kept(void *arg)
{
    dlr_sup_holders_keep(((struct dlr_sup *)arg)->copies);
    dlr_sup_save_state(arg);
}

static int on_replanned(void *arg, struct dlr_err *err)
{
    return dlr_sup_redundancy_replanned(((struct dlr_sup *)arg)->copies, err);
}

static int on_reseated(void *arg, const unsigned *tasks, const unsigned *ranks)
{
    return dlr_sup_redundancy_reseated(((struct dlr_sup *)arg)->copies, tasks, ranks);
}

static void put_keepers(void *arg, unsigned place, json_t *row)
{
    struct dlr_sup *s = arg;

    if (dlr_sup_sets(s->copies)->rows > 0)
        json_object_set_new(row, "parity", dlr_sup_holder_names(s->copies, place));
    else if (dlr_sup_copies(s->copies) > 1)
        json_object_set_new(row, "partners", dlr_sup_holder_names(s->copies, place));
}

static void put_survival(void *arg, json_t *row)
{
    dlr_sup_put_survival(((struct dlr_sup *)arg)->copies, row);
}

static void on_reported(void *arg, const struct dlr_plan_report *reports, unsigned n)
{
    dlr_sup_persist_reports(((struct dlr_sup *)arg)->disk, reports, n);
}

static bool restores(void *arg)
{
    const struct dlr_sup *s = arg;
    struct dlr_version newest;

    return dlr_sup_newest(s->versions, &newest);
}

const struct dlr_sup_planning_ops dlr_sup_planning_ops = {
    .want = fill_want,
    .planned = on_planned,
    .reported = on_reported,
    .kept = on_kept,
    .replanned = on_replanned,
    .reseated = on_reseated,
    .beside = put_keepers,
    .survives = put_survival,
    .request = dlr_sup_next_request,
    .round = dlr_sup_round_now,
    .since = dlr_sup_phase_since,
    .restores = restores,
};
