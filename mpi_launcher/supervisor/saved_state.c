/* SPDX-License-Identifier: Apache-2.0 */
/* One table for each of the two: who saves what, and in which order it is loaded. */
#include "mpi_launcher/supervisor/saved_state.h"

#include <stdio.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/keeper/takeover_state.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/copies/copies.h"
#include "mpi_launcher/supervisor/copies/fallback_network.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/former_runs.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/loss_rate.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/steps/steps.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions.h"

/* --- the run ---------------------------------------------------------------------- */

static void save_tries(const struct dlr_sup *s, json_t *state)
{
    dlr_sup_former_save(&s->info, state);
}

static void load_tries(struct dlr_sup *s, const json_t *state)
{
    dlr_sup_former_load(&s->info.before, state);
}

static void save_end(const struct dlr_sup *s, json_t *state)
{
    json_object_set_new(state, "ended",
                        dlr_sup_ending_finished(s->ending)
                            ? json_integer(dlr_sup_ending_code(s->ending))
                            : json_null());
}

void dlr_sup_load_end(struct dlr_sup *s, const json_t *state)
{
    uint64_t code;

    s->ended_before = dlr_msg_uint(state, "ended", 255, &code) == 0;
    if (s->ended_before)
        dlr_sup_ending_take(s->ending, (unsigned)code);
}

static void save_release(const struct dlr_sup *s, json_t *state)
{
    json_object_set_new(state, "v", json_integer(DLR_MSG_VERSION));
    json_object_set_new(state, "incarnation", json_integer(s->info.incarnation));
}

static void save_policy(const struct dlr_sup *s, json_t *state)
{
    uint32_t next =
        dlr_sup_has_plan(s->plan) ? dlr_policy_round(s->policy) + 1 : s->resume_round;

    json_object_set_new(state, "next_round", json_integer(next));
    json_object_set_new(state, "restarts",
                        json_integer(dlr_policy_restarts(s->policy)));
}

static void load_policy(struct dlr_sup *s, const json_t *state)
{
    s->resume_round = (uint32_t)dlr_sup_former_number(state, "next_round", UINT32_MAX);
    s->resume_restarts = (unsigned)dlr_sup_former_number(state, "restarts", UINT32_MAX);
}

static void save_step(const struct dlr_sup *s, json_t *state)
{
    json_object_set_new(state, "places",
                        json_integer(dlr_sup_full_places(s->planning)));
    json_object_set_new(state, "world", json_integer(dlr_sup_full_world(s->planning)));
}

static void load_step(struct dlr_sup *s, const json_t *state)
{
    dlr_sup_step_resume(
        s->planning,
        (unsigned)dlr_sup_former_number(state, "places", DLR_PLAN_NODES_MAX),
        (unsigned)dlr_sup_former_number(state, "world", DLR_PLAN_RANKS_MAX));
}

static void save_seats(const struct dlr_sup *s, json_t *state)
{
    dlr_sup_seats_state(s->planning, state);
}

static void load_seats(struct dlr_sup *s, const json_t *state)
{
    dlr_sup_seats_take(s->planning, state);
}

static void save_versions(const struct dlr_sup *s, json_t *state)
{
    dlr_sup_versions_state(s->versions, state);
}

static void load_versions(struct dlr_sup *s, const json_t *state)
{
    dlr_sup_versions_take(s->versions, state);
}

static void save_cadence(const struct dlr_sup *s, json_t *state)
{
    dlr_sup_cadence_state(s->versions, state);
}

static void save_losses(const struct dlr_sup *s, json_t *state)
{
    dlr_sup_losses_state(s->nodes, state);
}

static void load_losses(struct dlr_sup *s, const json_t *state)
{
    dlr_sup_losses_take(s->nodes, state);
}

/* --- this incarnation of it ------------------------------------------------------- */

static void save_supervisor(const struct dlr_sup *s, json_t *state)
{
    json_object_set_new(state, "run", json_string(s->info.name));
    json_object_set_new(state, "generation", json_integer(s->generation));
    json_object_set_new(state, "address", json_string(s->address));
}

static void load_supervisor(struct dlr_sup *s, const json_t *state)
{
    const char *address = "";

    dlr_msg_str(state, "address", &address);
    dlr_format(s->address, sizeof(s->address), "%s", address);
    s->generation =
        (unsigned)dlr_sup_former_number(state, "generation", UINT32_MAX - 1) + 1;
}

static void save_nodes(const struct dlr_sup *s, json_t *state)
{
    json_object_set_new(state, "peers", dlr_sup_nodes_state(s->nodes));
}

