/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/journal/event_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/journal/text.h"

#define MAX_NAMES 8 /* of a list; the rest is counted */
#define NAME_ROOM 32

/* {field} is a field's value, {field:form} one of the forms below, {field#noun} a
 * number (or the length of a list) with its noun; what stands in [...] is said only
 * when all of its fields are there and not empty.
 */
/* clang-format off */
static const struct {
    const char *event, *words;
} table[] = {
    {"start", "[{generation:later}a supervisor started again: ]run {run} of job {job}: "
              "{places#node} for {world#rank}, {spares} spare"
              "[; begins at round {round:above0}]"},
    {"node_up", "{node} is here[ on {leaf}][, {cpus#CPU}]"},
    {"topology", "[the switches are as {source} has them][{source:null}no switches are known: "
                 "nodes stand in the order of their names][; {note}]"},
    {"node_dead", "{node} is dead: {why}[ for {silent_ms:ms}]"},
    {"lease_expired", "{node} did not hear the supervisor[ for {silent_ms:ms}]"
               "[ and killed {killed#task}]"},
    {"term", "SIGTERM came to the steps[, says {node}]: the tasks have their time"},
    {"warned", "{signal:signal} came to the steps near the job's end: a program that ends for it has ended"},
    {"unprotected", "with {node} gone, part of {version:version} is not where it should"
                    " be: another loss may cost it"},
    {"protected", "{version:version} is protected again[ after {took_ms:ms}]"},
    {"suspended", "Slurm suspends the job[, says {node}]"},
    {"resumed", "the job goes on[ after {held_ms:ms}]"},
    {"auth_failures", "{count#connection} to {node} could not prove who made them"},
    {"name_taken", "on {node} somebody else has the name '{name}': stepped around"},
    {"rendezvous", "{candidates#node} meet[{mpi:false}, without MPI]"},
    {"rendezvous_failed", "the rendezvous failed[: {why}]"},
    {"check", "check '{check}' of {node}: {verdict}[: {reason}]"
              "[; an administrator may run: {drain}]"},
    {"inject", "faults are injected (DLROVER_INJECT): {faults}"},
    {"plan", "round {round} is planned: {places#node}[, {spares:count} spare]"
             "[; {places:moved}][; {order:order}][; {reorder:reorder}][; snapshots survive {survives}][; left out: {out:nodes}]"
             "[; resumes from {restore:version}][; {notes}]"},
    {"links", "the nodes measured {pairs#link} in {rounds#round}[ and {took_ms:ms}]"},
    {"copy_failed", "the copy of rank {rank} could not go from {from} to {to}[: {why}]"},
    {"prepared", "copies are in place[: {copies:above0} moved][ in {took_ms:ms}]"},
    {"ranks", "the program has {world#rank}[{moved:false} where they were expected]"
              "[; they go on from {restore:version}]"},
    {"ranks_missing", "ranks that waited for others got no checkpoint: {why}"},
    {"launch", "round {round} starts: {world#rank} on {nodes#node}"},
    {"renamed", "where the program's arguments say {from}, it is told {to}"},
    {"running", "every task of round {round} has started[ in {took_ms:ms}]"},
    {"restored", "every rank has loaded {version:version}[, {took_ms:ms} after the start]"},
    {"restore_failed", "rank {rank} could not load {version:version} on {where}[: {why}]"},
    {"first_step", "first step of round {round}: {step}"},
    {"saving", "saves begin[, {took_ms:ms} after the start]"
               "[; they take {taken_mb} of {limit_mb} MB on {node}, the fullest node]"
               "[, {least_mb} at least]"},
    {"cadence", "a save every {every#step} ({every_s:s}: {bound}): it costs {cost_ms} ms, {blocked_ms} of them"
                " in begin and fence, a step takes {step_ms} ms[; {budget:above0} % of the time at most]"
                ", {stale_s:s} unsaved; a failure each {mtbf_h} h"},
    {"overdue", "nothing was saved for {since_ms:ms} and {steps#step}: {why}"},
    {"every_step", "a save in every step is [{possible:false}not ]possible: {why}"},
    {"no_memory", "nothing is saved in round {round}: {node}: {why}"},
    {"resized", "going on with {nodes} of {of} nodes and {world} ranks"},
    {"gone_back", "{version:version} is not restored again, nor a later one: {why}"},
    {"marked_bad", "{version:version} and later ones are bad: {why}"},
    {"no_vetted_slot", "no older version is kept in memory: {node}: {why}"},
    {"torn", "{version:version} is not of one moment[{committed:false} and is given up]"
             ": rank {rank}: {why}"},
    {"copy_bad", "{node} held a copy of rank {rank} of {version:version} that went bad in its memory"
                 "[{again:false}; the next save replaces it]: {why}"},
    {"copy_remade", "{node}'s copy of rank {rank} of {version:version} is good again"},
    {"network", "copies of {node} go over {uses}[ by {transport}][ ({mbps:above0} Mb/s)]"
                "[, moved by CPUs {cpus}][; {faster} is up, faster and not used]"},
    {"save_failed", "{version:version} was given up: {why}"},
    {"progress", "step {step}[, {rate} steps/s][, committed {committed:version}]"
                 "[, {commits#commit}][, {aborts:above0} saves given up][, {asked:above0} asked for]"
                 "[; a failure now would lose about {at_stake_ms:ms}]"},
    {"still", "{why}[{proven:false}: it may be at work]"},
    {"stacks", "the stacks of ranks {ranks} are in {file}[; {silent:above0} of their nodes did not answer]"},
    {"moves", "the program goes on[ after {stood_ms:ms}]"},
    {"worker_exit", "rank {rank} on {node}[ exited with code {code}]"
                    "[ was killed by {signal:signal}][ ({class})][; its last line: {stderr:last}]"},
    {"round_end", "round {round} ends: {why}[; at step {step}]"
                  "[; committed {committed:version}]"},
    {"explained", "round {round} ended, as is known now: {why}"},
    {"cleared", "nothing of round {round} is left[ after {took_ms:ms}][, {parked} processes stay]"},
    {"warm", "[{node} is warm for {processes#rank}: {mb} MB, after {took_ms:ms}]"
             "[the command has run ahead on {node} in {ran_ms:ms}][nothing runs ahead on {node}: {why}]"},
    {"persist", "[survivors wrote {version:version}: {files#file}][ in {took_ms:ms}]"
                "[{version:null}no checkpoint was written][: {why}]"},
    {"persisted", "[{version:version} is on the disk: {files#file}][ in {took_ms:ms}]"
                  "[; {skipped:above0} left out so far]"
                  "[; the next in {every_s:s} ({bound}: {nodes#node}, {lost} lost so far, memory "
                  "survives {covered} of a set, more are lost each {mtbf_s:s})]"
                  "[{wanted:version} was not written: {why}]"},
    {"requeue", "slurmctld is asked[ by the agent on {by}] to requeue the job"
                "[ without {exclude}]: {why}"},
    {"requeued", "Slurm has taken the job back[: {why}][; {rounds#round}]"
                 "[ in {wall_s:s}]"},
    {"controller_away", "{why}: waiting for it"},
    {"controller_back", "slurmctld answers again[ after {took_ms:ms}]"},
    {"agent_back", "the agent of {node} died, the next one goes on with its tasks[, {took_ms:ms} later]"},
    {"adopted", "round {round} goes on under the new supervisor[, found whole in {took_ms:ms}]"},
    {"takeover", "the agent on {node} acts for the supervisor on {from}[: {why}]"},
    {"deposed", "the run goes on under a supervisor on {node}: this one, which was cut "
                "off, does nothing any more"},
    {"requeue_failed", "the job could not be requeued[: {why}]"},
    {"end", "the run is over with code {code}[: {why}]"
            "[; {rounds#round}][ in {wall_s:s}]"},
};
/* clang-format on */

