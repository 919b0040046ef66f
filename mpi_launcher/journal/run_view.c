/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/journal/run_view.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/journal/event_fields.h"
#include "mpi_launcher/journal/nodes_view.h"
#include "mpi_launcher/journal/reader.h"
#include "mpi_launcher/journal/text.h"

static void set_version(struct dlr_cli_version *v, const json_t *pair)
{
    v->set = json_array_size(pair) == 2;
    v->round = v->set ? json_integer_value(json_array_get(pair, 0)) : 0;
    v->step = v->set ? json_integer_value(json_array_get(pair, 1)) : 0;
}

/* --- events ----------------------------------------------------------------------- */

static void on_start(struct dlr_cli_state *s, const json_t *e)
{
    s->had_round =
        s->had_round || s->round >= 0 || dlr_cli_event_int(e, "round", 0) > 0;
    s->suspended = false;
    dlr_cli_nodes_start(s, e);
    dlr_cli_set_text(&s->job, dlr_cli_event_text(e, "job"));
    dlr_cli_set_text(&s->run, dlr_cli_event_text(e, "run"));
    dlr_cli_set_text(&s->suite, dlr_cli_event_text(e, "version"));
    dlr_cli_set_text(&s->why, NULL);
    s->incarnation = dlr_cli_event_int(e, "incarnation", 0);
    s->generation = dlr_cli_event_int(e, "generation", 1);
    s->places = dlr_cli_event_int(e, "places", 0);
    s->world = dlr_cli_event_int(e, "world", 0);
    s->max_restarts = dlr_cli_event_int(e, "max_restarts", 0);
    s->over = false;
    /* A later supervisor has taken over what was lacking, too. */
    if (s->generation <= 1)
        s->degraded_since_ms = 0;
    s->step = -1;
    s->rate = 0;
}

/* Told with whatever has the places, when it is another one than before. */
static void take_survival(struct dlr_cli_state *s, const json_t *e)
{
    if (dlr_cli_event_text(e, "survives"))
        dlr_cli_set_text(&s->survives, dlr_cli_event_text(e, "survives"));
}

static void on_plan(struct dlr_cli_state *s, const json_t *e)
{
    free(s->no_memory_why);
    s->no_memory_why = NULL;
    dlr_cli_nodes_plan(s, e);
    s->round = dlr_cli_event_int(e, "round", s->round);
    set_version(&s->restore, json_object_get(e, "restore"));
    take_survival(s, e);
    s->step = -1;
    s->rate = 0;
}

static void on_running(struct dlr_cli_state *s, const json_t *e)
{
    s->phase = s->restore.set ? DLR_CLI_LOAD : DLR_CLI_RUN;
}

static void take_committed(struct dlr_cli_state *s, const json_t *e)
{
    struct dlr_cli_version v;

    set_version(&v, json_object_get(e, "committed"));
    if (!v.set)
        return;
    if (!s->committed.set || v.round != s->committed.round ||
        v.step != s->committed.step)
        s->commit_ms = 0;
    s->committed = v;
    if (dlr_cli_event_int(e, "commit_age_ms", -1) >= 0)
        s->commit_ms = s->last_ms - dlr_cli_event_int(e, "commit_age_ms", 0);
}

static void on_step(struct dlr_cli_state *s, const json_t *e)
{
    const json_t *rate = json_object_get(e, "rate");

    s->step = dlr_cli_event_int(e, "step", s->step);
    s->step_ms = s->last_ms;
    s->stake_ms = dlr_cli_event_int(e, "at_stake_ms", -1) >= 0
                      ? s->last_ms - dlr_cli_event_int(e, "at_stake_ms", 0)
                      : 0;
    if (json_is_number(rate))
        s->rate = json_number_value(rate);
    s->commits = dlr_cli_event_int(e, "commits", s->commits);
    s->aborts = dlr_cli_event_int(e, "aborts", s->aborts);
    s->round = dlr_cli_event_int(e, "round", s->round);
    dlr_cli_set_text(&s->still, NULL);
    take_committed(s, e);
}

static void on_still(struct dlr_cli_state *s, const json_t *e)
{
    dlr_cli_set_text(&s->still, dlr_cli_event_text(e, "why"));
}

static void on_moves(struct dlr_cli_state *s, const json_t *e)
{
    dlr_cli_set_text(&s->still, NULL);
}

