/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/metrics/metrics.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/account/account.h"
#include "mpi_launcher/journal/event_fields.h"
#include "mpi_launcher/journal/event_text.h"
#include "mpi_launcher/journal/reader.h"
#include "mpi_launcher/journal/run_view.h"

#define MAX_EVENTS 120 /* kinds: those of the table in journal/event_text.c */
#define NOT_NOW NAN    /* the sample is left out */

struct dlr_metrics {
    struct dlr_cli_state state;
    struct dlr_account *account;
    uint64_t events[MAX_EVENTS];
    int64_t now_ms, start_ms;
};

typedef const struct dlr_metrics *metrics_t;

/* --- one number each -------------------------------------------------------------- */

static double number_of(const json_t *event, const char *field)
{
    const json_t *value = json_object_get(event, field);

    return json_is_number(value) ? json_number_value(value) : NOT_NOW;
}

static double in_seconds(int64_t ms)
{
    return (double)ms / 1000;
}

static double age_of(metrics_t m, int64_t since_ms)
{
    if (!since_ms)
        return NOT_NOW;
    return m->now_ms > since_ms ? in_seconds(m->now_ms - since_ms) : 0;
}

static double ranks(metrics_t m)
{
    return (double)m->state.world;
}

static double places(metrics_t m)
{
    return (double)m->state.places;
}

static double round_now(metrics_t m)
{
    return m->state.round >= 0 ? (double)m->state.round : NOT_NOW;
}

static double requeues(metrics_t m)
{
    return m->state.incarnation > 0 ? (double)m->state.incarnation - 1 : 0;
}

static double restarts(metrics_t m)
{
    return (double)m->state.restarts;
}

static double step(metrics_t m)
{
    return m->state.step >= 0 ? (double)m->state.step : NOT_NOW;
}

static double steps_a_second(metrics_t m)
{
    return m->state.rate > 0 && !m->state.over ? m->state.rate : NOT_NOW;
}

static double committed_step(metrics_t m)
{
    return m->state.committed.set ? (double)m->state.committed.step : NOT_NOW;
}

static double commits(metrics_t m)
{
    return (double)m->state.commits;
}

static double aborts(metrics_t m)
{
    return (double)m->state.aborts;
}

static double commit_age(metrics_t m)
{
    return m->state.over ? NOT_NOW : age_of(m, m->state.commit_ms);
}

static double at_stake(metrics_t m)
{
    return m->state.over || m->state.step < 0 ? NOT_NOW : age_of(m, m->state.stake_ms);
}

static double unprotected(metrics_t m)
{
    return m->state.degraded_since_ms ? age_of(m, m->state.degraded_since_ms) : 0;
}

static double save_cost(metrics_t m)
{
    return number_of(m->state.cadence, "cost_ms") / 1000;
}

static double save_every(metrics_t m)
{
    return number_of(m->state.cadence, "every");
}

static double plain_step(metrics_t m)
{
    return number_of(m->state.cadence, "step_ms") / 1000;
}

static double persisted_step(metrics_t m)
{
    const json_t *version = json_object_get(m->state.persisted, "version");
    const json_t *value = json_array_get(version, 1);

    return json_is_integer(value) ? json_number_value(value) : NOT_NOW;
}

static double memory_taken(metrics_t m)
{
    return number_of(m->state.saving, "taken_mb") * 1e6;
}

static double memory_limit(metrics_t m)
{
    return number_of(m->state.saving, "limit_mb") * 1e6;
}

static double no_memory(metrics_t m)
{
    return (double)m->state.no_memory;
}

static double goodput(metrics_t m)
{
    int64_t all = dlr_account_to_ms(m->account) - dlr_account_from_ms(m->account);

    if (all <= 0)
        return NOT_NOW;
    return (double)dlr_account_part(m->account, DLR_ACCOUNT_FIRST) / (double)all;
}

static double started(metrics_t m)
{
    return m->start_ms ? in_seconds(m->start_ms) : NOT_NOW;
}

static double last_event(metrics_t m)
{
    return m->state.last_ms ? in_seconds(m->state.last_ms) : NOT_NOW;
}

static double exit_code(metrics_t m)
{
    return m->state.over ? (double)m->state.code : NOT_NOW;
}

static double bad_lines(metrics_t m)
{
    return (double)m->state.bad_lines;
}

static double dropped_lines(metrics_t m)
{
    return (double)m->state.dropped_lines;
}

/* --- one number for each word ----------------------------------------------------- */

static const char *condition_word(size_t i)
{
    return i <= DLR_CLI_FAILED ? dlr_run_condition_name((enum dlr_run_condition)i)
                               : NULL;
}