struct text {
    char *buf;
    size_t size, used; /* used < size; buf[used] is NUL */
};

static void add(struct text *t, const char *piece, size_t n)
{
    if (n > t->size - t->used - 1)
        n = t->size - t->used - 1;
    memcpy(t->buf + t->used, piece, n);
    t->used += n;
    t->buf[t->used] = '\0';
}

static void add_text(struct text *t, const char *piece)
{
    add(t, piece, strlen(piece));
}

static void add_int(struct text *t, long long n)
{
    char digits[24];

    snprintf(digits, sizeof(digits), "%lld", n);
    add_text(t, digits);
}

static void add_span(struct text *t, double ms)
{
    char span[32];

    dlr_cli_span(ms > 0 && ms < 1e15 ? (int64_t)ms : 0, span, sizeof(span));
    add_text(t, span);
}

/* --- forms: each says whether there was something to say -------------------------- */

static bool put_names(struct text *t, const json_t *list)
{
    size_t n = json_array_size(list);

    for (size_t i = 0; i < n && i < MAX_NAMES; i++) {
        const char *name = json_string_value(json_array_get(list, i));

        add_text(t, i ? ", " : "");
        add_text(t, name ? name : "?");
    }
    if (n > MAX_NAMES) {
        add_text(t, ", ... ");
        add_int(t, (long long)n);
        add_text(t, " in all");
    }
    return n > 0;
}