static void load_nodes(struct dlr_sup *s, const json_t *state)
{
    dlr_sup_nodes_take(s->nodes, json_object_get(state, "peers"));
}

static void save_steps(const struct dlr_sup *s, json_t *state)
{
    dlr_sup_steps_state(s->steps, state);
}

static void load_steps(struct dlr_sup *s, const json_t *state)
{
    dlr_sup_steps_take(s->steps, state);
}

static void save_stdin(const struct dlr_sup *s, json_t *state)
{
    dlr_sup_stdin_state(s->rounds, state);
}

static void load_stdin(struct dlr_sup *s, const json_t *state)
{
    dlr_sup_stdin_take(s->rounds, state);
}

static void save_net(const struct dlr_sup *s, json_t *state)
{
    dlr_sup_net_state(s->copies, state);
}

static void load_net(struct dlr_sup *s, const json_t *state)
{
    dlr_sup_net_take(s->copies, state);
}

static void save_bare(const struct dlr_sup *s, json_t *state)
{
    dlr_sup_bare_state(s->copies, state);
}

static void load_bare(struct dlr_sup *s, const json_t *state)
{
    dlr_sup_bare_take(s->copies, state);
}

static void save_workers(const struct dlr_sup *s, json_t *state)
{
    dlr_sup_workers_state(s->rounds, state);
}

static void save_round(const struct dlr_sup *s, json_t *state)
{
    dlr_sup_round_state(s->rounds, state);
}

static void load_round(struct dlr_sup *s, const json_t *state)
{
    dlr_sup_round_take(s->rounds, state);
}

/* --- the tables ------------------------------------------------------------------- */

struct part {
    void (*save)(const struct dlr_sup *s, json_t *state);
    void (*load)(struct dlr_sup *s, const json_t *state);
};

/* state.json. Whether this is one more try, and whether it has ended, is judged before:
 * resume.c.
 */
static const struct part of_run[] = {
    {save_tries, NULL},         {save_end, NULL},
    {save_release, NULL},       {save_policy, load_policy},
    {save_step, load_step},     {save_versions, load_versions},
    {save_losses, load_losses}, {save_cadence, NULL},
    {save_seats, load_seats},   {NULL, NULL},
};

/* What the keeper has beside it. The round comes last: it goes on if the others are
 * there.
 */
static const struct part of_supervisor[] = {
    {NULL, load_tries},
    {NULL, dlr_sup_load_end},
    {save_supervisor, load_supervisor},
    {save_nodes, load_nodes},
    {save_steps, load_steps},
    {save_stdin, load_stdin},
    {save_bare, load_bare},
    {save_workers, NULL},
    {save_net, load_net},
    {save_round, load_round},
    {NULL, NULL},
};

static void save(const struct part *parts, const struct dlr_sup *s, json_t *state)
{
    for (; parts->save || parts->load; parts++)
        if (parts->save)
            parts->save(s, state);
}

static void load(const struct part *parts, struct dlr_sup *s, const json_t *state)
{
    for (; parts->save || parts->load; parts++)
        if (parts->load)
            parts->load(s, state);
}

void dlr_sup_save_run(const struct dlr_sup *s, json_t *state)
{
    save(of_run, s, state);
}

void dlr_sup_load_run(struct dlr_sup *s, const json_t *state)
{
    load(of_run, s, state);
}

void dlr_sup_load_kept(struct dlr_sup *s, const json_t *state)
{
    dlr_sup_load_run(s, state);
    load(of_supervisor, s, state);
}

void dlr_sup_keep(struct dlr_sup *s)
{
    DLR_AUTO_JSON json_t *state = json_object();
    struct dlr_err err;

    if (!state || s->state_fd < 0)
        return;
    dlr_sup_save_run(s, state);
    save(of_supervisor, s, state);
    if (dlr_keepstate_save(s->state_fd, state, &err) < 0)
        dlr_sup_say(s->io, "%s", err.text);
}

void dlr_sup_save_state(struct dlr_sup *s)
{
    DLR_AUTO_JSON json_t *state = json_object();
    DLR_AUTO_FREE char *text = NULL;
    char path[DLR_RUN_PATH + 32];

    if (!state)
        return;
    dlr_sup_save_run(s, state);
    text = json_dumps(state, JSON_COMPACT);
    if (!text)
        return;
    snprintf(path, sizeof(path), "%s/state.json", s->info.dir);
    dlr_journal_replace(dlr_sup_journal(s->io), path, text);
    dlr_sup_keep(s);
}