static double condition(metrics_t m, size_t i)
{
    return dlr_cli_state_condition(&m->state, m->now_ms) == (enum dlr_run_condition)i;
}

static const char *phase_word(size_t i)
{
    return i <= DLR_CLI_FINISHED ? dlr_cli_phase_name((enum dlr_cli_phase)i) : NULL;
}

static double phase(metrics_t m, size_t i)
{
    return m->state.phase == (enum dlr_cli_phase)i;
}

static const char *role_word(size_t i)
{
    return i < DLR_CLI_ROLES ? dlr_cli_role_name((enum dlr_cli_role)i) : NULL;
}

static double nodes(metrics_t m, size_t i)
{
    return dlr_cli_state_count(&m->state, (enum dlr_cli_role)i);
}

static const char *cause_word(size_t i)
{
    return i < DLR_ACCOUNT_CAUSES ? dlr_account_cause_name((enum dlr_account_cause)i)
                                  : NULL;
}

static double seconds_for(metrics_t m, size_t i)
{
    return in_seconds(dlr_account_part(m->account, (enum dlr_account_cause)i));
}

static const char *event_word(size_t i)
{
    return i < MAX_EVENTS ? dlr_cli_event_name(i) : NULL;
}

static double events(metrics_t m, size_t i)
{
    return (double)m->events[i];
}

/* --- all of them ------------------------------------------------------------------ */

/* A counter's sample ends in _total, its family in OpenMetrics does not. */
static const struct metric {
    const char *name, *type, *help;
    double (*value)(metrics_t m);
    const char *label; /* NULL: one sample */
    const char *(*word)(size_t i);
    double (*value_of)(metrics_t m, size_t i);
} metrics[] = {
    /* clang-format off */
    {"dlrover_run_state", "gauge", "1 for what the run is now, 0 for the other words",
     .label = "state", .word = condition_word, .value_of = condition},
    {"dlrover_run_phase", "gauge", "1 for the phase that the run is in, 0 for the other words",
     .label = "phase", .word = phase_word, .value_of = phase},
    {"dlrover_nodes", "gauge", "nodes of the allocation by what they do",
     .label = "role", .word = role_word, .value_of = nodes},
    {"dlrover_training_nodes", "gauge", "nodes that a round has places for", places},
    {"dlrover_ranks", "gauge", "ranks of a round", ranks},
    {"dlrover_round", "gauge", "number of the newest round", round_now},
    {"dlrover_requeues_total", "counter", "times that Slurm took the job back", requeues},
    {"dlrover_restarts", "gauge", "restarts that the program itself caused and that still count", restarts},
    {"dlrover_step", "gauge", "newest step that is known of this round", step},
    {"dlrover_steps_per_second", "gauge", "steps per second, while they are made", steps_a_second},
    {"dlrover_step_seconds", "gauge", "length of a step without a save", plain_step},
    {"dlrover_committed_step", "gauge", "newest committed step", committed_step},
    {"dlrover_commits_total", "counter", "versions that were committed", commits},
    {"dlrover_aborts_total", "counter", "versions that were given up", aborts},
    {"dlrover_commit_age_seconds", "gauge", "time since the newest commit", commit_age},
    {"dlrover_at_stake_seconds", "gauge", "what a failure now would lose of computed time", at_stake},
    {"dlrover_unprotected_seconds", "gauge",
     "since when another loss may cost committed steps, 0: it may not", unprotected},
    {"dlrover_save_cost_seconds", "gauge", "what a save makes the steps that it overlaps longer", save_cost},
    {"dlrover_save_interval_steps", "gauge", "steps from one save to the next", save_every},
    {"dlrover_persisted_step", "gauge", "newest step in the state directory", persisted_step},
    {"dlrover_snapshot_bytes", "gauge", "memory for snapshots on the node that has least to spare", memory_taken},
    {"dlrover_snapshot_limit_bytes", "gauge", "what snapshots may take there", memory_limit},
    {"dlrover_ranks_without_room", "gauge", "ranks whose node had no room for a snapshot", no_memory},
    {"dlrover_time_seconds", "gauge", "where the time of the run went, every second with one cause",
     .label = "cause", .word = cause_word, .value_of = seconds_for},
    {"dlrover_goodput_ratio", "gauge", "share of the time that went to steps no round had done before", goodput},
    {"dlrover_events_total", "counter", "lines of the journal",
     .label = "event", .word = event_word, .value_of = events},
    {"dlrover_journal_bad_lines_total", "counter", "lines that are no events", bad_lines},
    {"dlrover_journal_dropped_lines_total", "counter", "lines lost because the file system hung", dropped_lines},
    {"dlrover_start_time_seconds", "gauge", "since the epoch: the first line of the journal", started},
    {"dlrover_last_event_time_seconds", "gauge", "since the epoch: the newest line of the journal", last_event},
    {"dlrover_exit_code", "gauge", "of the run, once it is over", exit_code},
    /* clang-format on */
};
#define NMETRICS (sizeof(metrics) / sizeof(*metrics))

