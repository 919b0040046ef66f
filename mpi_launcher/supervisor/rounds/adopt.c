/* SPDX-License-Identifier: Apache-2.0 */
/* A round whose supervisor died goes on under the next one: what it must know stands in
 * the keeper's memory file, the rest its agents tell. Nothing of the workers is
 * touched. Where it cannot be proven that every node of the round still has it, the
 * round is ended and begun anew.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/keeper/child_exits.h"
#include "mpi_launcher/supervisor/copies/preparation.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/reprotect.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/failure_detector.h"
#include "mpi_launcher/supervisor/nodes/loss_rate.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/planning.h"
#include "mpi_launcher/supervisor/rounds/agent_back.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/steps/agent_step.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"
#include "mpi_launcher/supervisor/versions/versions.h"

#define ADOPT_EXTRA_MS 2000 /* beyond dead time: for connections to come back */

/* --- what is kept ----------------------------------------------------------------- */

static json_t *round_state(const struct dlr_sup_rounds *rounds)
{
    if (dlr_policy_phase(rounds->policy) != DLR_PHASE_RUN ||
        !dlr_sup_has_plan(rounds->env.plan))
        return NULL;
    return json_pack(
        "{s:I,s:s,s:I,s:I,s:I,s:b,s:b,s:b,s:b,s:b,s:b,s:I,s:o}", "round",
        (json_int_t)rounds->running_round, "token", rounds->token, "started_ms",
        (json_int_t)rounds->started_ms, "launch_ms", (json_int_t)rounds->launch_ms,
        "launch_deadline_ms", (json_int_t)rounds->launch_deadline_ms, "running",
        rounds->running_reported, "go", rounds->go_reported, "saving",
        dlr_sup_saving(rounds->env.versions), "first_step", rounds->first_step_reported,
        "queue", rounds->queue.may, "anywhere", rounds->anywhere, "turn",
        (json_int_t)rounds->turn, "plan", dlr_plan_to_json(rounds->env.plan, NULL));
}

void dlr_sup_workers_state(const struct dlr_sup_rounds *rounds, json_t *state)
{
    pid_t former = rounds->adopt.workers_pid;

    json_object_set_new(state, "workers_pid",
                        json_integer(former ? former : rounds->workers.pid));
    if (rounds->stay.n > 0)
        json_object_set_new(state, "stay_pids", dlr_sup_stay_state(rounds));
}

void dlr_sup_round_state(const struct dlr_sup_rounds *rounds, json_t *state)
{
    json_t *round = round_state(rounds);

    if (round)
        json_object_set_new(state, "running", round);
}

static bool flag(const json_t *state, const char *key)
{
    return json_is_true(json_object_get(state, key));
}

static int load_plan(struct dlr_sup_rounds *rounds, const json_t *state)
{
    int rc = dlr_sup_plan_adopt(rounds->env.planning, json_object_get(state, "plan"));

    if (rc == 0)
        rc = dlr_sup_holders_make(rounds->env.copies);
    if (rc < 0)
        dlr_sup_plan_drop(rounds->env.planning);
    return rc;
}

int dlr_sup_load_round(struct dlr_sup_rounds *rounds, const json_t *state)
{
    const char *token = "";
    int64_t started_ms;
    uint64_t round, turn;

    if (!json_is_object(state) ||
        dlr_msg_uint(state, "round", UINT32_MAX, &round) < 0 ||
        round + 1 != *rounds->env.resume_round ||
        dlr_msg_int(state, "started_ms", &started_ms) < 0 ||
        dlr_msg_int(state, "launch_ms", &rounds->launch_ms) < 0 ||
        dlr_msg_int(state, "launch_deadline_ms", &rounds->launch_deadline_ms) < 0 ||
        dlr_msg_str(state, "token", &token) < 0 || load_plan(rounds, state) < 0)
        return -ESTALE;
    dlr_format(rounds->token, sizeof(rounds->token), "%s", token);
    rounds->adopt.started_ms = started_ms;
    rounds->running_round = round;
    rounds->running_reported = flag(state, "running");
    rounds->go_reported = flag(state, "go");
    dlr_sup_saving_take(rounds->env.versions, flag(state, "saving"));
    rounds->first_step_reported = flag(state, "first_step");
    rounds->queue.may = flag(state, "queue");
    rounds->anywhere = flag(state, "anywhere");
    rounds->turn =
        dlr_msg_uint(state, "turn", UINT32_MAX, &turn) == 0 ? (uint32_t)turn : 0;
    dlr_sup_losses_count(rounds->env.nodes, rounds->env.plan->nplaces);
    dlr_sup_transfers_of_plan(rounds->env.copies); /* what agents may still ask for */
    return 0;
}

