/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover status: where a run stands, once or as long as one looks. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/cli/base/find_run.h"
#include "mpi_launcher/cli/base/watch.h"
#include "mpi_launcher/cli/status_view.h"
#include "mpi_launcher/doctor/waits_for.h"
#include "mpi_launcher/journal/reader.h"
#include "mpi_launcher/journal/run_view.h"
#include "mpi_launcher/journal/text.h"

#define INTERVAL_MS 1000
#define INTERVAL_MIN_MS 50
#define ASK_MS 15000 /* between two questions to slurmctld while one looks */
/* A second screen, no cursor; and back. */
#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"
#define HOME "\033[H"
#define CLEAR_REST "\033[J"

struct status {
    struct dlr_cli_where where;
    bool json, once, watch;
    int64_t interval_ms;
    struct dlr_cli_run run;
    struct dlr_cli_reader reader;
    struct dlr_cli_state state;
    char waits_for[DLR_DOCTOR_WAITS];
    int64_t asked_ms; /* when Slurm was, 0: not yet */
};

/* clang-format off */
static const struct dlr_cli_opt opts[] = {
    {"run", "NAME", "the run, when the job has several (default: the newest)"},
    {"state-dir", "DIR", "the job's --dlrover-state-dir (default: DLROVER_STATE_DIR, "
                         "else ~/.dlrover)"},
    {"json", NULL, "one JSON object"},
    {"once", NULL, "print and end, also on a terminal"},
    {"watch", NULL, "go on printing, also when output is no terminal"},
    {"interval", "TIME", "time between two looks while watching (default: 1s)"},
    {0},
};
/* clang-format on */
static const struct dlr_cli_cmd status_cmd = {
    "status", "[JOB]",
    "Shows whether a job goes on: state, steps, checkpoint and nodes.", opts,
    "On a terminal the view is kept up to date until the run is over; Ctrl-C ends it.\n"
    "JOB is the job's id; without it the job this shell is in, else the newest.\n"};

static int set(void *arg, const char *name, const char *value, struct dlr_err *err)
{
    struct status *st = arg;
    int rc;

    if (dlr_cli_where_set(&st->where, name, value, &rc, err))
        return rc;
    if (dlr_streq(name, "json"))
        st->json = true;
    else if (dlr_streq(name, "once"))
        st->once = true;
    else if (dlr_streq(name, "watch"))
        st->watch = true;
    else if (dlr_parse_duration_ms(value, &st->interval_ms) < 0 ||
             st->interval_ms < INTERVAL_MIN_MS)
        return dlr_fail(err, -EINVAL,
                        "--interval=%.64s: must be a time from 50ms on, such "
                        "as '500ms' or '2s'",
                        value);
    if (st->once && st->watch)
        return dlr_fail(err, -EINVAL, "--once and --watch exclude each other");
    return 0;
}

/* Takes what the journal has gained. */
static int catch_up(struct status *st, struct dlr_err *err)
{
    size_t size;
    char *line;
    int rc;

    while ((rc = dlr_cli_reader_next(&st->reader, &line, &size, err)) != 0) {
        if (rc == -ESTALE) { /* another file stands there now */
            dlr_cli_state_done(&st->state);
            dlr_cli_state_init(&st->state);
            continue;
        }
        if (rc < 0)
            return rc;
        dlr_cli_state_line(&st->state, line, size);
    }
    dlr_cli_state_settle(&st->state);
    st->state.bad_lines += st->reader.skipped;
    st->reader.skipped = 0;
    return 0;
}

/* Of a job that is back in the queue nobody writes into the journal. */
static void ask_slurm(struct status *st)
{
    int64_t now_ms = dlr_now_ms();

    if (st->state.over || st->state.phase != DLR_CLI_REQUEUE) {
        st->waits_for[0] = '\0';
        st->asked_ms = 0;
    } else if (!st->asked_ms || now_ms - st->asked_ms >= ASK_MS) {
        dlr_doctor_ask_waits_for(st->state.job ? st->state.job : st->run.job,
                                 st->waits_for);
        st->asked_ms = now_ms;
    }
}

static int print_json(const struct status *st)
{
    json_t *j = dlr_cli_view_json(&st->state, &st->run, dlr_cli_now_ms());
    int rc;

    if (j && st->waits_for[0])
        json_object_set_new(j, "waits_for", json_string(st->waits_for));
    rc = j ? json_dumpf(j, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII) : -1;

    json_decref(j);
    putchar('\n');
    return rc;
}