static bool put_plain(struct text *t, const json_t *v)
{
    char number[32];

    switch (v ? json_typeof(v) : JSON_NULL) {
    case JSON_STRING:
        add_text(t, json_string_value(v));
        return json_string_length(v) > 0;
    case JSON_INTEGER:
        add_int(t, json_integer_value(v));
        return true;
    case JSON_REAL:
        snprintf(number, sizeof(number), "%.3g", json_real_value(v));
        add_text(t, number);
        return true;
    case JSON_TRUE:
    case JSON_FALSE:
        add_text(t, json_is_true(v) ? "yes" : "no");
        return true;
    case JSON_ARRAY:
        return put_names(t, v);
    default:
        return false;
    }
}

static bool put_ms(struct text *t, const json_t *v)
{
    if (json_is_number(v))
        add_span(t, json_number_value(v));
    return json_is_number(v);
}

static bool put_s(struct text *t, const json_t *v)
{
    if (json_is_number(v))
        add_span(t, json_number_value(v) * 1000);
    return json_is_number(v);
}

static bool put_count(struct text *t, const json_t *v)
{
    add_int(t, (long long)json_array_size(v));
    return json_array_size(v) > 0;
}

static bool put_version(struct text *t, const json_t *v)
{
    if (json_array_size(v) != 2)
        return false;
    add_text(t, "step ");
    add_int(t, json_integer_value(json_array_get(v, 1)));
    add_text(t, " of round ");
    add_int(t, json_integer_value(json_array_get(v, 0)));
    return true;
}

static bool put_signal(struct text *t, const json_t *v)
{
    int sig = (int)json_integer_value(v);

    add_text(t, "signal ");
    add_int(t, sig);
    if (sig > 0 && sig < 65) {
        add_text(t, " (");
        add_text(t, strsignal(sig));
        add_text(t, ")");
    }
    return json_is_integer(v);
}

/* The last line of a text, or of a list of lines, that is not empty. */
static bool put_last(struct text *t, const json_t *v)
{
    const char *s = json_string_value(v), *line = NULL;
    size_t len = 0;

    for (size_t i = json_array_size(v); i > 0 && !(s && s[0]); i--)
        s = json_string_value(json_array_get(v, i - 1));
    while (s && *s) {
        size_t n = strcspn(s, "\n");

        if (n) {
            line = s;
            len = n;
        }
        s += n + (s[n] == '\n');
    }
    if (line)
        add(t, line, len);
    return line != NULL;
}