/* Its round can go on when all that it consists of is there: agents, and an srun that
 * runs or whose end the keeper has seen.
 */
void dlr_sup_round_take(struct dlr_sup_rounds *rounds, const json_t *state)
{
    uint64_t pid = 0;
    int status;

    dlr_msg_uint(state, "workers_pid", INT32_MAX, &pid);
    dlr_sup_adopt_child((pid_t)pid, &rounds->former_workers);
    dlr_sup_stay_take(rounds, json_object_get(state, "stay_pids"));
    if (!dlr_sup_agents_there(rounds->env.steps) || pid <= 1 ||
        (!rounds->former_workers.pid &&
         dlr_child_exits_find(*rounds->env.state_fd, (pid_t)pid, &status) < 0) ||
        dlr_sup_load_round(rounds, json_object_get(state, "running")) < 0)
        return;
    rounds->adopt.workers_pid = (pid_t)pid;
    rounds->adopt.wanted = true;
}

bool dlr_sup_adopt_wanted(const struct dlr_sup_rounds *rounds)
{
    return rounds->adopt.wanted;
}

bool dlr_sup_adopting(const struct dlr_sup_rounds *rounds)
{
    return rounds->adopt.active;
}

void dlr_sup_adopt_moved(struct dlr_sup_rounds *rounds)
{
    rounds->adopt.moved = true;
}

/* --- what the agents tell --------------------------------------------------------- */

static bool is_member(const struct dlr_sup_rounds *rounds, unsigned node)
{
    const char *name = rounds->members->list[node].node.name;

    for (unsigned p = 0; p < rounds->env.plan->nplaces; p++)
        if (dlr_streq(rounds->env.plan->places[p].node.name, name))
            return true;
    return false;
}

/* What the former supervisor had decided is said again, for those that did not hear it;
 * what it had only ordered is given up: nobody knows all of its answers.
 */
static void settle_saves(struct dlr_sup_rounds *rounds)
{
    struct dlr_adopt *a = &rounds->adopt;
    DLR_AUTO_JSON json_t *open = DLR_STEAL(a->open);
    json_t *step;
    size_t i;

    if (a->has_newest && a->newest.round == rounds->running_round)
        dlr_sup_decide(rounds->env.versions, "commit", a->newest);
    json_array_foreach(open, i, step)
    {
        struct dlr_version v = {.round = rounds->running_round,
                                .step = (uint64_t)json_integer_value(step)};

        if (!a->has_newest || dlr_version_cmp(v, a->newest) > 0)
            dlr_sup_decide(rounds->env.versions, "abort", v);
    }
    dlr_sup_versions_go_on(rounds->env.versions, a->has_newest ? &a->newest : NULL,
                           a->ordered);
}

static void tell_adopted(struct dlr_sup_rounds *rounds)
{
    json_t *row = dlr_sup_plan_rows(rounds->env.planning);

    if (row)
        json_object_set_new(row, "took_ms",
                            json_integer(dlr_sup_now() - rounds->adopt.begun_ms));
    dlr_journal_event(dlr_sup_journal(rounds->env.io), "adopted", row);
    dlr_user_line(rounds->env.io, "round %u goes on under a new supervisor",
                  rounds->running_round);
}

/* Failures that were told before it was known whether the round goes on. */
static void replay(struct dlr_sup_rounds *rounds)
{
    json_t *all = DLR_STEAL(rounds->adopt.later), *row;
    size_t i;

    json_array_foreach(all, i, row)
    {
        unsigned node = json_integer_value(json_array_get(row, 0));
        const json_t *msg = json_array_get(row, 1);

        if (dlr_streq(dlr_msg_type(msg), "exit"))
            dlr_sup_on_exit(rounds, node, msg);
        else
            dlr_sup_on_restored(rounds, node, msg);
    }
    json_decref(all);
}

