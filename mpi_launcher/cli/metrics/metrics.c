/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover metrics: a run's numbers for Prometheus, once, in a file, or over HTTP. It
 * reads the journal as status does: no process of the run waits for it.
 */
#include "mpi_launcher/cli/metrics/metrics.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/cli/base/find_run.h"
#include "mpi_launcher/cli/base/replace_file.h"
#include "mpi_launcher/cli/base/watch.h"
#include "mpi_launcher/cli/metrics/server.h"
#include "mpi_launcher/journal/reader.h"
#include "mpi_launcher/journal/text.h"
#include "mpi_launcher/metrics/metrics.h"

#define INTERVAL_MS 5000 /* between two looks at the journal, and two files */
#define INTERVAL_MIN_MS 1000
#define LINGER_MS 120000 /* an ended run is served so long: two scrapes of a minute */

struct metrics {
    struct dlr_cli_where where;
    struct dlr_cli_run run;
    struct dlr_cli_reader reader;
    const char *file, *listen;
    bool openmetrics;
    int64_t interval_ms;
    pthread_mutex_t lock; /* of what follows: the server's thread reads it */
    struct dlr_metrics *numbers;
};

/* clang-format off */
static const struct dlr_cli_opt opts[] = {
    {"file", "FILE", "writes this file again and again until the run is over"},
    {"listen", "[ADDRESS:]PORT", "serves http://ADDRESS:PORT/metrics (127.0.0.1; port 0: any) until "
                                 "two minutes after the run is over"},
    {"interval", "TIME", "between two looks at the journal (5s)"},
    {"openmetrics", NULL, "once, in the format of OpenMetrics"},
    {"run", "NAME", "the run, when the job has several (default: the newest)"},
    {"state-dir", "DIR", "the job's --dlrover-state-dir (default: DLROVER_STATE_DIR, "
                         "else ~/.dlrover)"},
    {0},
};
/* clang-format on */
static const struct dlr_cli_cmd metrics_cmd = {
    "metrics", "[JOB]", "Tells a run's numbers in the format of Prometheus.", opts,
    "JOB is the job's id; without it the job this shell is in, else the newest.\n"
    "Without --file and --listen: once, to the output.\n"};

static int set(void *arg, const char *name, const char *value, struct dlr_err *err)
{
    struct metrics *mt = arg;
    int rc;

    if (dlr_cli_where_set(&mt->where, name, value, &rc, err))
        return rc;
    if (dlr_streq(name, "openmetrics"))
        mt->openmetrics = true;
    else if (dlr_streq(name, "listen"))
        mt->listen = value;
    else if (dlr_streq(name, "file") && value[0])
        mt->file = value;
    else if (dlr_streq(name, "file"))
        return dlr_fail(err, -EINVAL, "--file needs the name of a file");
    else if (dlr_parse_duration_ms(value, &mt->interval_ms) < 0 ||
             mt->interval_ms < INTERVAL_MIN_MS)
        return dlr_fail(err, -EINVAL,
                        "--interval=%.64s: must be a time from 1s on, such as '5s'",
                        value);
    if (mt->openmetrics && (mt->file || mt->listen))
        return dlr_fail(err, -EINVAL,
                        "--openmetrics is for the output alone: a file is for "
                        "node_exporter, and who scrapes says what it takes");
    return 0;
}

/* --- the journal ------------------------------------------------------------------ */

static int begin_anew(struct metrics *mt, struct dlr_err *err)
{
    dlr_metrics_free(mt->numbers);
    mt->numbers = dlr_metrics_new();
    return mt->numbers ? 0 : dlr_fail(err, -ENOMEM, "no memory for the numbers");
}

static int take_lines(struct metrics *mt, struct dlr_err *err)
{
    size_t size;
    char *line;
    int rc = mt->numbers ? 0 : begin_anew(mt, err);

    while (rc == 0 && (rc = dlr_cli_reader_next(&mt->reader, &line, &size, err)) != 0) {
        if (rc == -ESTALE) { /* another file stands there now */
            rc = begin_anew(mt, err);
        } else if (rc > 0) {
            dlr_metrics_line(mt->numbers, line, size);
            rc = 0;
        }
    }
    return rc;
}

/* 1: the run is over; 0; -errno. */
static int catch_up(struct metrics *mt, struct dlr_err *err)
{
    int rc;

    pthread_mutex_lock(&mt->lock);
    rc = take_lines(mt, err);
    if (rc == 0)
        rc = dlr_metrics_over(mt->numbers);
    pthread_mutex_unlock(&mt->lock);
    return rc;
}

/* --- the page --------------------------------------------------------------------- */

static void write_page(void *arg, enum dlr_metrics_format format, FILE *out)
{
    struct metrics *mt = arg;

    pthread_mutex_lock(&mt->lock);
    dlr_metrics_write(mt->numbers, mt->run.job, mt->run.run, dlr_cli_now_ms(), format,
                      out);
    pthread_mutex_unlock(&mt->lock);
}