static struct dlr_cli_look look_of(const struct status *st, FILE *out, bool live)
{
    bool tty = isatty(STDOUT_FILENO);
    const char *plain = getenv("NO_COLOR"), *term = getenv("TERM");
    struct dlr_cli_look look = {.out = out, .live = live, .waits_for = st->waits_for};
    struct winsize size;

    look.colour = tty && !(plain && plain[0]) && !dlr_streq(term, "dumb");
    if (tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        look.width = live ? size.ws_col : 0;
        look.height = live ? size.ws_row : 0;
    }
    return look;
}

static int print_once(const struct status *st)
{
    struct dlr_cli_look look = look_of(st, stdout, false);

    if (st->json)
        print_json(st);
    else
        dlr_cli_view(&look, &st->state, &st->run, dlr_cli_now_ms());
    return fflush(stdout) ? DLR_CLI_FAIL : DLR_CLI_OK;
}

/* One write for a whole screen, so that it does not flicker. */
static void draw(const struct status *st)
{
    DLR_AUTO_FREE char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct dlr_cli_look look = look_of(st, out, true);

    if (!out)
        return;
    fputs(HOME, out);
    dlr_cli_view(&look, &st->state, &st->run, dlr_cli_now_ms());
    fputs(CLEAR_REST, out);
    if (fclose(out) == 0) {
        fwrite(text, 1, size, stdout);
        fflush(stdout);
    }
}

static void switch_screen(bool on)
{
    fputs(on ? ENTER : LEAVE, stdout);
    fflush(stdout);
}

/* Until the run is over or somebody has seen enough. The signal that ended it, or 0. */
static int watch(struct status *st, struct dlr_cli_watch *w, bool screen,
                 struct dlr_err *err)
{
    enum dlr_cli_news news = DLR_CLI_CHANGED;
    int rc;

    for (;;) {
        if (news == DLR_CLI_SUSPEND && screen) {
            switch_screen(false);
            raise(SIGSTOP);
            switch_screen(true);
        } else if (news == DLR_CLI_SUSPEND) {
            raise(SIGSTOP);
        }
        if ((rc = catch_up(st, err)) < 0)
            return rc;
        if (st->state.over)
            return 0;
        ask_slurm(st);
        if (screen)
            draw(st);
        else
            print_once(st);
        news = dlr_cli_watch_wait(w, st->interval_ms);
        if (news == DLR_CLI_STOP)
            return w->signal;
    }
}

static int run_watch(struct status *st)
{
    bool screen = isatty(STDOUT_FILENO) && !st->json;
    struct dlr_cli_watch w;
    struct dlr_err err;
    int rc;

    if (dlr_cli_watch_init(&w, st->run.journal, &err) < 0) {
        fprintf(stderr, "dlrover: %s\n", err.text);
        return DLR_CLI_FAIL;
    }
    if (screen)
        switch_screen(true);
    rc = watch(st, &w, screen, &err);
    if (screen)
        switch_screen(false);
    dlr_cli_watch_done(&w);
    if (rc < 0) {
        fprintf(stderr, "dlrover: %s\n", err.text);
        return DLR_CLI_FAIL;
    }
    if (screen || rc == 0)
        print_once(st); /* what was seen last stays to be read */
    return rc ? 128 + rc : DLR_CLI_OK;
}

static int run_status(struct status *st)
{
    struct dlr_err err = {0};

    if (dlr_cli_find(&st->where, &st->run, &err) < 0) {
        fprintf(stderr, "dlrover: %s\n", err.text);
        return DLR_CLI_FAIL;
    }
    dlr_cli_reader_init(&st->reader, st->run.journal);
    if (catch_up(st, &err) < 0) {
        fprintf(stderr, "dlrover: %s\n", err.text);
        return DLR_CLI_FAIL;
    }
    if (st->watch ||
        (isatty(STDOUT_FILENO) && !st->once && !st->json && !st->state.over))
        return run_watch(st);
    ask_slurm(st);
    return print_once(st);
}

int dlr_cli_status(int argc, char **argv)
{
    struct status st = {.interval_ms = INTERVAL_MS};
    int code;

    if (!dlr_cli_parse(&status_cmd, argc, argv, set, &st, &code))
        return code;
    dlr_cli_state_init(&st.state);
    code = run_status(&st);
    dlr_cli_reader_done(&st.reader);
    dlr_cli_state_done(&st.state);
    return code;
}