static int find_exit(const struct dlr_sup_rounds *rounds, int *ret_status)
{
    if (!rounds->adopt.workers_pid || *rounds->env.state_fd < 0)
        return -ENOENT;
    return dlr_child_exits_find(*rounds->env.state_fd, rounds->adopt.workers_pid,
                                ret_status);
}

/* Its srun has ended, as the keeper says. A failure waits for what the agents know of
 * it.
 */
static void workers_over(struct dlr_sup_rounds *rounds)
{
    int status;

    if (find_exit(rounds, &status) < 0 || (status != 0 && rounds->adopt.active))
        return;
    rounds->adopt.active = false;
    rounds->adopt.workers_pid = 0;
    if (rounds->workers.pid)
        close(rounds->workers.pidfd);
    rounds->workers = (struct dlr_proc){.pidfd = -1};
    dlr_sup_step_ended(rounds, status);
}

/* Its nodes know what they have already of the copies that the former one had asked
 * for.
 */
static void again(struct dlr_sup_rounds *rounds)
{
    struct dlr_version newest;

    if (!dlr_sup_is_bare(rounds->env.copies) ||
        !dlr_sup_newest(rounds->env.versions, &newest) ||
        !dlr_version_eq(newest, rounds->env.plan->version))
        return;
    dlr_reprotect_plan(rounds->env.copies);
    dlr_reprotect_start(rounds->env.copies);
}

static void adopted(struct dlr_sup_rounds *rounds)
{
    rounds->adopt.active = false;
    settle_saves(rounds);
    tell_adopted(rounds);
    /* Else it would only disturb copies that are on their way. */
    if (rounds->adopt.moved)
        dlr_sup_tell_round(rounds, rounds->running_round);
    dlr_sup_rounds_changed(rounds);
    dlr_sup_holders_ask_all(rounds->env.copies);
    dlr_sup_ranks_adopted(rounds);
    again(rounds);
    replay(rounds);
    workers_over(rounds);
}

void dlr_sup_adopt_failed(struct dlr_sup_rounds *rounds, const char *why)
{
    if (!rounds->adopt.active)
        return;
    rounds->adopt.active = false;
    json_decref(rounds->adopt.later);
    rounds->adopt.later = NULL;
    json_decref(rounds->adopt.open);
    rounds->adopt.open = NULL;
    dlr_policy_adopt_failed(rounds->policy, why, dlr_sup_now());
}

static void take_committed(struct dlr_adopt *a, const json_t *v)
{
    uint64_t round, step;
    struct dlr_version version;

    if (dlr_msg_uint(v, "vround", UINT32_MAX, &round) < 0 ||
        dlr_msg_uint(v, "step", INT64_MAX, &step) < 0)
        return;
    version = (struct dlr_version){.round = round, .step = step};
    if (a->has_newest && dlr_version_cmp(version, a->newest) <= 0)
        return;
    a->has_newest = true;
    a->newest = version;
}

/* Versions that one more node has not heard the end of. */
static void take_open(struct dlr_adopt *a, const json_t *list)
{
    json_t *step, *known;
    size_t i, k;

    if (!a->open)
        a->open = json_array();
    for (i = 0; i < json_array_size(list) && i < DLR_SUP_OPEN_MAX; i++) {
        step = json_array_get(list, i);
        json_array_foreach(a->open, k, known)
        {
            if (json_equal(step, known))
                break;
        }
        if (k == json_array_size(a->open) && json_integer_value(step) > 0)
            json_array_append(a->open, step);
    }
}

