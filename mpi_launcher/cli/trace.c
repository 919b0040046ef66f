/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover trace: a run on one clock, for ui.perfetto.dev or chrome://tracing. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/cli/base/find_run.h"
#include "mpi_launcher/cli/report_of.h"
#include "mpi_launcher/journal/text.h"
#include "mpi_launcher/report/report.h"

#define JSON_MAX 500000 /* chrome://tracing does not come back from more */

struct trace {
    struct dlr_cli_where where;
    const char *out; /* the file, "-" for standard output */
    enum dlr_trace_format format;
    int64_t last_ms;
};

/* clang-format off */
static const struct dlr_cli_opt opts[] = {
    {"out", "FILE", "where it goes ('-': to the output)"},
    {"format", "WORD", "perfetto (default): protobuf, for ui.perfetto.dev; json: for chrome://tracing"},
    {"last", "TIME", "only the run's last 90s, 10m or 2h (default: all)"},
    {"run", "NAME", "the run, when the job has several (default: the newest)"},
    {"state-dir", "DIR", "the job's --dlrover-state-dir (default: DLROVER_STATE_DIR, "
                         "else ~/.dlrover)"},
    {0},
};
/* clang-format on */
static const struct dlr_cli_cmd trace_cmd = {
    "trace", "[JOB]",
    "Writes a run as a trace: rounds, causes, incidents, nodes and steps on one clock.",
    opts,
    "JOB is the job's id; without it the job this shell is in, else the newest.\n"};

static int set(void *arg, const char *name, const char *value, struct dlr_err *err)
{
    struct trace *tr = arg;

    if (!name && tr->where.job)
        return dlr_fail(err, -EINVAL, "one job at a time: '%.64s' is one too many",
                        value);
    if (!name)
        tr->where.job = value;
    else if (dlr_streq(name, "run"))
        tr->where.run = value;
    else if (dlr_streq(name, "state-dir"))
        tr->where.state_dir = value;
    else if (dlr_streq(name, "out"))
        tr->out = value;
    else if (dlr_streq(name, "format") && dlr_streq(value, "json"))
        tr->format = DLR_TRACE_JSON;
    else if (dlr_streq(name, "format") && dlr_streq(value, "perfetto"))
        tr->format = DLR_TRACE_PERFETTO;
    else if (dlr_streq(name, "format"))
        return dlr_fail(err, -EINVAL, "--format=%.64s: must be perfetto or json",
                        value);
    else if (dlr_parse_duration_ms(value, &tr->last_ms) < 0 || tr->last_ms <= 0)
        return dlr_fail(err, -EINVAL,
                        "--last=%.64s: must be a time, such as '90s' or '2h'", value);
    return 0;
}

static int put(const struct trace *tr, const struct dlr_report *r,
               const struct dlr_report_about *about, FILE *out, struct dlr_err *err)
{
    if (dlr_report_trace(r, about, tr->format, tr->last_ms,
                         tr->format == DLR_TRACE_JSON ? JSON_MAX : 0, out) < 0)
        return dlr_fail(err, -E2BIG,
                        "more than %d slices are too many for JSON: take "
                        "--format=perfetto, or --last=TIME",
                        JSON_MAX);
    return 0;
}

/* To a file beside it first: nobody opens half a trace. */
static int write_file(const struct trace *tr, const struct dlr_report *r,
                      const struct dlr_report_about *about, struct dlr_err *err)
{
    DLR_AUTO_FREE char *part = dlr_format_new("%s.part-%d", tr->out, (int)getpid());
    FILE *out = part ? fopen(part, "wxe") : NULL;
    bool bad;
    int rc;

    if (!out)
        return dlr_fail(err, -errno, "cannot write '%.300s': %s", tr->out,
                        strerror(errno));
    rc = put(tr, r, about, out, err);
    bad = ferror(out) != 0;
    bad = fclose(out) != 0 || bad;
    if (rc == 0 && !bad && rename(part, tr->out) == 0)
        return 0;
    if (rc == 0)
        rc = dlr_fail(err, -EIO, "cannot write '%.300s': %s", tr->out, strerror(errno));
    unlink(part);
    return rc;
}

static int write_trace(const struct trace *tr, struct dlr_err *err)
{
    struct dlr_report_about about = {.now_ms = dlr_cli_now_ms()};
    struct dlr_report *r = NULL;
    struct dlr_cli_run run;
    int rc = dlr_cli_find(&tr->where, &run, err);

    if (rc == 0)
        rc = dlr_cli_report_of(&run, true, &r, err);
    if (rc < 0)
        return rc;
    about.job = run.job;
    about.run = run.run;
    if (!dlr_streq(tr->out, "-")) {
        rc = write_file(tr, r, &about, err);
    } else if ((rc = put(tr, r, &about, stdout, err)) == 0 && fflush(stdout)) {
        rc = dlr_fail(err, -EIO, "cannot write: %s", strerror(errno));
    }
    dlr_report_free(r);
    return rc;
}

int dlr_cli_trace(int argc, char **argv)
{
    struct trace tr = {0};
    struct dlr_err err = {0};
    int code;

    if (!dlr_cli_parse(&trace_cmd, argc, argv, set, &tr, &code))
        return code;
    if (!tr.out || !tr.out[0]) {
        fputs("dlrover trace: where to? --out=FILE, or --out=- (see 'dlrover help "
              "trace')\n",
              stderr);
        return DLR_CLI_USAGE;
    }
    if (write_trace(&tr, &err) == 0)
        return DLR_CLI_OK;
    fprintf(stderr, "dlrover: %s\n", err.text);
    return DLR_CLI_FAIL;
}
