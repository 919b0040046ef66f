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
#include "mpi_launcher/supervisor/succession.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions.h"
#include "mpi_launcher/supervisor/watch/watch.h"

/* Most engines have two functions for it. */
#define PART_OF(name, stem, engine)                                                    \
    static void save_##name(const struct dlr_sup *s, json_t *state)                    \
    {                                                                                  \
        stem##_state(s->engine, state);                                                \
    }                                                                                  \
    static void load_##name(struct dlr_sup *s, const json_t *state)                    \
    {                                                                                  \
        stem##_take(s->engine, state);                                                 \
    }
PART_OF(end_row, dlr_sup_end, ending)
PART_OF(placement, dlr_sup_placement, planning)
PART_OF(versions, dlr_sup_versions, versions)
PART_OF(losses, dlr_sup_losses, nodes)
PART_OF(steps, dlr_sup_steps, steps)
PART_OF(stdin, dlr_sup_stdin, rounds)
PART_OF(net, dlr_sup_net, copies)
PART_OF(degraded, dlr_redundancy_degraded, copies)
PART_OF(round, dlr_sup_round, rounds)
PART_OF(learned, dlr_sup_watch, watch)

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
    if (s->script_lost)
        json_object_set_new(state, "script_lost", json_true());
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

static void save_cadence(const struct dlr_sup *s, json_t *state)
{
    dlr_sup_cadence_state(s->versions, state);
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

static void save_workers(const struct dlr_sup *s, json_t *state)
{
    dlr_sup_workers_state(s->rounds, state);
}

/* --- the tables ------------------------------------------------------------------- */

struct part {
    void (*save)(const struct dlr_sup *s, json_t *state);
    void (*load)(struct dlr_sup *s, const json_t *state);
};

/* state.json. Whether this is one more try, and whether it has ended, is judged before:
 * resume.c.
 */
/* clang-format off */
static const struct part of_run[] = {
    {save_tries,    NULL},          /* command, tries */
    {save_end,      NULL},          /* ended */
    {save_release,  NULL},          /* v, incarnation */
    {save_policy,   load_policy},   /* next_round, restarts */
    {save_step,     load_step},     /* places, world */
    {save_versions, load_versions}, /* committed, bad, vetted; reads cadence, too */
    {save_losses,   load_losses},   /* nodes_lost, node_s */
    {save_cadence,  NULL},          /* cadence */
    {save_placement,    load_placement},    /* ranks */
    {save_learned,  load_learned},  /* learned */
    {NULL, NULL},
};

/* What the keeper has beside it. The round comes last: it goes on if the others are
 * there.
 */
static const struct part of_supervisor[] = {
    {NULL,            load_tries},
    {NULL,            dlr_sup_load_end},
    {save_supervisor, load_supervisor}, /* run, generation, address */
    {NULL,            dlr_sup_succession_take}, /* succession: of the elected agent */
    {save_end_row,    load_end_row},    /* end: its line of the journal */
    {save_nodes,      load_nodes},      /* peers */
    {save_steps,      load_steps},      /* agents_pid, agents_id, flushing_pid */
    {save_stdin,      load_stdin},      /* stdin_at */
    {save_degraded,       load_degraded},       /* degraded_since_ms */
    {save_workers,    NULL},            /* workers_pid: read with the round */
    {save_net,        load_net},        /* fallback_network */
    {save_round,      load_round},      /* running */
    {NULL, NULL},
};
/* clang-format on */

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

/* Processes and the port of this host, and a round that ends with it, are none of its.
 */
json_t *dlr_sup_state_for_heirs(const struct dlr_sup *s)
{
    static const char *const of_host[] = {"agents_pid", "agents_id",   "flushing_pid",
                                          "stay_pids",  "workers_pid", "running",
                                          "address"};
    json_t *state = json_object();

    if (!state)
        return NULL;
    dlr_sup_save_run(s, state);
    save(of_supervisor, s, state);
    for (unsigned i = 0; i < sizeof(of_host) / sizeof(*of_host); i++)
        json_object_del(state, of_host[i]);
    return state;
}

void dlr_sup_save_takeover_state(struct dlr_sup *s)
{
    DLR_AUTO_JSON json_t *state = json_object();
    struct dlr_err err;

    if (!state || s->state_fd < 0)
        return;
    dlr_sup_save_run(s, state);
    save(of_supervisor, s, state);
    s->will_is_old = true;
    if (dlr_takeover_state_save(s->state_fd, state, &err) < 0)
        dlr_user_line(s->io, "%s", err.text);
}

void dlr_sup_save_state(struct dlr_sup *s)
{
    DLR_AUTO_JSON json_t *state = json_object();
    DLR_AUTO_FREE char *text = NULL;
    char path[DLR_RUN_PATH + 32];

    if (!state || s->deposed) /* it is the successor's */
        return;
    dlr_sup_save_run(s, state);
    text = json_dumps(state, JSON_COMPACT);
    if (!text)
        return;
    snprintf(path, sizeof(path), "%s/state.json", s->info.dir);
    dlr_journal_replace(dlr_sup_journal(s->io), path, text);
    dlr_sup_save_takeover_state(s);
}