void dlr_sup_on_round_state(struct dlr_sup_rounds *rounds, unsigned node,
                            const json_t *msg)
{
    struct dlr_adopt *a = &rounds->adopt;
    int64_t round, kill_up_to_round;
    uint64_t ordered = 0;
    char why[400];

    if (!dlr_sup_has_plan(rounds->env.plan) || !is_member(rounds, node)) {
        dlr_sup_agent_elsewhere(rounds, node, msg);
        return;
    }
    if (!a->active) {
        dlr_sup_agent_back(rounds, node, msg);
        return;
    }
    if (dlr_msg_int(msg, "round", &round) < 0 ||
        dlr_msg_int(msg, "kill_up_to_round", &kill_up_to_round) < 0 ||
        round != rounds->running_round || kill_up_to_round >= round) {
        snprintf(why, sizeof(why),
                 "the supervisor died, and node %.200s has ended the round since",
                 rounds->members->list[node].node.name);
        dlr_sup_adopt_failed(rounds, why);
        return;
    }
    dlr_msg_uint(msg, "ordered", INT64_MAX, &ordered);
    if (ordered > a->ordered)
        a->ordered = ordered;
    take_open(a, json_object_get(msg, "open"));
    take_committed(a, json_object_get(msg, "committed"));
    dlr_sup_ranks_round_state(rounds, node, msg);
    a->told[node] = 1;
    for (unsigned i = 0; i < rounds->members->n; i++)
        if (is_member(rounds, i) && !a->told[i])
            return;
    adopted(rounds);
}

/* --- begin and limit -------------------------------------------------------------- */

static int on_bell(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup_rounds *rounds = arg;
    eventfd_t times;

    eventfd_read(item->fd, &times);
    workers_over(rounds);
    return dlr_sup_rounds_go_on(rounds);
}

bool dlr_sup_adopt_start(struct dlr_sup_rounds *rounds, int bell_fd)
{
    DLR_AUTO_FREE unsigned char *member = calloc(rounds->members->n, 1);
    struct dlr_adopt *a = &rounds->adopt;

    a->told = calloc(rounds->members->n, 1);
    rounds->restored = calloc(rounds->env.plan->world, 1);
    rounds->up = calloc(rounds->env.step->world, 1);
    if (!member || !a->told ||
        dlr_sup_failure_reset(rounds, rounds->env.step->world) < 0 ||
        !rounds->restored || !rounds->up || dlr_sup_ranks_adopt(rounds) < 0 ||
        dlr_sup_watch(rounds->env.io, bell_fd, on_bell, rounds) < 0)
        return false;
    for (unsigned i = 0; i < rounds->members->n; i++)
        member[i] = is_member(rounds, i);
    a->active = rounds->launched = true;
    a->begun_ms = dlr_sup_now();
    a->deadline_ms =
        a->begun_ms + dlr_job_config_dead_ms(rounds->env.conf) + ADOPT_EXTRA_MS;
    rounds->started_ms = a->started_ms;
    rounds->progress_ms = a->begun_ms;
    dlr_policy_adopt(rounds->policy, member, rounds->launch_ms, a->begun_ms);
    dlr_sup_versions_adopt(rounds->env.versions, rounds->running_round);
    dlr_sup_keep_plan(rounds->env.planning);
    return true;
}

void dlr_sup_rounds_take_over(struct dlr_sup_rounds *rounds, int bell_fd,
                              const char *why)
{
    if (rounds->adopt.wanted) {
        rounds->workers = rounds->former_workers;
        if (dlr_sup_adopt_start(rounds, bell_fd))
            return;
        rounds->workers = (struct dlr_proc){.pidfd = -1};
    }
    dlr_policy_take_over(rounds->policy, why);
    dlr_srun_abandon(rounds->env.steps, &rounds->former_workers);
}

void dlr_sup_adopt_tick(struct dlr_sup_rounds *rounds, int64_t now_ms)
{
    if (now_ms < rounds->adopt.deadline_ms)
        return;
    rounds->adopt.deadline_ms = INT64_MAX;
    dlr_sup_adopt_failed(rounds,
                         "the supervisor died, and not every node came back to the "
                         "next one in time");
    for (unsigned i = 0; i < rounds->members->n && !rounds->ops->finished(rounds->arg);
         i++)
        if (!rounds->members->list[i].here && !dlr_policy_is_lost(rounds->policy, i))
            dlr_node_lost(rounds->env.nodes, i, now_ms - rounds->adopt.begun_ms,
                          now_ms);
}
