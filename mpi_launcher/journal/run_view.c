/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/journal/run_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/journal/reader.h"
#include "mpi_launcher/journal/text.h"

/* --- small readers of fields ------------------------------------------------------- */

static const char *text_of(const json_t *e, const char *key)
{
    return json_string_value(json_object_get(e, key));
}

static int64_t int_of(const json_t *e, const char *key, int64_t fallback)
{
    const json_t *v = json_object_get(e, key);

    return json_is_integer(v) ? json_integer_value(v) : fallback;
}

static void set_text(char **text, const char *value)
{
    free(*text);
    *text = value && value[0] ? strdup(value) : NULL;
}

static void set_version(struct dlr_cli_version *v, const json_t *pair)
{
    v->set = json_array_size(pair) == 2;
    v->round = v->set ? json_integer_value(json_array_get(pair, 0)) : 0;
    v->step = v->set ? json_integer_value(json_array_get(pair, 1)) : 0;
}

/* --- nodes --------------------------------------------------------------------------- */

static void clear_node(struct dlr_cli_node *n)
{
    set_text(&n->reason, NULL);
    set_text(&n->partner, NULL);
    json_decref(n->ranks);
    n->ranks = NULL;
    n->first = n->tasks = 0;
    n->moved = false;
}

static void forget_nodes(struct dlr_cli_state *s)
{
    for (size_t i = 0; i < s->nnodes; i++) {
        clear_node(&s->nodes[i]);
        free(s->nodes[i].name);
        free(s->nodes[i].leaf);
    }
    s->nnodes = 0;
    json_object_clear(s->index);
}

/* The node of that name, new when it was not known; NULL without a name or memory. */
static struct dlr_cli_node *node_of(struct dlr_cli_state *s, const char *name)
{
    const json_t *at = name ? json_object_get(s->index, name) : NULL;
    DLR_AUTO_FREE char *copy = NULL;
    struct dlr_cli_node *more;

    if (at)
        return &s->nodes[json_integer_value(at)];
    if (!name || !name[0] || !(copy = strdup(name)))
        return NULL;
    if ((s->nnodes & (s->nnodes - 1)) == 0) { /* full at each power of two */
        more = realloc(s->nodes, (s->nnodes ? 2 * s->nnodes : 1) * sizeof(*more));
        if (!more)
            return NULL;
        s->nodes = more;
    }
    if (json_object_set_new(s->index, name, json_integer((json_int_t)s->nnodes)) < 0)
        return NULL;
    s->nodes[s->nnodes] = (struct dlr_cli_node){.name = DLR_STEAL(copy)};
    return &s->nodes[s->nnodes++];
}

/* --- events ---------------------------------------------------------------------------- */

static void on_start(struct dlr_cli_state *s, const json_t *e)
{
    const json_t *names = json_object_get(e, "nodes");

    s->had_round = s->had_round || s->round >= 0 || int_of(e, "round", 0) > 0;
    s->suspended = false;
    forget_nodes(s);
    for (size_t i = 0; i < json_array_size(names); i++)
        node_of(s, json_string_value(json_array_get(names, i)));
    set_text(&s->job, text_of(e, "job"));
    set_text(&s->run, text_of(e, "run"));
    set_text(&s->suite, text_of(e, "version"));
    set_text(&s->why, NULL);
    s->incarnation = int_of(e, "incarnation", 0);
    s->generation = int_of(e, "generation", 1);
    s->places = int_of(e, "places", 0);
    s->spares = int_of(e, "spares", 0);
    s->world = int_of(e, "world", 0);
    s->max_restarts = int_of(e, "max_restarts", 0);
    s->over = false;
    /* A later supervisor has taken over what was lacking, too. */
    if (s->generation <= 1)
        s->bare_ms = 0;
    s->step = -1;
    s->rate = 0;
}

static void on_node_up(struct dlr_cli_state *s, const json_t *e)
{
    struct dlr_cli_node *n = node_of(s, text_of(e, "node"));

    if (!n)
        return;
    set_text(&n->leaf, text_of(e, "leaf"));
    if (n->role == DLR_CLI_TRAINING || n->role == DLR_CLI_SPARE)
        return;
    clear_node(n);
    n->role = DLR_CLI_READY;
}

static void set_role(struct dlr_cli_node *n, enum dlr_cli_role role, const char *reason)
{
    clear_node(n);
    n->role = role;
    set_text(&n->reason, reason);
}

static void on_node_dead(struct dlr_cli_state *s, const json_t *e)
{
    struct dlr_cli_node *n = node_of(s, text_of(e, "node"));
    int64_t silent_ms = int_of(e, "silent_ms", -1);
    const char *why = text_of(e, "why");
    char reason[256], span[32] = "", when[32];

    if (!n)
        return;
    if (silent_ms >= 0)
        dlr_cli_span(silent_ms, span, sizeof(span));
    dlr_cli_time_text(s->last_ms, when, sizeof(when));
    snprintf(reason, sizeof(reason), "%.128s%s%s, %.8s", why ? why : "?",
             span[0] ? " for " : "", span, when + 11);
    set_role(n, DLR_CLI_DEAD, reason);
}

