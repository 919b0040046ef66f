/* SPDX-License-Identifier: Apache-2.0 */
/* A round whose supervisor died goes on under the next one: what it must know stands in the
 * keeper's memory file, the rest its agents tell. Nothing of the workers is touched. Where it
 * cannot be proven that every node of the round still has it, the round is ended and begun anew.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/keeper/child_exits.h"
#include "mpi_launcher/supervisor/supervisor.h"

#define OPEN_MAX 64         /* versions that one agent may say are undecided */
#define ADOPT_EXTRA_MS 2000 /* beyond dead time: for connections to come back */

/* --- what is kept -------------------------------------------------------------------------- */

json_t *dlr_sup_round_state(const struct dlr_sup *s)
{
    if (dlr_policy_phase(s->policy) != DLR_PHASE_RUN || !dlr_sup_has_plan(s->plan))
        return NULL;
    return json_pack("{s:I,s:s,s:I,s:I,s:I,s:b,s:b,s:b,s:b,s:b,s:b,s:I,s:o}", "round",
                     (json_int_t)s->running_round, "token", s->token, "started_ms",
                     (json_int_t)s->started_ms, "launch_ms", (json_int_t)s->launch_ms,
                     "launch_deadline_ms", (json_int_t)s->launch_deadline_ms, "running",
                     s->running_told, "go", s->go_told, "saving",
                     dlr_sup_saving(s->versions), "first_step", s->first_step_told,
                     "queue", s->queue.may, "anywhere", s->anywhere, "turn",
                     (json_int_t)s->turn, "plan", dlr_plan_to_json(s->plan, NULL));
}

static bool flag(const json_t *state, const char *key)
{
    return json_is_true(json_object_get(state, key));
}

static int load_plan(struct dlr_sup *s, const json_t *state)
{
    int rc = dlr_sup_plan_adopt(s->planning, json_object_get(state, "plan"));

    if (rc == 0)
        rc = dlr_sup_holders_make(s);
    if (rc < 0)
        dlr_sup_plan_drop(s->planning);
    return rc;
}

int dlr_sup_load_round(struct dlr_sup *s, const json_t *state)
{
    const char *token = "";
    int64_t started_ms;
    uint64_t round, turn;

    if (!json_is_object(state) ||
        dlr_msg_uint(state, "round", UINT32_MAX, &round) < 0 ||
        round + 1 != s->resume_round ||
        dlr_msg_int(state, "started_ms", &started_ms) < 0 ||
        dlr_msg_int(state, "launch_ms", &s->launch_ms) < 0 ||
        dlr_msg_int(state, "launch_deadline_ms", &s->launch_deadline_ms) < 0 ||
        dlr_msg_str(state, "token", &token) < 0 || load_plan(s, state) < 0)
        return -ESTALE;
    dlr_format(s->token, sizeof(s->token), "%s", token);
    s->adopt.started_ms = started_ms;
    s->running_round = round;
    s->running_told = flag(state, "running");
    s->go_told = flag(state, "go");
    dlr_sup_saving_take(s->versions, flag(state, "saving"));
    s->first_step_told = flag(state, "first_step");
    s->queue.may = flag(state, "queue");
    s->anywhere = flag(state, "anywhere");
    s->turn = dlr_msg_uint(state, "turn", UINT32_MAX, &turn) == 0 ? (uint32_t)turn : 0;
    dlr_sup_losses_count(s->nodes, s->plan->nplaces);
    s->transfer_version = s->plan->version; /* what agents may still ask for */
    return 0;
}

/* --- what the agents tell ---------------------------------------------------------------- */

static bool is_member(const struct dlr_sup *s, unsigned node)
{
    const char *name = s->members->list[node].node.name;

    for (unsigned p = 0; p < s->plan->nplaces; p++)
        if (dlr_streq(s->plan->places[p].node.name, name))
            return true;
    return false;
}

/* What the former supervisor had decided is said again, for those that did not hear it;
 * what it had only ordered is given up: nobody knows all of its answers.
 */