static int write_file(void *arg, FILE *out, struct dlr_err *err)
{
    (void)err;
    write_page(arg, DLR_METRICS_PROMETHEUS, out);
    return 0;
}

static int print_once(struct metrics *mt, struct dlr_err *err)
{
    write_page(mt, mt->openmetrics ? DLR_METRICS_OPENMETRICS : DLR_METRICS_PROMETHEUS,
               stdout);
    return fflush(stdout) ? dlr_fail(err, -EIO, "cannot write: %s", strerror(errno))
                          : 0;
}

/* --- until the run is over -------------------------------------------------------- */

/* A disk that is full for a while is told once, and written to when it is not. */
static int keep_file(struct metrics *mt, bool *told, struct dlr_err *err)
{
    /* node_exporter is another user */
    int rc = dlr_cli_replace_file(mt->file, 0644, write_file, mt, err);

    if (rc < 0 && !*told)
        fprintf(stderr, "dlrover: %s\n", err->text);
    *told = rc < 0;
    return rc;
}

/* 0, the signal that ended it, or -errno. */
static int follow(struct metrics *mt, struct dlr_cli_watch *w, struct dlr_err *err)
{
    int64_t over_ms = 0;
    bool told = false;
    int rc, file_rc = 0;

    for (;;) {
        if ((rc = catch_up(mt, err)) < 0)
            return rc;
        if (mt->file && (!over_ms || file_rc < 0))
            file_rc = keep_file(mt, &told, err);
        if (rc && !over_ms)
            over_ms = dlr_now_ms();
        if (over_ms && (!mt->listen || dlr_now_ms() - over_ms >= LINGER_MS))
            return file_rc;
        switch (dlr_cli_watch_wait(w, mt->interval_ms)) {
        case DLR_CLI_STOP:
            return w->signal;
        case DLR_CLI_SUSPEND:
            raise(SIGSTOP);
            break;
        default:
            break;
        }
    }
}

static int serve(struct metrics *mt, struct dlr_cli_watch *w, struct dlr_err *err)
{
    struct dlr_metrics_server *server = NULL;
    int rc = catch_up(mt, err);

    if (rc >= 0 && mt->listen)
        rc = dlr_metrics_server_new(mt->listen, write_page, mt, &server, err);
    if (rc >= 0 && server) {
        printf("dlrover: port %u\n", (unsigned)dlr_metrics_server_port(server));
        fflush(stdout);
    }
    if (rc >= 0)
        rc = follow(mt, w, err);
    dlr_metrics_server_free(server);
    return rc;
}

/* In a batch script it is started before the srun that makes the journal. */
static int wait_for_run(struct metrics *mt, struct dlr_err *err)
{
    struct dlr_cli_watch w;
    int rc = dlr_cli_find(&mt->where, &mt->run, err), stop = 0;

    if (rc != -ENOENT)
        return rc;
    fprintf(stderr, "dlrover: no run yet, it is waited for: %s\n", err->text);
    if ((rc = dlr_cli_watch_init(&w, "/", err)) < 0)
        return rc;
    do {
        if (dlr_cli_watch_wait(&w, mt->interval_ms) == DLR_CLI_STOP)
            stop = w.signal;
        else
            rc = dlr_cli_find(&mt->where, &mt->run, err);
    } while (!stop && rc == -ENOENT);
    dlr_cli_watch_done(&w);
    return stop ? stop : rc;
}

static int run_metrics(struct metrics *mt, struct dlr_err *err)
{
    bool once = !mt->file && !mt->listen;
    struct dlr_cli_watch w;
    int rc = once ? dlr_cli_find(&mt->where, &mt->run, err) : wait_for_run(mt, err);

    if (rc != 0)
        return rc;
    dlr_cli_reader_init(&mt->reader, mt->run.journal);
    if (once) {
        rc = catch_up(mt, err);
        return rc < 0 ? rc : print_once(mt, err);
    }
    if ((rc = dlr_cli_watch_init(&w, mt->run.journal, err)) < 0)
        return rc;
    rc = serve(mt, &w, err);
    dlr_cli_watch_done(&w);
    return rc;
}

int dlr_cli_metrics(int argc, char **argv)
{
    struct metrics mt = {.interval_ms = INTERVAL_MS, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct dlr_err err = {0};
    int code, rc;

    if (!dlr_cli_parse(&metrics_cmd, argc, argv, set, &mt, &code))
        return code;
    rc = run_metrics(&mt, &err);
    if (rc < 0)
        fprintf(stderr, "dlrover: %s\n", err.text);
    dlr_cli_reader_done(&mt.reader);
    dlr_metrics_free(mt.numbers);
    return rc < 0 ? DLR_CLI_FAIL : rc ? 128 + rc : DLR_CLI_OK;
}
