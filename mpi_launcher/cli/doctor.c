/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover doctor: what of an installation is not as it should be, and what to do. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/doctor/doctor.h"

struct doctor_conf {
    struct dlr_doctor d;
    const char *checks;
    bool json, list;
};

static const struct dlr_cli_opt opts[] = {
    {"checks", "LIST", "which ones: all, or names with commas (all)"},
    {"list", NULL, "print the names of the checks and what they look at"},
    {"state-dir", "DIR", "what --dlrover-state-dir will be given"},
    {"need", "SIZE", "memory that the snapshots of a job would take on a node (0)"},
    {"limit", "TIME", "longest wait for one check (10s)"},
    {"json", NULL, "one JSON object"},
    {0},
};
static const struct dlr_cli_cmd doctor_cmd = {
    "doctor", "", "Looks for what keeps jobs on this host from being supervised.", opts,
    "Run it as root on a node or a login host after an installation, and as a user in "
    "a\n"
    "batch script or an salloc, where it looks at the job and its nodes, too. Each "
    "line\n"
    "begins with ok, note (worth knowing), skip (cannot be judged here) or problem, "
    "which\n"
    "ends with what to do.\n\n"
    "Exit status: 0 without a problem or as a task of a supervised srun, 1 with a "
    "problem,\n"
    "2 on wrong usage.\n"};

/* Whether name is in a list "a,b,c". */
static bool lists(const char *list, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, len) == 0 && (at[len] == ',' || !at[len]))
            return true;
    }
    return false;
}

static int check_names(const char *list, struct dlr_err *err)
{
    char text[512], *rest = text, *word;

    if (dlr_streq(list, "all"))
        return 0;
    if (dlr_format(text, sizeof(text), "%s", list) < 0)
        return dlr_fail(err, -EINVAL, "too long a list of checks");
    while ((word = strsep(&rest, ","))) {
        const struct dlr_doctor_check *c = dlr_doctor_checks;

        while (c->name && !dlr_streq(c->name, word))
            c++;
        if (!c->name)
            return dlr_fail(err, -EINVAL,
                            "unknown check '%.64s', known are those of --list", word);
    }
    return 0;
}

static int set(void *arg, const char *name, const char *value, struct dlr_err *err)
{
    struct doctor_conf *conf = arg;

    if (!name)
        return dlr_fail(err, -EINVAL, "'%.64s' is one argument too many", value);
    if (dlr_streq(name, "json"))
        conf->json = true;
    else if (dlr_streq(name, "list"))
        conf->list = true;
    else if (dlr_streq(name, "checks"))
        return check_names(conf->checks = value, err);
    else if (dlr_streq(name, "state-dir")) {
        conf->d.state_given = true;
        if (dlr_format(conf->d.state_dir, sizeof(conf->d.state_dir), "%s", value) < 0)
            return dlr_fail(err, -EINVAL, "too long a path");
    } else if (dlr_streq(name, "need") &&
               dlr_parse_size(value, &conf->d.need_bytes) < 0)
        return dlr_fail(err, -EINVAL, "--need: '%.64s' is no size, such as 40g", value);
    else if (dlr_streq(name, "limit") &&
             (dlr_parse_duration_ms(value, &conf->d.limit_ms) < 0 ||
              conf->d.limit_ms == 0))
        return dlr_fail(err, -EINVAL, "--limit: '%.64s' is no time, such as 5s", value);
    return 0;
}

static void print_list(bool as_json)
{
    DLR_AUTO_JSON json_t *j = json_array();

    for (const struct dlr_doctor_check *c = dlr_doctor_checks; c->name; c++)
        if (as_json)
            json_array_append_new(j, json_pack("{s:s,s:s,s:b}", "check", c->name,
                                               "help", c->help, "job",
                                               c->where == DLR_DOCTOR_JOB));
        else
            printf("%-12s %s%s\n", c->name, c->help,
                   c->where == DLR_DOCTOR_JOB ? " (in a job)" : "");
    if (as_json && json_dumpf(j, stdout, JSON_INDENT(2)) == 0)
        putchar('\n');
}