static void settle_saves(struct dlr_sup *s)
{
    struct dlr_adopt *a = &s->adopt;
    DLR_AUTO_JSON json_t *open = DLR_STEAL(a->open);
    json_t *step;
    size_t i;

    if (a->has_newest && a->newest.round == s->running_round)
        dlr_sup_decide(s->versions, "commit", a->newest);
    json_array_foreach(open, i, step)
    {
        struct dlr_version v = {.round = s->running_round,
                                .step = (uint64_t)json_integer_value(step)};

        if (!a->has_newest || dlr_version_cmp(v, a->newest) > 0)
            dlr_sup_decide(s->versions, "abort", v);
    }
    dlr_sup_versions_go_on(s->versions, a->has_newest ? &a->newest : NULL, a->ordered);
}

static void tell_adopted(struct dlr_sup *s)
{
    json_t *row = dlr_sup_plan_rows(s->planning);

    if (row)
        json_object_set_new(row, "took_ms",
                            json_integer(dlr_sup_now() - s->adopt.begun_ms));
    dlr_journal_event(dlr_sup_journal(s->io), "adopted", row);
    dlr_sup_say(s->io, "round %u goes on under a new supervisor", s->running_round);
}

/* Failures that were told before it was known whether the round goes on. */
static void replay(struct dlr_sup *s)
{
    json_t *all = DLR_STEAL(s->adopt.later), *row;
    size_t i;

    json_array_foreach(all, i, row)
    {
        unsigned node = json_integer_value(json_array_get(row, 0));
        const json_t *msg = json_array_get(row, 1);

        if (dlr_streq(dlr_msg_type(msg), "exit"))
            dlr_sup_on_exit(s, node, msg);
        else
            dlr_sup_on_restored(s, node, msg);
    }
    json_decref(all);
}

bool dlr_sup_adopt_later(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    if (!s->adopt.active)
        return false;
    if (!s->adopt.later)
        s->adopt.later = json_array();
    json_array_append_new(s->adopt.later, json_pack("[i,O]", (int)node, (json_t *)msg));
    return true;
}

static int find_exit(const struct dlr_sup *s, int *ret_status)
{
    if (!s->adopt.workers_pid || s->state_fd < 0)
        return -ENOENT;
    return dlr_exits_find(s->state_fd, s->adopt.workers_pid, ret_status);
}

/* Its srun has ended, as the keeper says. A failure waits for what the agents know of it. */
static void workers_over(struct dlr_sup *s)
{
    int status;

    if (find_exit(s, &status) < 0 || (status != 0 && s->adopt.active))
        return;
    s->adopt.active = false;
    s->adopt.workers_pid = 0;
    if (s->workers.pid)
        close(s->workers.pidfd);
    s->workers = (struct dlr_proc){.pidfd = -1};
    dlr_sup_step_ended(s, status);
}

/* Its nodes know what they have already of the copies that the former one had asked for. */
static void again(struct dlr_sup *s)
{
    struct dlr_version newest;

    if (!s->bare_ms || !dlr_sup_newest(s->versions, &newest) ||
        !dlr_version_eq(newest, s->plan->version))
        return;
    dlr_sup_again_plan(s);
    dlr_sup_again_start(s);
}

static void adopted(struct dlr_sup *s)
{
    s->adopt.active = false;
    settle_saves(s);
    tell_adopted(s);
    if (s->adopt.moved) /* else it would only disturb copies that are on their way */
        dlr_sup_tell_round(s, s->running_round);
    dlr_sup_keep(s);
    dlr_sup_holders_ask_all(s);
    dlr_sup_ranks_adopted(s);
    again(s);
    replay(s);
    workers_over(s);
}

