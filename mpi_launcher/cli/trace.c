/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover trace: a run on one clock, for ui.perfetto.dev or chrome://tracing. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/cli/base/find_run.h"
#include "mpi_launcher/cli/base/replace_file.h"
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
    int rc;

    if (dlr_cli_where_set(&tr->where, name, value, &rc, err))
        return rc;
    if (dlr_streq(name, "out"))
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

struct page {
    const struct trace *tr;
    const struct dlr_report *r;
    struct dlr_report_about about;
};

static int put(void *arg, FILE *out, struct dlr_err *err)
{
    const struct page *page = arg;
    const struct trace *tr = page->tr;

    if (dlr_report_trace(page->r, &page->about, tr->format, tr->last_ms,
                         tr->format == DLR_TRACE_JSON ? JSON_MAX : 0, out) < 0)
        return dlr_fail(err, -E2BIG,
                        "more than %d slices are too many for JSON: take "
                        "--format=perfetto, or --last=TIME",
                        JSON_MAX);
    return 0;
}

static int write_trace(const struct trace *tr, struct dlr_err *err)
{
    struct page page = {.tr = tr, .about.now_ms = dlr_cli_now_ms()};
    struct dlr_report *r = NULL;
    struct dlr_cli_run run;
    int rc = dlr_cli_find(&tr->where, &run, err);

    if (rc == 0)
        rc = dlr_cli_report_of(&run, true, &r, err);
    if (rc < 0)
        return rc;
    page.r = r;
    page.about.job = run.job;
    page.about.run = run.run;
    if (!dlr_streq(tr->out, "-"))
        rc = dlr_cli_replace_file(tr->out, 0, put, &page, err);
    else if ((rc = put(&page, stdout, err)) == 0 && fflush(stdout))
        rc = dlr_fail(err, -EIO, "cannot write: %s", strerror(errno));
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
