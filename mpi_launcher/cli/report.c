/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover report: all that a journal says of a run, on one page. */
#include <errno.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/cli/base/find_run.h"
#include "mpi_launcher/cli/base/replace_file.h"
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
    int rc;

    if (dlr_cli_where_set(&rep->where, name, value, &rc, err))
        return rc;
    if (dlr_streq(name, "json"))
        rep->json = true;
    else if (!value[0])
        return dlr_fail(err, -EINVAL, "--html needs the name of a file");
    else
        rep->html = value;
    if (rep->html && rep->json)
        return dlr_fail(err, -EINVAL, "--html and --json exclude each other");
    return 0;
}

struct page {
    const struct dlr_report *r;
    const struct dlr_report_about *about;
};

static int write_html(void *arg, FILE *out, struct dlr_err *err)
{
    const struct page *page = arg;

    (void)err;
    dlr_report_html(page->r, page->about, out);
    return 0;
}

static int print(const struct report *rep, const struct dlr_report *r,
                 const struct dlr_report_about *about, struct dlr_err *err)
{
    struct page page = {r, about};
    json_t *j = NULL;

    if (rep->html && !dlr_streq(rep->html, "-"))
        return dlr_cli_replace_file(rep->html, 0, write_html, &page, err);
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
