/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover report: all that a journal says of a run, on one page. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/cli/base/find_run.h"
#include "mpi_launcher/cli/report_of.h"
#include "mpi_launcher/journal/text.h"
#include "mpi_launcher/report/report.h"

struct report {
    struct dlr_cli_where where;
    const char *html; /* the file, "-" for standard output; NULL: no HTML */
    bool json;
};

/* clang-format off */
static const struct dlr_cli_opt opts[] = {
    {"html", "FILE", "one page of HTML to this file ('-': to the output)"},
    {"json", NULL, "one JSON object"},
    {"run", "NAME", "the run, when the job has several (default: the newest)"},
    {"state-dir", "DIR", "the job's --dlrover-state-dir (default: DLROVER_STATE_DIR, "
                         "else ~/.dlrover)"},
    {0},
};
/* clang-format on */
static const struct dlr_cli_cmd report_cmd = {
    "report", "[JOB]",
    "Tells what became of a run: where its time went, what failed, what was saved.",
    opts,
    "JOB is the job's id; without it the job this shell is in, else the newest.\n"};

static int set(void *arg, const char *name, const char *value, struct dlr_err *err)
{
    struct report *rep = arg;

    if (!name && rep->where.job)
        return dlr_fail(err, -EINVAL, "one job at a time: '%.64s' is one too many",
                        value);
    if (!name)
        rep->where.job = value;
    else if (dlr_streq(name, "run"))
        rep->where.run = value;
    else if (dlr_streq(name, "state-dir"))
        rep->where.state_dir = value;
    else if (dlr_streq(name, "json"))
        rep->json = true;
    else if (!value[0])
        return dlr_fail(err, -EINVAL, "--html needs the name of a file");
    else
        rep->html = value;
    if (rep->html && rep->json)
        return dlr_fail(err, -EINVAL, "--html and --json exclude each other");
    return 0;
}

/* To a file beside it first: nobody finds half a page. */
static int write_html(const struct dlr_report *r, const struct dlr_report_about *about,
                      const char *path, struct dlr_err *err)
{
    DLR_AUTO_FREE char *part = dlr_format_new("%s.part-%d", path, (int)getpid());
    FILE *out = part ? fopen(part, "wxe") : NULL;
    bool bad;

    if (!out)
        return dlr_fail(err, -errno, "cannot write '%.300s': %s", path,
                        strerror(errno));
    dlr_report_html(r, about, out);
    bad = ferror(out) != 0;
    bad = fclose(out) != 0 || bad;
    if (!bad && rename(part, path) == 0)
        return 0;
    dlr_fail(err, -EIO, "cannot write '%.300s': %s", path, strerror(errno));
    unlink(part);
    return -EIO;
}

static int print(const struct report *rep, const struct dlr_report *r,
                 const struct dlr_report_about *about, struct dlr_err *err)
{
    json_t *j = NULL;

    if (rep->html && !dlr_streq(rep->html, "-"))
        return write_html(r, about, rep->html, err);
    if (rep->html) {
        dlr_report_html(r, about, stdout);
    } else if (rep->json) {
        j = dlr_report_json(r, about);
        if (!j)
            return dlr_fail(err, -ENOMEM, "no memory for a report");
        json_dumpf(j, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
        putchar('\n');
        json_decref(j);
    } else {
        dlr_report_text(r, about, stdout);
    }
    return fflush(stdout) ? dlr_fail(err, -EIO, "cannot write: %s", strerror(errno))
                          : 0;
}

static int run_report(const struct report *rep)
{
    struct dlr_report_about about = {.now_ms = dlr_cli_now_ms()};
    struct dlr_report *r = NULL;
    struct dlr_cli_run run;
    struct dlr_err err = {0};
    int rc = dlr_cli_find(&rep->where, &run, &err);

    if (rc == 0)
        rc = dlr_cli_report_of(&run, false, &r, &err);
    if (rc == 0) {
        about.job = run.job;
        about.run = run.run;
        about.others = run.others;
        rc = print(rep, r, &about, &err);
    }
    if (rc < 0)
        fprintf(stderr, "dlrover: %s\n", err.text);
    dlr_report_free(r);
    return rc < 0 ? DLR_CLI_FAIL : DLR_CLI_OK;
}

int dlr_cli_report(int argc, char **argv)
{
    struct report rep = {0};
    int code;

    if (dlr_cli_parse(&report_cmd, argc, argv, set, &rep, &code))
        code = run_report(&rep);
    return code;
}
