/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's making, its names, what can be asked of it, and the step from a phase to
 * the next. Calls no other file of the engine but the restart budget.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "mpi_launcher/policy/rule_actions.h"
#include "mpi_launcher/policy/state.h"

static const char *const cause_names[] = {"none",   "node",    "program", "restore",
                                          "signal", "control", "hang"};

const char *dlr_cause_name(enum dlr_cause cause)
{
    return cause_names[cause];
}

static const char *const state_names[] = {
    "agents", "rendezvous", "prepare", "run",     "end",  "persist", "requeue",
    "wait",   "done",       "again",   "met",     "gone", "setback", "failed",
    "next",   "fitted",     "last",    "written", "same"};

/* clang-format off */
static const char *const event_names[] = {
    "at once", "limit", "start", "adopt", "adopt failed", "node up",
    "node dead", "agents gone", "hold", "replan", "planned", "too few",
    "starves", "not met", "give up", "prepared", "copies failed", "started", "queued",
    "launch late", "task failed", "restore failed", "restore refused", "lease expired", "watch lost",
    "stepd lost", "hang", "step ended", "clean", "signal", "sigterm", "fate",
    "persisted", "requeue with job", "requeue cancel", "requeue failed", "controller away", "controller back",
};
/* clang-format on */

static_assert(sizeof(state_names) / sizeof(state_names[0]) == DLR_STATE_SAME + 1,
              "a name for each state");
static_assert(sizeof(event_names) / sizeof(event_names[0]) == DLR_POLICY_EVENTS,
              "a name for each event");

const char *dlr_policy_state_name(unsigned state)
{
    return state_names[state];
}

const char *dlr_policy_event_name(enum dlr_policy_what what)
{
    return event_names[what];
}

int dlr_policy_new(const struct dlr_policy_conf *conf, const struct dlr_policy_ops *ops,
                   void *arg, struct dlr_policy **ret, struct dlr_err *err)
{
    struct dlr_policy *p;

    if (!conf->nplaces || conf->nplaces > conf->nnodes)
        return dlr_fail(err, -EINVAL, "%u nodes cannot hold %u places", conf->nnodes,
                        conf->nplaces);
    p = calloc(1, sizeof(*p));
    if (!p)
        return dlr_fail(err, -ENOMEM, "no memory for the policy");
    p->nodes = calloc(conf->nnodes, sizeof(*p->nodes));
    if (!p->nodes) {
        free(p);
        return dlr_fail(err, -ENOMEM, "no memory for the policy");
    }
    p->conf = *conf;
    p->places = conf->nplaces;
    p->restarts.max = conf->max_restarts;
    p->restarts.window_ms = conf->restarts_ms;
    if (!conf->min_places || conf->min_places > conf->nplaces)
        p->conf.min_places = conf->nplaces;
    p->ops = *ops;
    p->arg = arg;
    p->deadline_ms = INT64_MAX;
    *ret = p;
    return 0;
}

struct dlr_policy *dlr_policy_free(struct dlr_policy *p)
{
    if (p)
        free(p->nodes);
    free(p);
    return NULL;
}

void dlr_policy_resume(struct dlr_policy *p, uint32_t next_round, unsigned restarts,
                       int64_t now_ms)
{
    p->next_round = next_round;
    dlr_restart_budget_resume(&p->restarts, restarts, now_ms);
}

void dlr_policy_take_over(struct dlr_policy *p, const char *why)
{
    if (!p->next_round)
        return; /* no round was ever begun */
    p->round = p->next_round - 1;
    p->cleanup_unconfirmed = true;
    p->cause = DLR_CAUSE_CONTROL;
    snprintf(p->why, sizeof(p->why), "%s", why);
}

void dlr_policy_lost_before(struct dlr_policy *p, unsigned node)
{
    p->nodes[node].state = NODE_DEAD;
}

unsigned dlr_policy_count(const struct dlr_policy *p, enum node_state state)
{
    unsigned n = 0;

    for (unsigned i = 0; i < p->conf.nnodes; i++)
        n += p->nodes[i].state == state;
    return n;
}

void dlr_policy_enter(struct dlr_policy *p, enum dlr_phase phase, int64_t now_ms,
                      int64_t limit_ms)
{
    (void)dlr_restart_budget_spent(&p->restarts, now_ms); /* none of long ago is told */
    p->phase = phase;
    p->deadline_ms = limit_ms < 0 ? INT64_MAX : now_ms + limit_ms;
}

void dlr_policy_finish(struct dlr_policy *p, int code, const char *why)
{
    p->ops.finish(p->arg, code, why);
}

bool dlr_policy_stops_at(const struct dlr_policy *p, int code)
{
    return p->conf.on_exit[code & 255] == DLR_ON_STOP;
}

void dlr_policy_count_fruitless(struct dlr_policy *p, int64_t now_ms)
{
    if (!dlr_restart_budget_spent(&p->fruitless, now_ms))
        p->fruitless.from_ms = now_ms;
    p->fruitless.spent++;
}

DLR_ACTION(nothing)
{
}

int64_t dlr_policy_deadline_ms(const struct dlr_policy *p)
{
    return p->deadline_ms;
}

enum dlr_phase dlr_policy_phase(const struct dlr_policy *p)
{
    return p->phase;
}

uint32_t dlr_policy_round(const struct dlr_policy *p)
{
    return p->round;
}

const char *dlr_policy_failure(const struct dlr_policy *p)
{
    const char *why = p->cause == DLR_CAUSE_HANG ? p->place : p->why;

    return dlr_policy_is_programs(p) && why[0] ? why : NULL;
}

unsigned dlr_policy_restarts(const struct dlr_policy *p)
{
    return p->restarts.spent;
}

unsigned dlr_policy_alive(const struct dlr_policy *p)
{
    return dlr_policy_count(p, NODE_UP);
}

bool dlr_policy_is_alive(const struct dlr_policy *p, unsigned node)
{
    return p->nodes[node].state == NODE_UP;
}

bool dlr_policy_is_lost(const struct dlr_policy *p, unsigned node)
{
    return p->nodes[node].state == NODE_DEAD;
}

bool dlr_policy_ended_well(const struct dlr_policy *p)
{
    return p->ended && p->exit_code == 0;
}

struct dlr_restart_budget_failure dlr_policy_failed_how(const struct dlr_policy *p)
{
    return (struct dlr_restart_budget_failure){
        .why = p->cause == DLR_CAUSE_HANG ? p->place : p->why,
        .ran_ms = p->failed_ms - p->launch_ms,
        .stepped = p->stepped || p->has_best,
        .killed = p->killed,
        .code = p->exit_code};
}
