/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover events: the journal as lines that a person reads. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/cli/base/find_run.h"
#include "mpi_launcher/cli/base/watch.h"
#include "mpi_launcher/journal/event_text.h"
#include "mpi_launcher/journal/reader.h"
#include "mpi_launcher/journal/text.h"

#define MAX_WANTED 32
#define INTERVAL_MS 1000

struct events {
    struct dlr_cli_where where;
    bool follow, json, all;
    char since[32];   /* the same as in the journal; "" without */
    int64_t since_ms; /* 0: all */
    int64_t interval_ms;
    const char *wanted[MAX_WANTED];
    size_t nwanted; /* 0: every event but progress */
    char *list;     /* what wanted points into */
    unsigned long long bad_lines;
};

/* clang-format off */
static const struct dlr_cli_opt opts[] = {
    {"follow", NULL, "wait for more events until the run is over"},
    {"since", "TIME", "from this time on: '10m' (ago), '14:05', '2026-11-21T14:05'"},
    {"event", "NAME,...", "these events only"},
    {"all", NULL, "'progress' too: one line every two seconds of training"},
    {"json", NULL, "the events as they are, one JSON object a line"},
    {"run", "NAME", "the run, when the job has several (default: the newest)"},
    {"state-dir", "DIR", "the job's --dlrover-state-dir (default: DLROVER_STATE_DIR, "
                         "else ~/.dlrover)"},
    {"interval", "TIME", "time between two looks while following (default: 1s)"},
    {0},
};
/* clang-format on */
static const struct dlr_cli_cmd events_cmd = {
    "events", "[JOB]", "Prints what happened to a job, one line for each event.", opts,
    "JOB is the job's id; without it the job this shell is in, else the newest.\n"};

static int set_wanted(struct events *ev, const char *value, struct dlr_err *err)
{
    const char *names[64];
    size_t n = 0;

    while (n < sizeof(names) / sizeof(*names) && dlr_cli_event_name(n)) {
        names[n] = dlr_cli_event_name(n);
        n++;
    }
    free(ev->list);
    ev->list = strdup(value);
    ev->nwanted = 0;
    for (char *save = NULL, *w = ev->list ? strtok_r(ev->list, ",", &save) : NULL; w;
         w = strtok_r(NULL, ",", &save)) {
        const char *near = dlr_nearest(w, names, n);
        bool known = false;

        for (size_t i = 0; i < n && !known; i++)
            known = dlr_streq(names[i], w);
        if (!known)
            return dlr_fail(err, -EINVAL, "no event is called '%.64s'%s%s%s", w,
                            near ? ", did you mean '" : "", near ? near : "",
                            near ? "'?" : "");
        if (ev->nwanted < MAX_WANTED)
            ev->wanted[ev->nwanted++] = w;
    }
    return ev->nwanted ? 0 : dlr_fail(err, -EINVAL, "--event needs a name");
}

static int set(void *arg, const char *name, const char *value, struct dlr_err *err)
{
    struct events *ev = arg;
    int rc;

    if (dlr_cli_where_set(&ev->where, name, value, &rc, err))
        return rc;
    if (dlr_streq(name, "follow"))
        ev->follow = true;
    else if (dlr_streq(name, "json"))
        ev->json = true;
    else if (dlr_streq(name, "all"))
        ev->all = true;
    else if (dlr_streq(name, "event"))
        return set_wanted(ev, value, err);
    else if (dlr_streq(name, "since") &&
             dlr_cli_since_parse(value, dlr_cli_now_ms(), &ev->since_ms) < 0)
        return dlr_fail(err, -EINVAL,
                        "--since=%.64s: must be a time such as '10m' (ago), "
                        "'14:05' or '2026-11-21T14:05'",
                        value);
    else if (dlr_streq(name, "interval") &&
             (dlr_parse_duration_ms(value, &ev->interval_ms) < 0 ||
              ev->interval_ms < 50))
        return dlr_fail(err, -EINVAL,
                        "--interval=%.64s: must be a time from 50ms on, such "
                        "as '500ms' or '2s'",
                        value);
    return 0;
}