static void on_round_end(struct dlr_cli_state *s, const json_t *e)
{
    s->had_round = true;
    s->restarts = dlr_cli_event_int(e, "restarts", s->restarts);
    if ((dlr_streq(dlr_cli_event_text(e, "cause"), "program") ||
         dlr_streq(dlr_cli_event_text(e, "cause"), "hang")) &&
        s->restarts < s->max_restarts)
        s->restarts++; /* the one that this end will cost */
    s->step = dlr_cli_event_int(e, "step", s->step);
    dlr_cli_set_text(&s->why, dlr_cli_event_text(e, "why"));
    dlr_cli_set_text(&s->still, NULL);
    take_committed(s, e);
}

/* No failure of the program, as it seemed: it costs no restart. */
static void on_explained(struct dlr_cli_state *s, const json_t *e)
{
    s->restarts = dlr_cli_event_int(e, "restarts", s->restarts);
    dlr_cli_set_text(&s->why, dlr_cli_event_text(e, "why"));
}

static void on_why(struct dlr_cli_state *s, const json_t *e)
{
    dlr_cli_set_text(&s->why, dlr_cli_event_text(e, "why"));
}

/* The supervisor was started again, the round was not: who trains stands here once
 * more.
 */
static void on_adopted(struct dlr_cli_state *s, const json_t *e)
{
    dlr_cli_nodes_place(s, e);
    s->round = dlr_cli_event_int(e, "round", s->round);
    dlr_cli_set_text(&s->still, NULL); /* the new one judges anew */
}

static void on_unprotected(struct dlr_cli_state *s, const json_t *e)
{
    s->degraded_since_ms = s->last_ms;
    dlr_cli_set_text(&s->degraded_node, dlr_cli_event_text(e, "node"));
}

static void on_protected(struct dlr_cli_state *s, const json_t *e)
{
    s->degraded_since_ms = 0;
}

static void on_no_memory(struct dlr_cli_state *s, const json_t *e)
{
    const char *node = dlr_cli_event_text(e, "node"),
               *why = dlr_cli_event_text(e, "why");

    s->no_memory = dlr_cli_event_int(e, "count", s->no_memory);
    free(s->no_memory_why);
    s->no_memory_why = dlr_format_new("%s: %s", node ? node : "?", why ? why : "?");
}

static void on_takeover(struct dlr_cli_state *s, const json_t *e)
{
    dlr_cli_nodes_gone(s, dlr_cli_event_text(e, "from"), dlr_cli_event_text(e, "why"));
    s->had_round = true;
    on_why(s, e);
}

static void on_end(struct dlr_cli_state *s, const json_t *e)
{
    const json_t *wall = json_object_get(e, "wall_s");

    s->over = true;
    s->code = dlr_cli_event_int(e, "code", 1);
    s->rounds = dlr_cli_event_int(e, "rounds", 0);
    s->wall_s = json_is_number(wall) ? json_number_value(wall) : 0;
    on_why(s, e);
}

static void keep(json_t **at, const json_t *e)
{
    json_decref(*at);
    *at = json_incref((json_t *)e);
}

static void on_cadence(struct dlr_cli_state *s, const json_t *e)
{
    keep(&s->cadence, e);
}

static void on_saving(struct dlr_cli_state *s, const json_t *e)
{
    keep(&s->saving, e);
}

static void on_network(struct dlr_cli_state *s, const json_t *e)
{
    keep(&s->network, e);
}

static void on_topology(struct dlr_cli_state *s, const json_t *e)
{
    keep(&s->topology, e);
}

static void on_every_step(struct dlr_cli_state *s, const json_t *e)
{
    keep(&s->every_step, e);
}

static void on_persisted(struct dlr_cli_state *s, const json_t *e)
{
    keep(&s->persisted, e);
}

static void on_suspended(struct dlr_cli_state *s, const json_t *e)
{
    s->suspended = true;
}

static void on_resumed(struct dlr_cli_state *s, const json_t *e)
{
    s->suspended = false;
    s->step_ms = s->last_ms; /* no step could come meanwhile */
}

