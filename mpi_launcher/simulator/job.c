/* SPDX-License-Identifier: Apache-2.0 */
/* One incarnation of the job: what the policy asks for takes its time, and is told to
 * it when it is done.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/base/cleanup.h"
#include "common/config/job_config.h"
#include "mpi_launcher/simulator/state.h"

#define LOST_TASK 256 /* a wait status: exit code 1 */

/* --- what the policy asks for ----------------------------------------------------- */

static void next(struct dlr_sim *s, enum dlr_sim_part part, double wait_s,
                 enum sim_event what)
{
    s->part = part;
    s->epoch++;
    dlr_sim_after(s, wait_s, what, 0);
}

static void start_agents(void *arg)
{
    struct dlr_sim *s = arg;

    next(s, DLR_SIM_AGENTS, s->conf->agents, SIM_UP);
}

static int resize(void *arg, unsigned nplaces)
{
    ((struct dlr_sim *)arg)->now_places = nplaces;
    return 0;
}

static void rendezvous(void *arg, bool with_mpi)
{
    struct dlr_sim *s = arg;

    next(s, DLR_SIM_MEET, s->conf->meet, SIM_PLANNED);
}

static void stop_rendezvous(void *arg)
{
    ((struct dlr_sim *)arg)->epoch++;
}

static void prepare(void *arg, uint32_t round)
{
    struct dlr_sim *s = arg;
    double wait_s = s->moved ? s->conf->prepare : 0;

    if (!s->in_memory)
        wait_s = s->disk_ms > 0 ? s->conf->read : 0;
    next(s, DLR_SIM_PREPARE, wait_s, SIM_PREPARED);
}

static void launch(void *arg, uint32_t round)
{
    struct dlr_sim *s = arg;
    bool stay = s->conf->in_process && !s->fresh &&
                dlr_random_share(&s->random) > s->conf->stuck;

    s->result.rounds++;
    next(s, DLR_SIM_START, stay ? s->conf->reinit : s->conf->start, SIM_RUNNING);
}

static void end_round(void *arg, uint32_t round, enum dlr_cause cause, const char *why)
{
    struct dlr_sim *s = arg;

    next(s, DLR_SIM_CLEAR, s->conf->clear, SIM_CLEARED);
}

static void persist(void *arg)
{
    struct dlr_sim *s = arg;

    next(s, DLR_SIM_PERSIST, s->in_memory ? s->conf->write : 0, SIM_WRITTEN);
}

static void requeue(void *arg, const char *why)
{
    ((struct dlr_sim *)arg)->leaves = true;
}

static void finish(void *arg, int code, const char *why)
{
    struct dlr_sim *s = arg;

    s->leaves = s->gave_up = true;
}

static void explain(void *arg, uint32_t round, enum dlr_cause cause, const char *why)
{
}
static void late(void *arg, unsigned n)
{
}
static void wait_controller(void *arg, const char *why)
{
}
static void ask_fate(void *arg)
{
}

static const struct dlr_policy_ops ops = {
    .start_agents = start_agents,
    .resize = resize,
    .rendezvous = rendezvous,
    .stop_rendezvous = stop_rendezvous,
    .prepare = prepare,
    .launch = launch,
    .end_round = end_round,
    .explain = explain,
    .persist = persist,
    .requeue = requeue,
    .late = late,
    .finish = finish,
    .wait_controller = wait_controller,
    .ask_fate = ask_fate,
};

/* --- its beginning ---------------------------------------------------------------- */

/* A site whose phases take so long has set longer limits. */
static int64_t limit(int64_t usual_ms, double takes_s)
{
    return (int64_t)fmax((double)usual_ms, 2000 * takes_s);
}