/* Places that have another node than in the round before: "n5 has rank 2". */
static bool put_moved(struct text *t, const json_t *v)
{
    unsigned told = 0;

    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *p = json_array_get(v, i);
        const char *node = json_string_value(json_object_get(p, "node"));
        long long first = json_integer_value(json_object_get(p, "first"));
        long long tasks = json_integer_value(json_object_get(p, "tasks"));
        char ranks[64];

        if (!node || !json_is_true(json_object_get(p, "moved")) || told++ >= MAX_NAMES)
            continue;
        add_text(t, told > 1 ? ", " : "");
        add_text(t, node);
        add_text(t, tasks > 1 ? " takes ranks " : " takes rank ");
        dlr_cli_ranks(json_object_get(p, "ranks"), first, tasks, ranks, sizeof(ranks));
        add_text(t, ranks);
    }
    if (told > MAX_NAMES)
        add_text(t, ", and others");
    return told > 0;
}

/* What the order costs beyond what it must. */
static bool put_order(struct text *t, const json_t *v)
{
    long long split = json_integer_value(json_object_get(v, "split"));
    long long extra = json_integer_value(json_object_get(v, "apart")) -
                      json_integer_value(json_object_get(v, "least"));

    if (split > 0) {
        add_int(t, split);
        add_text(t, split == 1 ? " group is" : " groups are");
        add_text(t, " not under one leaf switch");
    }
    if (extra > 0) {
        add_text(t, split > 0 ? ", " : "");
        add_int(t, extra);
        add_text(t, extra == 1 ? " neighbour" : " neighbours");
        add_text(t, " more than must be on two leaf switches");
    }
    return split > 0 || extra > 0;
}

/* Ranks that move for the order, or do not. */
static bool put_reorder(struct text *t, const json_t *v)
{
    long long moves = json_integer_value(json_object_get(v, "moves"));
    long long saves = json_integer_value(json_object_get(v, "saves"));
    char why[128];

    if (!moves)
        return false;
    add_int(t, moves);
    add_text(t, json_is_true(json_object_get(v, "taken"))
                    ? " nodes change ranks to have "
                    : " nodes would have to change ranks to have ");
    add_int(t, saves);
    snprintf(why, sizeof(why),
             " neighbours fewer on two leaf switches (%.1f s gained, %.1f s lost)",
             json_number_value(json_object_get(v, "gain_s")),
             json_number_value(json_object_get(v, "cost_s")));
    add_text(t, why);
    return true;
}

static bool put_nodes(struct text *t, const json_t *v)
{
    size_t n = json_array_size(v);

    for (size_t i = 0; i < n && i < MAX_NAMES; i++) {
        const json_t *row = json_array_get(v, i);
        const char *node = json_string_value(json_object_get(row, "node"));
        const char *reason = json_string_value(json_object_get(row, "reason"));

        add_text(t, i ? ", " : "");
        add_text(t, node ? node : "?");
        add_text(t, " (");
        add_text(t, reason ? reason : "?");
        add_text(t, ")");
    }
    if (n > MAX_NAMES)
        add_text(t, ", ...");
    return n > 0;
}

/* Conditions: they print nothing and hold or not. */

static bool if_later(struct text *t, const json_t *v)
{
    return json_integer_value(v) > 1;
}

static bool if_false(struct text *t, const json_t *v)
{
    return json_is_false(v);
}

static bool if_null(struct text *t, const json_t *v)
{
    return json_is_null(v);
}

static bool put_above0(struct text *t, const json_t *v)
{
    return json_number_value(v) > 0 && put_plain(t, v);
}