/* phase NOTHING: the event leaves the phase as it is. */
static const struct {
    const char *event;
    enum dlr_cli_phase phase;
    void (*take)(struct dlr_cli_state *s, const json_t *e);
} table[] = {
    {"start", DLR_CLI_AGENTS, on_start},
    {"node_up", DLR_CLI_NOTHING, dlr_cli_nodes_up},
    {"topology", DLR_CLI_NOTHING, on_topology},
    {"node_dead", DLR_CLI_NOTHING, dlr_cli_nodes_dead},
    {"suspended", DLR_CLI_NOTHING, on_suspended},
    {"resumed", DLR_CLI_NOTHING, on_resumed},
    {"rendezvous", DLR_CLI_RENDEZVOUS, NULL},
    {"plan", DLR_CLI_PREPARE, on_plan},
    {"ranks", DLR_CLI_NOTHING, take_survival},
    {"no_memory", DLR_CLI_NOTHING, on_no_memory},
    {"unprotected", DLR_CLI_NOTHING, on_unprotected},
    {"protected", DLR_CLI_NOTHING, on_protected},
    {"launch", DLR_CLI_LAUNCH, NULL},
    {"running", DLR_CLI_RUN, on_running},
    {"restored", DLR_CLI_RUN, NULL},
    {"first_step", DLR_CLI_TRAIN, on_step},
    {"progress", DLR_CLI_TRAIN, on_step},
    {"still", DLR_CLI_NOTHING, on_still},
    {"moves", DLR_CLI_NOTHING, on_moves},
    {"saving", DLR_CLI_NOTHING, on_saving},
    {"cadence", DLR_CLI_NOTHING, on_cadence},
    {"every_step", DLR_CLI_NOTHING, on_every_step},
    {"network", DLR_CLI_NOTHING, on_network},
    {"round_end", DLR_CLI_ENDING, on_round_end},
    {"explained", DLR_CLI_NOTHING, on_explained},
    {"cleared", DLR_CLI_CLEARED, NULL},
    {"warm", DLR_CLI_NOTHING, dlr_cli_nodes_warm},
    {"persist", DLR_CLI_PERSIST, NULL},
    {"persisted", DLR_CLI_NOTHING, on_persisted},
    {"requeue", DLR_CLI_REQUEUE, on_why},
    {"requeued", DLR_CLI_REQUEUE, on_why},
    {"controller_away", DLR_CLI_CLEARED, on_why},
    {"adopted", DLR_CLI_RUN, on_adopted},
    {"takeover", DLR_CLI_PERSIST, on_takeover},
    {"end", DLR_CLI_FINISHED, on_end},
};

static void take_event(struct dlr_cli_state *s, json_t *e)
{
    const char *name = dlr_cli_event_text(e, "event");
    enum dlr_cli_phase before = s->phase;
    int64_t ms;

    if (dlr_cli_time_parse(dlr_cli_event_text(e, "time"), &ms) == 0)
        s->last_ms = ms;
    s->dropped_lines = dlr_cli_event_int(e, "dropped_lines", s->dropped_lines);
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        if (!dlr_streq(table[i].event, name))
            continue;
        if (table[i].phase != DLR_CLI_NOTHING)
            s->phase = table[i].phase;
        if (table[i].take)
            table[i].take(s, e);
    }
    if (s->phase != before || dlr_streq(name, "start"))
        s->phase_ms = s->last_ms;
    if (dlr_streq(name, "progress"))
        return;
    json_decref(s->last[s->nlast % DLR_CLI_LAST]);
    s->last[s->nlast++ % DLR_CLI_LAST] = json_incref(e);
}

/* --- lines ------------------------------------------------------------------------ */

static void take_line(struct dlr_cli_state *s, const char *line, size_t size)
{
    json_t *e = dlr_cli_event_parse(line, size);

    if (e)
        take_event(s, e);
    else
        s->bad_lines++;
    json_decref(e);
}

void dlr_cli_state_settle(struct dlr_cli_state *s)
{
    if (s->progress_size)
        take_line(s, s->progress, s->progress_size);
    s->progress_size = 0;
}

void dlr_cli_state_line(struct dlr_cli_state *s, const char *line, size_t size)
{
    char *more = s->progress;

    if (size == 0)
        return;
    if (!dlr_cli_is_progress(line, size)) {
        dlr_cli_state_settle(s);
        take_line(s, line, size);
        return;
    }
    if (size > s->progress_room && (more = realloc(s->progress, 2 * size))) {
        s->progress = more;
        s->progress_room = 2 * size;
    }
    if (!more)
        return;
    memcpy(s->progress, line, size);
    s->progress_size = size;
}

void dlr_cli_state_init(struct dlr_cli_state *s)
{
    *s = (struct dlr_cli_state){.round = -1, .step = -1, .index = json_object()};
}

void dlr_cli_state_done(struct dlr_cli_state *s)
{
    dlr_cli_nodes_forget(s);
    json_decref(s->index);
    for (size_t i = 0; i < DLR_CLI_LAST; i++)
        json_decref(s->last[i]);
    free(s->nodes);
    free(s->job);
    free(s->run);
    free(s->suite);
    free(s->why);
    free(s->still);
    free(s->no_memory_why);
    free(s->degraded_node);
    free(s->survives);
    free(s->progress);
    json_decref(s->saving);
    json_decref(s->cadence);
    json_decref(s->every_step);
    json_decref(s->network);
    json_decref(s->persisted);
    json_decref(s->topology);
    *s = (struct dlr_cli_state){0};
}
