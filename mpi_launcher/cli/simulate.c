/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover simulate: what share of its time a job would train. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/config/job_config.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/cli/base/progress_bar.h"
#include "mpi_launcher/simulator/report.h"
#include "mpi_launcher/simulator/site.h"

#define FILE_MAX (512u << 20) /* bytes of what sacct says */
#define ADVISE_DAYS 90        /* at most, of each variant */
#define DONE 1000

struct simulate {
    struct dlr_sim_conf conf;
    struct dlr_site site;
    bool json, svg, advise, keys;
    struct dlr_cli_bar bar;
    double before, share; /* of the bar: what is done, what one run is */
};

/* clang-format off */
static const struct dlr_cli_opt opts[] = {
    {"gpus", "N", "GPUs that train (default: 16384)"},
    {"spares", "N", "nodes that are kept ready (default: one for 64)"},
    {"days", "N", "how long the job is played (default: 365)"},
    {"redundancy", "KIND", "as --dlrover-redundancy (default: partner)"},
    {"persist", "TIME", "time between two versions on the disk (default: 30m)"},
    {"in-process", NULL, "survivors of a failure keep their processes"},
    {"set", "KEY=VALUE,...", "rates and times; --keys lists them"},
    {"bench", "FILE", "take measured phases from a build/bench.json"},
    {"sacct", "FILE", "take the site's rate of lost nodes from output of sacct -aPXD"},
    {"node-events", "FILE", "and how long they are down from sacctmgr -P show event"},
    {"seed", "N", "another one is another history (default: 1)"},
    {"advise", NULL, "try other spares, redundancies and times, and say which to take"},
    {"keys", NULL, "list what --set takes, with each default and where it is from"},
    {"json", NULL, "one JSON object"},
    {"svg", NULL, "a picture"},
    {0},
};
/* clang-format on */
static const struct dlr_cli_cmd simulate_cmd = {
    "simulate", "",
    "Plays a job on nodes that fail, and says what share of its time it trains.", opts,
    "The supervisor's own rules decide in it; times and failures are drawn.\n"};

/* --- words ------------------------------------------------------------------------ */

static int set_keys(struct simulate *sim, const char *value, struct dlr_err *err)
{
    DLR_AUTO_FREE char *words = strdup(value);
    char *rest = words, *word;

    if (!words)
        return dlr_fail(err, -ENOMEM, "no memory for the keys");
    while ((word = strsep(&rest, ","))) {
        char *equals = strchr(word, '=');
        int rc;

        if (!equals)
            return dlr_fail(err, -EINVAL, "'%.64s' is not KEY=VALUE", word);
        *equals = '\0';
        if ((rc = dlr_sim_conf_set(&sim->conf, word, equals + 1, err)) < 0)
            return rc;
    }
    return 0;
}

static int set_redundancy(struct simulate *sim, const char *value, struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_job_config *job = calloc(1, sizeof(*job));
    int rc;

    if (!job)
        return dlr_fail(err, -ENOMEM, "no memory for the redundancy");
    rc = dlr_opt_set(dlr_job_config_opts, "redundancy", value, job, err);
    if (rc < 0)
        return rc;
    sim->conf.copies = job->redundancy.copies;
    sim->conf.members = job->redundancy.members;
    return 0;
}

typedef int (*take_fn)(struct simulate *sim, const char *text, struct dlr_err *err);

static int take_sacct(struct simulate *sim, const char *text, struct dlr_err *err)
{
    return dlr_site_sacct_parse(text, &sim->site, err);
}

static int take_events(struct simulate *sim, const char *text, struct dlr_err *err)
{
    return dlr_site_events_parse(text, &sim->site, err);
}

static int take_bench(struct simulate *sim, const char *text, struct dlr_err *err)
{
    int n = dlr_sim_conf_bench(&sim->conf, text, err);

    return n < 0 ? n : 0;
}

static int take_file(struct simulate *sim, const char *path, take_fn take,
                     struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    struct dlr_err why = {0};
    int rc = dlr_file_load(AT_FDCWD, path, FILE_MAX, &text, NULL, err);

    if (rc < 0)
        return rc;
    rc = take(sim, text, &why);
    return rc < 0 ? dlr_fail(err, rc, "'%.200s': %.200s", path, why.text) : 0;
}

static int set_seed(struct simulate *sim, const char *value, struct dlr_err *err)
{
    unsigned seed;

    if (dlr_parse_uint(value, UINT32_MAX, &seed) < 0)
        return dlr_fail(err, -EINVAL, "seed is '%.64s', which is not a number", value);
    sim->conf.seed = seed;
    return 0;
}