/* "n2", or "n2, n3" where several nodes keep its copies, or parity of it. */
static void take_partners(struct dlr_cli_node *n, const json_t *p)
{
    const json_t *parity = json_object_get(p, "parity");
    const json_t *names = parity ? parity : json_object_get(p, "partners");
    char all[DLR_CLI_PARTNERS] = "";
    size_t used = 0;

    set_text(&n->partner, text_of(p, "partner"));
    n->parity = parity != NULL;
    if (json_array_size(names) == 0)
        return;
    for (size_t i = 0; i < json_array_size(names) && used < sizeof(all); i++) {
        const char *name = json_string_value(json_array_get(names, i));

        used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "",
                                 name ? name : "?");
    }
    set_text(&n->partner, all);
}

static void take_place(struct dlr_cli_state *s, const json_t *p)
{
    struct dlr_cli_node *n = node_of(s, text_of(p, "node"));

    if (!n)
        return;
    clear_node(n);
    n->placed = true;
    n->role = DLR_CLI_TRAINING;
    n->first = int_of(p, "first", 0);
    n->tasks = int_of(p, "tasks", 1);
    n->ranks = json_incref(json_object_get(p, "ranks"));
    n->moved = json_is_true(json_object_get(p, "moved"));
    take_partners(n, p);
    if (text_of(p, "leaf"))
        set_text(&n->leaf, text_of(p, "leaf"));
}

static void take_spares(struct dlr_cli_state *s, const json_t *names)
{
    for (size_t i = 0; i < json_array_size(names); i++) {
        struct dlr_cli_node *n =
            node_of(s, json_string_value(json_array_get(names, i)));

        if (!n)
            continue;
        set_role(n, DLR_CLI_SPARE, NULL);
        n->placed = true;
    }
}

static void take_out(struct dlr_cli_state *s, const json_t *rows)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        struct dlr_cli_node *n = node_of(s, text_of(row, "node"));

        if (!n || n->role == DLR_CLI_DEAD)
            continue;
        set_role(n, DLR_CLI_OUT, text_of(row, "reason"));
        n->placed = true;
    }
}

/* The plan knows nothing of this node. */
static void forget_place(struct dlr_cli_node *n)
{
    if (n->role == DLR_CLI_WAITING)
        set_role(n, DLR_CLI_DEAD, "its agent has not reported");
    else if (n->role == DLR_CLI_TRAINING || n->role == DLR_CLI_SPARE)
        set_role(n, DLR_CLI_OUT, "its last round did not end there in time");
}

static void on_plan(struct dlr_cli_state *s, const json_t *e)
{
    const json_t *places = json_object_get(e, "places");

    free(s->no_memory_why);
    s->no_memory_why = NULL;
    for (size_t i = 0; i < s->nnodes; i++)
        s->nodes[i].placed = false;
    for (size_t i = 0; i < json_array_size(places); i++)
        take_place(s, json_array_get(places, i));
    take_spares(s, json_object_get(e, "spares"));
    take_out(s, json_object_get(e, "out"));
    for (size_t i = 0; i < s->nnodes; i++)
        if (!s->nodes[i].placed)
            forget_place(&s->nodes[i]);
    s->round = int_of(e, "round", s->round);
    set_version(&s->restore, json_object_get(e, "restore"));
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
    if (int_of(e, "commit_age_ms", -1) >= 0)
        s->commit_ms = s->last_ms - int_of(e, "commit_age_ms", 0);
}

static void on_step(struct dlr_cli_state *s, const json_t *e)
{
    const json_t *rate = json_object_get(e, "rate");

    s->step = int_of(e, "step", s->step);
    s->step_ms = s->last_ms;
    s->stake_ms = int_of(e, "at_stake_ms", -1) >= 0
                      ? s->last_ms - int_of(e, "at_stake_ms", 0)
                      : 0;
    if (json_is_number(rate))
        s->rate = json_number_value(rate);
    s->commits = int_of(e, "commits", s->commits);
    s->aborts = int_of(e, "aborts", s->aborts);
    s->round = int_of(e, "round", s->round);
    take_committed(s, e);
}

static void on_round_end(struct dlr_cli_state *s, const json_t *e)
{
    s->had_round = true;
    s->restarts = int_of(e, "restarts", s->restarts);
    if (dlr_streq(text_of(e, "cause"), "program") && s->restarts < s->max_restarts)
        s->restarts++; /* the one that this end will cost */
    s->step = int_of(e, "step", s->step);
    set_text(&s->why, text_of(e, "why"));
    take_committed(s, e);
}