static const struct {
    const char *name;
    bool (*put)(struct text *t, const json_t *value);
} forms[] = {
    {"", put_plain},        {"ms", put_ms},           {"s", put_s},
    {"count", put_count},   {"version", put_version}, {"signal", put_signal},
    {"last", put_last},     {"moved", put_moved},     {"nodes", put_nodes},
    {"later", if_later},    {"false", if_false},      {"null", if_null},
    {"above0", put_above0}, {"order", put_order},     {"reorder", put_reorder},
};

/* --- templates -------------------------------------------------------------------- */

static bool put_number(struct text *t, const json_t *v, const char *noun)
{
    long long n =
        json_is_array(v) ? (long long)json_array_size(v) : json_integer_value(v);

    if (!json_is_array(v) && !json_is_integer(v))
        return false;
    add_int(t, n);
    add_text(t, " ");
    add_text(t, noun);
    add_text(t, n == 1 ? "" : "s");
    return true;
}

/* One placeholder without its braces; false when the event has nothing there. */
static bool put_field(struct text *t, const char *spec, size_t n, const json_t *event)
{
    char name[NAME_ROOM], *form;
    const json_t *value;
    bool number;

    snprintf(name, sizeof(name), "%.*s", (int)n, spec);
    form = strpbrk(name, ":#");
    number = form && *form == '#';
    if (form)
        *form++ = '\0';
    value = json_object_get(event, name);
    if (number)
        return put_number(t, value, form);
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
        if (dlr_streq(forms[i].name, form ? form : ""))
            return forms[i].put(t, value);
    return false;
}

/* True when every field of the template was there. */
static bool put_template(struct text *t, const char *at, const char *end,
                         const json_t *event, bool optional)
{
    bool all = true;

    while (at < end) {
        size_t n = strcspn(at, "[{");
        size_t mark = t->used;
        const char *close;

        n = at + n > end ? (size_t)(end - at) : n;
        add(t, at, n);
        at += n;
        if (at >= end)
            break;
        close = strchr(at, *at == '[' ? ']' : '}');
        mark = t->used;
        if (*at == '[' && !put_template(t, at + 1, close, event, true)) {
            t->used = mark;
            t->buf[mark] = '\0';
        } else if (*at == '{' &&
                   !put_field(t, at + 1, (size_t)(close - at - 1), event)) {
            all = false;
            if (!optional)
                add_text(t, "?");
        }
        at = close + 1;
    }
    return all;
}

static void put_unknown(struct text *t, const char *name, const json_t *event)
{
    const char *key;
    json_t *value;

    add_text(t, name);
    json_object_foreach((json_t *)event, key, value)
    {
        size_t mark = t->used;

        if (dlr_streq(key, "time") || dlr_streq(key, "event"))
            continue;
        add_text(t, " ");
        add_text(t, key);
        add_text(t, "=");
        if (!put_plain(t, value) && !json_is_string(value)) {
            t->used = mark;
            t->buf[mark] = '\0';
        }
    }
}

void dlr_journal_event_text(const json_t *event, char *buf, size_t size)
{
    const char *name = json_string_value(json_object_get(event, "event"));
    struct text t = {buf, size, 0};
    size_t i = 0;

    buf[0] = '\0';
    while (i < sizeof(table) / sizeof(*table) && !dlr_streq(table[i].event, name))
        i++;
    if (i < sizeof(table) / sizeof(*table))
        put_template(&t, table[i].words, table[i].words + strlen(table[i].words), event,
                     false);
    else
        put_unknown(&t, name ? name : "?", event);
    if (json_integer_value(json_object_get(event, "dropped_lines")) > 0)
        put_template(&t, " ({dropped_lines} lines lost so far)",
                     strchr(" ({dropped_lines} lines lost so far)", '\0'), event,
                     false);
    dlr_cli_clean(buf);
}

const char *dlr_cli_event_name(size_t i)
{
    return i < sizeof(table) / sizeof(*table) ? table[i].event : NULL;
}