int dlr_sim_begin(struct dlr_sim *s, struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_job_config *job = calloc(1, sizeof(*job));
    struct dlr_policy_conf pc = {.nnodes = s->n, .nplaces = dlr_sim_places(s->conf)};
    int rc = job ? dlr_opt_defaults(dlr_job_config_opts, job, err) : -ENOMEM;

    if (rc < 0)
        return rc;
    pc.min_places = (unsigned)s->conf->min_nodes;
    pc.max_restarts = job->max_restarts.count;
    pc.restarts_ms = job->max_restarts.per_ms;
    pc.rendezvous_tries = 1;
    pc.agent_timeout_ms = limit(job->agent_timeout_ms, s->conf->agents);
    pc.rendezvous_timeout_ms = limit(job->rendezvous_timeout_ms, s->conf->meet);
    pc.transfer_timeout_ms =
        limit(job->transfer_timeout_ms, fmax(s->conf->prepare, s->conf->read));
    pc.end_timeout_ms = limit(job->end_timeout_ms, s->conf->clear);
    pc.persist_timeout_ms = limit(job->persist_timeout_ms, s->conf->write);
    pc.requeue_timeout_ms = job->requeue_timeout_ms;
    pc.controller_timeout_ms = job->controller_timeout_ms;
    pc.suspect_ms = limit(dlr_job_config_dead_ms(job), s->conf->detect);
    s->now_places = pc.nplaces;
    for (unsigned i = 0; i < s->n; i++)
        s->nodes[i] = (struct sim_node){0};
    s->unknown = s->host = 0;
    s->fresh = true;
    s->leaves = s->gave_up = s->deposed = s->in_memory = false;
    s->work_ms = s->disk_ms;
    rc = dlr_policy_new(&pc, &ops, s, &s->policy, err);
    if (rc < 0)
        return rc;
    dlr_policy_resume(s->policy, s->next_round, 0, s->now_ms);
    dlr_policy_start(s->policy, s->now_ms);
    return 0;
}

/* --- what was asked for is done --------------------------------------------------- */

/* All at once, as if slurmctld were away for that moment: while agents are waited for
 * the policy counts all nodes at each report, which is the square of them here.
 */
static void report(struct dlr_sim *s)
{
    dlr_policy_controller_away(s->policy, "all report", s->now_ms);
    for (unsigned i = 0; i < s->n; i++)
        if (!s->nodes[i].down)
            dlr_policy_node_up(s->policy, i, s->now_ms);
    dlr_policy_controller_back(s->policy, s->now_ms);
}

/* The last one first: the policy looks for what is left from the other end. */

static void clean(struct dlr_sim *s)
{
    uint32_t round = dlr_policy_round(s->policy);

    for (unsigned i = s->n; i-- > 0;)
        if (s->nodes[i].member && !s->nodes[i].down)
            dlr_policy_clean(s->policy, i, round, s->now_ms);
}

static void plan(struct dlr_sim *s)
{
    DLR_AUTO_FREE unsigned char *member = calloc(s->n, 1);

    s->failed |= !member;
    if (!member)
        return;
    dlr_sim_look_at_memory(s);
    if (dlr_sim_place(s, member))
        dlr_policy_planned(s->policy, 0, member, NULL, s->now_ms);
    else
        dlr_policy_planned(s->policy, -ENOSPC, NULL, "too few nodes", s->now_ms);
}

/* A node that has died and is not known to be hangs what all do together, or all that
 * have a place: the word of its death ends the wait.
 */
static bool hangs(const struct dlr_sim *s, bool members)
{
    for (unsigned i = 0; s->unknown && i < s->n; i++)
        if (s->nodes[i].down && (!members || s->nodes[i].member) &&
            dlr_policy_is_alive(s->policy, i))
            return true;
    return false;
}

void dlr_sim_phase(struct dlr_sim *s, const struct dlr_agenda_item *item)
{
    switch ((enum sim_event)item->what) {
    case SIM_UP:
        report(s);
        break;
    case SIM_PLANNED:
        if (!hangs(s, false))
            plan(s);
        break;
    case SIM_PREPARED:
        if (!hangs(s, true))
            dlr_policy_prepared(s->policy, 0, NULL, s->now_ms);
        break;
    case SIM_RUNNING:
        if (!hangs(s, true))
            dlr_sim_run_begins(s);
        break;
    case SIM_CLEARED:
        clean(s);
        break;
    case SIM_WRITTEN:
        dlr_sim_write(s);
        dlr_policy_persisted(s->policy, s->now_ms);
        break;
    case SIM_TASK:
        dlr_policy_worker_exit(s->policy, dlr_policy_round(s->policy), 0, LOST_TASK,
                               s->now_ms);
        break;
    default:
        break;
    }
}