static bool wanted(const struct doctor_conf *conf, const struct dlr_doctor_check *c)
{
    if (!dlr_streq(conf->checks, "all"))
        return lists(conf->checks, c->name);
    return c->where != DLR_DOCTOR_JOB || conf->d.job;
}

static bool wants_nodes(const struct doctor_conf *conf)
{
    return dlr_streq(conf->checks, "all") || lists(conf->checks, "nodes") ||
           lists(conf->checks, "clock") || lists(conf->checks, "network") ||
           lists(conf->checks, "shared");
}

/* Of the tasks of a step only the first asks: the others would ask the same. */
static void ask_nodes(struct doctor_conf *conf)
{
    const char *rank = getenv("SLURM_PROCID"), *step = getenv("SLURM_STEP_ID");

    if (!conf->d.job || !wants_nodes(conf))
        return;
    if (step && rank && !dlr_streq(rank, "0"))
        conf->d.nodes_rc = -EALREADY;
    else
        dlr_doctor_ask_nodes(&conf->d);
}

static void run_one(const struct doctor_conf *conf, const struct dlr_doctor_check *c,
                    struct dlr_doctor_result *r)
{
    if (c->where == DLR_DOCTOR_JOB && !conf->d.job)
        dlr_doctor_say(r, DLR_DOCTOR_SKIP, "not inside a job");
    else
        dlr_doctor_run(&conf->d, c, r);
}

static int run_all(const struct doctor_conf *conf)
{
    DLR_AUTO_JSON json_t *j = NULL;
    json_t *list = json_array();
    unsigned count = 0, problems = 0;
    char host[256] = "", when[32];

    for (const struct dlr_doctor_check *c = dlr_doctor_checks; c->name; c++) {
        struct dlr_doctor_result r = {0};

        if (!wanted(conf, c))
            continue;
        run_one(conf, c, &r);
        count++;
        problems += r.verdict == DLR_DOCTOR_PROBLEM;
        json_array_append_new(
            list, json_pack("{s:s,s:s,s:s}", "check", c->name, "verdict",
                            dlr_doctor_verdict_name(r.verdict), "text", r.text));
        if (!conf->json)
            printf("%-8s %-12s %s\n", dlr_doctor_verdict_name(r.verdict), c->name,
                   r.text);
        fflush(stdout);
    }
    gethostname(host, sizeof(host) - 1);
    dlr_wall_text(dlr_wall_ns(), when, sizeof(when));
    j = json_pack("{s:s,s:s,s:s,s:i,s:o}", "node", host, "time", when, "version",
                  DLR_VERSION, "problems", (int)problems, "checks", list);
    if (conf->json && j && json_dumpf(j, stdout, JSON_INDENT(2)) == 0)
        putchar('\n');
    else if (!conf->json)
        printf("%s: %u problem%s in %u checks\n", host, problems,
               problems == 1 ? "" : "s", count);
    if (getenv("DLROVER_ROUND"))
        return DLR_CLI_OK; /* a task that fails would only start the next round */
    return problems ? DLR_CLI_FAIL : DLR_CLI_OK;
}

int dlr_cli_doctor(int argc, char **argv)
{
    struct doctor_conf conf = {.checks = "all",
                               .d = {.root = "", .limit_ms = DLR_DOCTOR_LIMIT_MS}};
    const char *job = getenv("SLURM_JOB_ID");
    int code;

    if (argc > 1 && dlr_streq(argv[1], "--probe"))
        return dlr_doctor_probe(argc - 1, argv + 1); /* our own step on a node */
    if (!dlr_cli_parse(&doctor_cmd, argc, argv, set, &conf, &code))
        return code;
    if (conf.list) {
        print_list(conf.json);
        return DLR_CLI_OK;
    }
    conf.d.job = job && job[0] ? job : NULL;
    dlr_doctor_look(&conf.d);
    ask_nodes(&conf);
    code = run_all(&conf);
    dlr_doctor_done(&conf.d);
    return code;
}