bool dlr_metrics_name(size_t i, const char **ret_name, const char **ret_type,
                      const char **ret_help)
{
    if (i >= NMETRICS)
        return false;
    *ret_name = metrics[i].name;
    *ret_type = metrics[i].type;
    *ret_help = metrics[i].help;
    return true;
}

struct dlr_metrics *dlr_metrics_new(void)
{
    struct dlr_metrics *m = calloc(1, sizeof(*m));

    if (!m)
        return NULL;
    m->account = dlr_account_new();
    if (!m->account) {
        free(m);
        return NULL;
    }
    dlr_cli_state_init(&m->state);
    return m;
}

struct dlr_metrics *dlr_metrics_free(struct dlr_metrics *m)
{
    if (m) {
        dlr_cli_state_done(&m->state);
        dlr_account_free(m->account);
        free(m);
    }
    return NULL;
}

static void count(struct dlr_metrics *m, const char *name)
{
    const char *known;

    for (size_t i = 0; i < MAX_EVENTS && (known = dlr_cli_event_name(i)); i++) {
        if (dlr_streq(known, name)) {
            m->events[i]++;
            return;
        }
    }
}

void dlr_metrics_line(struct dlr_metrics *m, const char *line, size_t size)
{
    json_t *event;

    dlr_cli_state_line(&m->state, line, size);
    if (dlr_cli_is_progress(line, size)) { /* nearly all: not parsed to be counted */
        dlr_account_line(m->account, line, size);
        count(m, "progress");
        return;
    }
    event = dlr_cli_event_parse(line, size);
    if (event) {
        dlr_account_event(m->account, event);
        count(m, dlr_cli_event_text(event, "event"));
    }
    json_decref(event);
}

bool dlr_metrics_over(struct dlr_metrics *m)
{
    dlr_cli_state_settle(&m->state);
    return m->state.over;
}

/* A label's value: backslash, quote and line end are escaped in both formats. What is
 * no printable ASCII is '?': a scrape with a byte that is no UTF-8 is refused whole.
 */
static void put_value(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '\\' || *text == '"')
            fprintf(out, "\\%c", *text);
        else
            putc(*text < ' ' || *text > '~' ? '?' : *text, out);
    }
}

struct page {
    FILE *out;
    const char *job, *run;
};

static void put_sample(const struct page *page, const struct metric *metric,
                       const char *word, double value)
{
    if (isnan(value))
        return;
    fprintf(page->out, "%s{slurm_job=\"", metric->name);
    put_value(page->out, page->job);
    fputs("\",run=\"", page->out);
    put_value(page->out, page->run);
    if (word) {
        fprintf(page->out, "\",%s=\"", metric->label);
        put_value(page->out, word);
    }
    fprintf(page->out, "\"} %.15g\n", value);
}

static void put_metric(const struct page *page, metrics_t m,
                       const struct metric *metric, enum dlr_metrics_format format)
{
    static const char total[] = "_total";
    size_t size = strlen(metric->name);
    const char *word;

    if (format == DLR_METRICS_OPENMETRICS && dlr_streq(metric->type, "counter"))
        size -= sizeof(total) - 1;
    fprintf(page->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)size, metric->name,
            metric->help, (int)size, metric->name, metric->type);
    if (!metric->word)
        put_sample(page, metric, NULL, metric->value(m));
    for (size_t i = 0; metric->word && (word = metric->word(i)); i++)
        put_sample(page, metric, word, metric->value_of(m, i));
}

void dlr_metrics_write(struct dlr_metrics *m, const char *job, const char *run,
                       int64_t now_ms, enum dlr_metrics_format format, FILE *out)
{
    struct page page = {.out = out, .job = job, .run = run};

    dlr_cli_state_settle(&m->state);
    dlr_account_settle(m->account);
    m->now_ms = now_ms;
    m->start_ms = dlr_account_from_ms(m->account);
    for (size_t i = 0; i < NMETRICS; i++)
        put_metric(&page, m, &metrics[i], format);
    if (format == DLR_METRICS_OPENMETRICS)
        fputs("# EOF\n", out);
}
