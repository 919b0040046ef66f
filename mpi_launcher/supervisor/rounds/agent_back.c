/* SPDX-License-Identifier: Apache-2.0 */
/* An agent has died and another one is there. Where it has taken its predecessor's round
 * (mpi_launcher/agent/adopt.c) nothing ends: what was on its way to that one is said
 * again, what it was doing is given up. Else the round ends.
 */
#include "mpi_launcher/supervisor/rounds/agent_back.h"

#include <stdio.h>

#include "ckpt/commit/commit.h"
#include "common/json/message.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/supervisor/copies/preparation.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/planning.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/versions/versions.h"

static const char *name_of(const struct dlr_sup_rounds *rounds, unsigned node)
{
    return rounds->members->list[node].node.name;
}

static void say(struct dlr_sup_rounds *rounds, unsigned node, const char *type,
                uint32_t round)
{
    json_t *msg = dlr_msg_new(type);

    json_object_set_new(msg, "round", json_integer(round));
    dlr_sup_send(rounds->env.nodes, node, msg);
}

/* What was asked of the agent that is gone, nobody does. */
static void give_up_requests(struct dlr_sup_rounds *rounds, unsigned node)
{
    dlr_sup_transfers_lost(rounds->env.copies, node);
    dlr_sup_gather_lost(rounds->env.planning, node);
}

/* The tasks go on there unwatched, or as another round or turn has them. */
static void watch_lost(struct dlr_sup_rounds *rounds, unsigned node)
{
    char why[300];

    give_up_requests(rounds, node);
    if (dlr_policy_phase(rounds->policy) == DLR_PHASE_END)
        say(rounds, node, "kill", rounds->running_round);
    snprintf(why, sizeof(why), "the agent of %.200s died and was started again",
             name_of(rounds, node));
    dlr_policy_watch_lost(rounds->policy, rounds->running_round, why, dlr_sup_now());
}

/* Its part of them may be lost, or nobody has heard that it is there. */
static void abort_open(struct dlr_sup_rounds *rounds, unsigned node)
{
    struct dlr_commit *commit = dlr_sup_commit(rounds->env.versions);
    struct dlr_version v;
    char why[300];

    snprintf(why, sizeof(why), "the agent of %.200s died", name_of(rounds, node));
    dlr_sup_periodic_cut(rounds->env.disk, why);
    for (unsigned i = 0; i < DLR_COMMIT_OPEN_MAX && dlr_commit_pending(commit, &v); i++)
        dlr_commit_missed(commit, 0, v, why, dlr_sup_now());
}

/* What was decided while nobody heard it there: to all, as after a supervisor's death. */
static void say_decisions(struct dlr_sup_rounds *rounds, const json_t *open)
{
    struct dlr_version newest = {0};
    bool has = dlr_sup_newest(rounds->env.versions, &newest);
    const json_t *item;
    size_t i;

    if (has && newest.round == rounds->running_round)
        dlr_sup_decide(rounds->env.versions, "commit", newest);
    json_array_foreach(open, i, item)
    {
        struct dlr_version v = {.round = rounds->running_round,
                                .step = (uint64_t)json_integer_value(item)};

        if (i >= DLR_SUP_OPEN_MAX || json_integer_value(item) <= 0)
            break;
        if (!has || dlr_version_cmp(v, newest) > 0)
            dlr_sup_decide(rounds->env.versions, "abort", v);
    }
}

static bool has_round(const struct dlr_sup_rounds *rounds, const json_t *msg)
{
    int64_t round, killed_up_to;
    uint64_t turn;

    return dlr_policy_phase(rounds->policy) == DLR_PHASE_RUN &&
           dlr_msg_int(msg, "round", &round) == 0 && round == rounds->running_round &&
           dlr_msg_uint(msg, "turn", UINT32_MAX, &turn) == 0 && turn == rounds->turn &&
           dlr_msg_int(msg, "kill_up_to_round", &killed_up_to) == 0 &&
           killed_up_to < round;
}

static void take_back(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg,
                      int64_t back_ms)
{
    give_up_requests(rounds, node);
    abort_open(rounds, node);
    say_decisions(rounds, json_object_get(msg, "open"));
    if (rounds->go_reported)
        say(rounds, node, "go", rounds->running_round);
    dlr_sup_holders_ask_all(rounds->env.copies);
    dlr_journal_note(dlr_sup_journal(rounds->env.io), "agent_back", "s:s,s:I,s:I",
                     "node", name_of(rounds, node), "round",
                     (json_int_t)rounds->running_round, "took_ms", (json_int_t)back_ms);
    dlr_user_line(rounds->env.io,
                  "the agent of %s died; the next one goes on with its tasks",
                  name_of(rounds, node));
}

void dlr_sup_agent_back(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg)
{
    int64_t round, back_ms;

    if (dlr_msg_int(msg, "round", &round) < 0)
        return;
    if (dlr_msg_int(msg, "back_ms", &back_ms) < 0) {
        if (round != dlr_policy_round(rounds->policy))
            watch_lost(rounds, node);
    } else if (has_round(rounds, msg)) {
        take_back(rounds, node, msg, back_ms);
    } else {
        watch_lost(rounds, node);
    }
}

void dlr_sup_agent_elsewhere(struct dlr_sup_rounds *rounds, unsigned node,
                             const json_t *msg)
{
    int64_t round, back_ms;

    if (dlr_msg_int(msg, "back_ms", &back_ms) == 0 &&
        dlr_msg_int(msg, "round", &round) == 0 && round >= 0 &&
        round < dlr_policy_round(rounds->policy))
        say(rounds, node, "kill", (uint32_t)round);
}