void dlr_sup_adopt_failed(struct dlr_sup *s, const char *why)
{
    if (!s->adopt.active)
        return;
    s->adopt.active = false;
    json_decref(s->adopt.later);
    s->adopt.later = NULL;
    json_decref(s->adopt.open);
    s->adopt.open = NULL;
    dlr_policy_adopt_failed(s->policy, why, dlr_sup_now());
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
    for (i = 0; i < json_array_size(list) && i < OPEN_MAX; i++) {
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

/* A node that had the round knows nothing of it: its agent died and was started again. The
 * tasks go on there unwatched, and what it was to move or to end, nobody does.
 */
static void agent_is_new(struct dlr_sup *s, unsigned node, int64_t round)
{
    const char *name = s->members->list[node].node.name;
    json_t *msg;
    char why[300];

    if (round == dlr_policy_round(s->policy))
        return;
    dlr_sup_transfers_lost(s, node);
    dlr_sup_gather_lost(s->planning, node);
    if (dlr_policy_phase(s->policy) == DLR_PHASE_END) {
        msg = dlr_msg_new("kill");
        json_object_set_new(msg, "round", json_integer(s->running_round));
        dlr_sup_send(s->nodes, node, msg);
    }
    snprintf(why, sizeof(why), "the agent of %.200s died and was started again", name);
    dlr_policy_watch_lost(s->policy, s->running_round, why, dlr_sup_now());
}

void dlr_sup_on_told(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    struct dlr_adopt *a = &s->adopt;
    int64_t round, doomed;
    uint64_t ordered = 0;
    char why[400];

    if (!dlr_sup_has_plan(s->plan) || !is_member(s, node))
        return;
    if (!a->active) {
        if (dlr_msg_int(msg, "round", &round) == 0)
            agent_is_new(s, node, round);
        return;
    }
    if (dlr_msg_int(msg, "round", &round) < 0 ||
        dlr_msg_int(msg, "doomed", &doomed) < 0 || round != s->running_round ||
        doomed >= round) {
        snprintf(why, sizeof(why),
                 "the supervisor died, and node %.200s has ended the round since",
                 s->members->list[node].node.name);
        dlr_sup_adopt_failed(s, why);
        return;
    }
    dlr_msg_uint(msg, "ordered", INT64_MAX, &ordered);
    if (ordered > a->ordered)
        a->ordered = ordered;
    take_open(a, json_object_get(msg, "open"));
    take_committed(a, json_object_get(msg, "committed"));
    dlr_sup_ranks_told(s, node, msg);
    a->told[node] = 1;
    for (unsigned i = 0; i < s->members->n; i++)
        if (is_member(s, i) && !a->told[i])
            return;
    adopted(s);
}

/* --- begin and limit ------------------------------------------------------------------------- */

static int on_bell(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup *s = arg;
    eventfd_t times;

    eventfd_read(item->fd, &times);
    workers_over(s);
    return dlr_sup_is_over(s) ? -1 : 0;
}

bool dlr_sup_adopt_start(struct dlr_sup *s, int bell_fd)
{
    DLR_AUTO_FREE unsigned char *member = calloc(s->members->n, 1);
    struct dlr_adopt *a = &s->adopt;

    a->told = calloc(s->members->n, 1);
    s->tails = calloc(s->step->world, sizeof(*s->tails));
    s->ntails = s->step->world;
    s->restored = calloc(s->plan->world, 1);
    s->up = calloc(s->step->world, 1);
    if (!member || !a->told || !s->tails || !s->restored || !s->up ||
        dlr_sup_ranks_adopt(s) < 0 || dlr_sup_watch(s->io, bell_fd, on_bell, s) < 0)
        return false;
    for (unsigned i = 0; i < s->members->n; i++)
        member[i] = is_member(s, i);
    a->active = s->launched = true;
    a->begun_ms = dlr_sup_now();
    a->deadline_ms = a->begun_ms + dlr_jobconf_dead_ms(&s->conf) + ADOPT_EXTRA_MS;
    s->started_ms = a->started_ms;
    s->progress_ms = a->begun_ms;
    dlr_policy_adopt(s->policy, member, s->launch_ms, a->begun_ms);
    dlr_sup_versions_adopt(s->versions, s->running_round);
    dlr_sup_keep_plan(s->planning);
    return true;
}

void dlr_sup_adopt_tick(struct dlr_sup *s, int64_t now_ms)
{
    if (now_ms < s->adopt.deadline_ms)
        return;
    s->adopt.deadline_ms = INT64_MAX;
    dlr_sup_adopt_failed(s, "the supervisor died, and not every node came back to the "
                            "next one in time");
    for (unsigned i = 0; i < s->members->n && !dlr_sup_ending_finished(s->end); i++)
        if (!s->members->list[i].here && !dlr_policy_is_lost(s->policy, i))
            dlr_sup_lose(s->nodes, i, now_ms - s->adopt.begun_ms, now_ms);
}