static void on_why(struct dlr_cli_state *s, const json_t *e)
{
    set_text(&s->why, text_of(e, "why"));
}

/* The supervisor was started again, the round was not: who trains stands here once more. */
static void on_adopted(struct dlr_cli_state *s, const json_t *e)
{
    const json_t *places = json_object_get(e, "places");

    for (size_t i = 0; i < json_array_size(places); i++)
        take_place(s, json_array_get(places, i));
    take_spares(s, json_object_get(e, "spares"));
    s->round = int_of(e, "round", s->round);
}

static void on_unprotected(struct dlr_cli_state *s, const json_t *e)
{
    s->bare_ms = s->last_ms;
    set_text(&s->bare_node, text_of(e, "node"));
}

static void on_protected(struct dlr_cli_state *s, const json_t *e)
{
    s->bare_ms = 0;
}

static void on_no_memory(struct dlr_cli_state *s, const json_t *e)
{
    const char *node = text_of(e, "node"), *why = text_of(e, "why");

    s->no_memory = int_of(e, "count", s->no_memory);
    free(s->no_memory_why);
    if (asprintf(&s->no_memory_why, "%s: %s", node ? node : "?", why ? why : "?") < 0)
        s->no_memory_why = NULL;
}

static void on_takeover(struct dlr_cli_state *s, const json_t *e)
{
    struct dlr_cli_node *n = node_of(s, text_of(e, "from"));

    if (n && n->role != DLR_CLI_DEAD)
        set_role(n, DLR_CLI_DEAD, text_of(e, "why"));
    s->had_round = true;
    on_why(s, e);
}

static void on_end(struct dlr_cli_state *s, const json_t *e)
{
    const json_t *wall = json_object_get(e, "wall_s");

    s->over = true;
    s->code = int_of(e, "code", 1);
    s->rounds = int_of(e, "rounds", 0);
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
    {"node_up", DLR_CLI_NOTHING, on_node_up},
    {"node_dead", DLR_CLI_NOTHING, on_node_dead},
    {"suspended", DLR_CLI_NOTHING, on_suspended},
    {"resumed", DLR_CLI_NOTHING, on_resumed},
    {"rendezvous", DLR_CLI_MEET, NULL},
    {"plan", DLR_CLI_PREPARE, on_plan},
    {"no_memory", DLR_CLI_NOTHING, on_no_memory},
    {"unprotected", DLR_CLI_NOTHING, on_unprotected},
    {"protected", DLR_CLI_NOTHING, on_protected},
    {"launch", DLR_CLI_LAUNCH, NULL},
    {"running", DLR_CLI_RUN, on_running},
    {"restored", DLR_CLI_RUN, NULL},
    {"first_step", DLR_CLI_TRAIN, on_step},
    {"progress", DLR_CLI_TRAIN, on_step},
    {"saving", DLR_CLI_NOTHING, on_saving},
    {"cadence", DLR_CLI_NOTHING, on_cadence},
    {"every_step", DLR_CLI_NOTHING, on_every_step},
    {"network", DLR_CLI_NOTHING, on_network},
    {"round_end", DLR_CLI_ENDING, on_round_end},
    {"cleared", DLR_CLI_CLEARED, NULL},
    {"persist", DLR_CLI_PERSIST, NULL},
    {"persisted", DLR_CLI_NOTHING, on_persisted},
    {"requeue", DLR_CLI_REQUEUE, on_why},
    {"requeued", DLR_CLI_REQUEUE, on_why},
    {"controller_away", DLR_CLI_CLEARED, on_why},
    {"adopted", DLR_CLI_RUN, on_adopted},
    {"takeover", DLR_CLI_PERSIST, on_takeover},
    {"end", DLR_CLI_OVER, on_end},
};

static void take_event(struct dlr_cli_state *s, json_t *e)
{
    const char *name = text_of(e, "event");
    enum dlr_cli_phase before = s->phase;
    int64_t ms;

    if (dlr_cli_time_parse(text_of(e, "time"), &ms) == 0)
        s->last_ms = ms;
    s->dropped_lines = int_of(e, "dropped_lines", s->dropped_lines);
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

/* --- lines ------------------------------------------------------------------------------ */

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
    forget_nodes(s);
    json_decref(s->index);
    for (size_t i = 0; i < DLR_CLI_LAST; i++)
        json_decref(s->last[i]);
    free(s->nodes);
    free(s->job);
    free(s->run);
    free(s->suite);
    free(s->why);
    free(s->no_memory_why);
    free(s->bare_node);
    free(s->progress);
    json_decref(s->saving);
    json_decref(s->cadence);
    json_decref(s->every_step);
    json_decref(s->network);
    json_decref(s->persisted);
    *s = (struct dlr_cli_state){0};
}