static bool is_wanted(const struct events *ev, const char *name)
{
    if (ev->nwanted == 0)
        return ev->all || !dlr_streq(name, "progress");
    for (size_t i = 0; i < ev->nwanted; i++)
        if (dlr_streq(ev->wanted[i], name))
            return true;
    return false;
}

static void print_event(const struct events *ev, const json_t *e, int64_t ms)
{
    char words[DLR_JOURNAL_EVENT_TEXT], when[32];

    if (ev->json) {
        json_dumpf(e, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
        putchar('\n');
        return;
    }
    dlr_cli_time_text(ms, when, sizeof(when));
    dlr_journal_event_text(e, words, sizeof(words));
    printf("%s  %s\n", when, words);
}

/* True while the run is not over. */
static bool take_line(struct events *ev, const char *line, size_t size)
{
    json_t *e = NULL;
    const char *name;
    int64_t ms = 0;
    bool going = true;

    if (dlr_cli_is_progress(line, size) &&
        (!is_wanted(ev, "progress") || dlr_cli_is_before(line, ev->since)))
        return true;
    e = dlr_cli_event_parse(line, size);
    name = json_string_value(json_object_get(e, "event"));
    if (!e ||
        dlr_cli_time_parse(json_string_value(json_object_get(e, "time")), &ms) < 0) {
        ev->bad_lines += size > 0;
        json_decref(e);
        return true;
    }
    if (is_wanted(ev, name) && ms >= ev->since_ms)
        print_event(ev, e, ms);
    going = !dlr_streq(name, "end");
    json_decref(e);
    return going;
}

/* 1: the run is over as far as the journal goes; 0: it goes on. */
static int print_new(struct events *ev, struct dlr_cli_reader *r, bool *going,
                     struct dlr_err *err)
{
    size_t size;
    char *line;
    int rc;

    while ((rc = dlr_cli_reader_next(r, &line, &size, err)) != 0) {
        if (rc == -ESTALE)
            continue; /* a new file: all of it is news */
        if (rc < 0)
            return rc;
        *going = take_line(ev, line, size);
    }
    fflush(stdout);
    return 0;
}

static int follow(struct events *ev, struct dlr_cli_reader *r, bool *going,
                  struct dlr_err *err)
{
    struct dlr_cli_watch w;
    enum dlr_cli_news news = DLR_CLI_CHANGED; /* since it was read last, maybe */
    int rc = dlr_cli_watch_init(&w, r->path, err);

    if (rc < 0)
        return rc;
    while ((rc = print_new(ev, r, going, err)) == 0 && *going && news != DLR_CLI_STOP &&
           !ferror(stdout)) {
        news = dlr_cli_watch_wait(&w, ev->interval_ms);
        if (news == DLR_CLI_SUSPEND)
            raise(SIGSTOP);
    }
    dlr_cli_watch_done(&w);
    if (rc == 0 && news == DLR_CLI_STOP)
        return 128 + w.signal;
    return rc;
}

static int run_events(struct events *ev)
{
    struct dlr_cli_reader reader;
    struct dlr_cli_run run;
    struct dlr_err err = {0};
    bool going = true;
    int rc = dlr_cli_find(&ev->where, &run, &err);

    if (ev->since_ms)
        dlr_wall_text(ev->since_ms * 1000000, ev->since, sizeof(ev->since));
    if (rc == 0) {
        dlr_cli_reader_init(&reader, run.journal);
        rc = print_new(ev, &reader, &going, &err);
        if (rc == 0 && ev->follow)
            rc = follow(ev, &reader, &going, &err);
        ev->bad_lines += reader.skipped;
        dlr_cli_reader_done(&reader);
    }
    if (rc < 0) {
        fprintf(stderr, "dlrover: %s\n", err.text);
    } else if (ev->bad_lines) {
        dlr_cli_clean(run.journal); /* its names may be somebody else's */
        fprintf(stderr, "dlrover: %llu lines of '%s' are no events\n", ev->bad_lines,
                run.journal);
    }
    return rc < 0 ? DLR_CLI_FAIL : rc;
}

int dlr_cli_events(int argc, char **argv)
{
    struct events ev = {.interval_ms = INTERVAL_MS};
    int code;

    if (dlr_cli_parse(&events_cmd, argc, argv, set, &ev, &code))
        code = run_events(&ev);
    free(ev.list);
    return code;
}