static int set(void *arg, const char *name, const char *value, struct dlr_err *err)
{
    struct simulate *sim = arg;
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {{"in-process", &sim->conf.in_process},
                 {"advise", &sim->advise},
                 {"keys", &sim->keys},
                 {"json", &sim->json},
                 {"svg", &sim->svg}};

    if (!name)
        return dlr_fail(err, -EINVAL, "'%.64s' is one argument too many", value);
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
        if (dlr_streq(name, flags[i].name)) {
            *flags[i].flag = true;
            return 0;
        }
    if (dlr_streq(name, "set"))
        return set_keys(sim, value, err);
    if (dlr_streq(name, "redundancy"))
        return set_redundancy(sim, value, err);
    if (dlr_streq(name, "seed"))
        return set_seed(sim, value, err);
    if (dlr_streq(name, "bench"))
        return take_file(sim, value, take_bench, err);
    if (dlr_streq(name, "sacct"))
        return take_file(sim, value, take_sacct, err);
    if (dlr_streq(name, "node-events"))
        return take_file(sim, value, take_events, err);
    return dlr_sim_conf_set(&sim->conf, name, value, err);
}

/* --- runs ------------------------------------------------------------------------- */

static void show(void *arg, double done)
{
    struct simulate *sim = arg;
    uint64_t to = (uint64_t)((sim->before + done * sim->share) * DONE);

    if (to > sim->bar.passed)
        dlr_cli_bar_pass(&sim->bar, to - sim->bar.passed);
}

static void print(json_t *json)
{
    json_dumpf(json, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(json);
}

static int advise(struct simulate *sim, struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_sim_variant *list =
        calloc(DLR_SIM_VARIANTS, sizeof(*list));
    unsigned n;
    int rc;

    if (!list)
        return dlr_fail(err, -ENOMEM, "no memory for the variants");
    if (sim->conf.days > ADVISE_DAYS)
        sim->conf.days = ADVISE_DAYS;
    n = dlr_sim_variants(&sim->conf, list);
    for (unsigned i = 0; i < n; i++) {
        sim->share = 1.0 / n;
        sim->before = (double)i / n;
        rc = dlr_sim_run(&list[i].conf, show, sim, &list[i].result, err);
        if (rc < 0)
            return rc;
    }
    dlr_cli_bar_clear();
    if (sim->json) {
        print(dlr_sim_json_variants(list, n));
        return 0;
    }
    printf("%.0f GPUs on %u nodes, %.0f days; one thing is changed at a time\n",
           sim->conf.gpus, dlr_sim_places(&sim->conf), sim->conf.days);
    dlr_sim_report_variants(list, n, stdout);
    return 0;
}

static int play(struct simulate *sim, struct dlr_err *err)
{
    struct dlr_sim_result result;
    int rc = dlr_sim_run(&sim->conf, show, sim, &result, err);

    dlr_cli_bar_clear();
    if (rc < 0)
        return rc;
    if (sim->json)
        print(dlr_sim_json(&sim->conf, &result));
    else if (sim->svg)
        dlr_sim_picture(&sim->conf, &result, stdout);
    else
        dlr_sim_report(&sim->conf, &result, stdout);
    return 0;
}

static int check(struct simulate *sim, struct dlr_err *err)
{
    if (sim->json + sim->svg > 1)
        return dlr_fail(err, -EINVAL, "--json and --svg exclude each other");
    if (sim->advise && sim->svg)
        return dlr_fail(err, -EINVAL, "--advise has no picture");
    if ((sim->site.downs || sim->site.groups) && sim->site.node_days <= 0)
        return dlr_fail(err, -EINVAL,
                        "--node-events needs --sacct, which says how many node-days");
    dlr_site_apply(&sim->site, &sim->conf);
    return dlr_sim_conf_check(&sim->conf, err);
}

int dlr_cli_simulate(int argc, char **argv)
{
    struct simulate sim = {.bar = {.what = "simulate", .total = DONE}, .share = 1};
    struct dlr_err err = {0};
    int code;

    dlr_sim_conf_init(&sim.conf);
    if (!dlr_cli_parse(&simulate_cmd, argc, argv, set, &sim, &code))
        return code;
    if (sim.keys) {
        dlr_sim_conf_print(stdout);
        return DLR_CLI_OK;
    }
    if (check(&sim, &err) < 0) {
        fprintf(stderr, "dlrover simulate: %s (see 'dlrover help simulate')\n",
                err.text);
        return DLR_CLI_USAGE;
    }
    if ((sim.advise ? advise(&sim, &err) : play(&sim, &err)) < 0) {
        fprintf(stderr, "dlrover simulate: %s\n", err.text);
        return DLR_CLI_FAIL;
    }
    return DLR_CLI_OK;
}
