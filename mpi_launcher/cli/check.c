/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover check: the checks of the rendezvous, on this node, for people and scripts. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "health/health.h"
#include "health/inject.h"
#include "mpi_launcher/cli/base/cli.h"
#include "mpi_launcher/cli/check_slurm.h"

struct check_conf {
    const char *checks, *state_dir, *peers, *root;
    uint64_t need_bytes;
    bool json, list, slurm, undrain, history;
};

/* Where --slurm keeps what it finds; /run where the first cannot be written. */
static const char *const history_bases[] = {"/var/spool", "/run", NULL};

static void help(FILE *out)
{
    fprintf(
        out,
        "usage: dlrover check [OPTION]...\n"
        "\n"
        "Checks this node as a rendezvous would and prints a verdict with its reason\n"
        "for each check: ok, skip (cannot be judged here), warn, fail (the node would\n"
        "be left out), drain (and no job should come here before it is repaired).\n"
        "\n"
        "  --checks=LIST      which ones: all, quick, none, or names with commas, "
        "-NAME\n"
        "                     takes one away (all)\n"
        "  --list             print the checks: level, what they look at, limit, "
        "advice\n"
        "  --state-dir=DIR    directory whose space is checked ($HOME/.dlrover)\n"
        "  --need=SIZE        memory the snapshots of a job would take here (0)\n"
        "  --peers=HOST:PORT[,HOST:PORT]...\n"
        "                     nodes that have to answer; a refused port is an answer\n"
        "  --root=DIR         look at a recorded /proc and /sys below DIR\n"
        "  --slurm            for HealthCheckProgram and Prolog, as root: quick "
        "checks,\n"
        "                     keep the results, drain the node if it is broken\n"
        "  --undrain          with --slurm: resume a node that it has drained when it "
        "is "
        "well\n"
        "  --history          print what --slurm has kept\n"
        "  --json             print a JSON object\n"
        "  --help             print this\n"
        "\n"
        "--slurm drains for the verdict drain alone, twice in a row, and never more "
        "than\n"
        "5%% of a partition (at least one node) within an hour. It ends with 1 when it "
        "has\n"
        "drained the node right now, else with 0: any other end of a Prolog drains "
        "it.\n"
        "\n"
        "Exit status: 0 when no check failed, 1 when one did, 2 on wrong usage.\n");
}

/* --- words ------------------------------------------------------------------------ */

static int parse(int argc, char **argv, struct check_conf *conf)
{
    const char *value;
    int i;

    for (i = 1; i < argc; i++) {
        if ((value = dlr_after(argv[i], "--checks=")))
            conf->checks = value;
        else if ((value = dlr_after(argv[i], "--state-dir=")))
            conf->state_dir = value;
        else if ((value = dlr_after(argv[i], "--peers=")))
            conf->peers = value;
        else if ((value = dlr_after(argv[i], "--root=")))
            conf->root = value;
        else if (dlr_streq(argv[i], "--slurm"))
            conf->slurm = true;
        else if (dlr_streq(argv[i], "--undrain"))
            conf->undrain = true;
        else if (dlr_streq(argv[i], "--history"))
            conf->history = true;
        else if (dlr_streq(argv[i], "--json"))
            conf->json = true;
        else if (dlr_streq(argv[i], "--list"))
            conf->list = true;
        else if (!(value = dlr_after(argv[i], "--need=")) ||
                 dlr_parse_size(value, &conf->need_bytes) < 0) {
            fprintf(stderr,
                    "dlrover check: bad option '%s'; see dlrover check --help\n",
                    argv[i]);
            return DLR_CLI_USAGE;
        }
    }
    return DLR_CLI_OK;
}

/* Where the state would go; before the first job that is where it will be made. */
static const char *state_dir(const struct check_conf *conf, char *buf, size_t size)
{
    const char *home = getenv("HOME");

    if (conf->state_dir)
        return conf->state_dir;
    if (!home || !home[0] || dlr_format(buf, size, "%s/.dlrover", home) < 0)
        return NULL;
    return access(buf, F_OK) == 0 ? buf : home;
}

/* Cuts text at its commas; *ret_list ends with NULL and points into text. */
static int split(char *text, const char ***ret_list)
{
    const char **list = calloc(strlen(text) + 2, sizeof(*list));
    size_t n = 0;
    char *word, *rest = text;

    if (!list)
        return -1;
    while ((word = strsep(&rest, ",")))
        if (word[0])
            list[n++] = word;
    *ret_list = list;
    return 0;
}

/* --- output ----------------------------------------------------------------------- */

/* [{key, help, kind}] of the numbers of a check that can be injected. */
static json_t *numbers_of(const char *check)
{
    json_t *list = json_array();

    for (const struct dlr_inject_key *k = dlr_inject_keys; k->key; k++) {
        const char *rest = dlr_after(k->key, check);

        if (rest && (*rest == '.' || !*rest))
            json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "key", k->key,
                                                  "help", k->help, "kind",
                                                  dlr_inject_kind_name(k->kind)));
    }
    return list;
}

static int print_checks(bool as_json)
{
    DLR_AUTO_JSON json_t *j = json_array();
    const struct dlr_health_check *c;

    for (c = dlr_health_checks; c->name; c++) {
        const char *level = dlr_health_level_name(c->level);

        if (as_json)
            json_array_append_new(
                j, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "check",
                             c->name, "level", level, "help", c->help, "reads",
                             c->reads, "unit", c->unit, "limit", c->limit, "advice",
                             c->advice, "numbers", numbers_of(c->name)));
        else
            printf("%-10s %-5s %s\n%17slimit   %s\n%17sadvice  %s\n", c->name, level,
                   c->help, "", c->limit, "", c->advice);
    }
    if (as_json && json_dumpf(j, stdout, JSON_INDENT(2)) == 0)
        putchar('\n');
    return DLR_CLI_OK;
}

static void print_table(const struct dlr_health_result *r, int n)
{
    int i;

    for (i = 0; i < n; i++)
        printf("%-10s %-5s %s\n", r[i].check, dlr_health_verdict_name(r[i].verdict),
               r[i].reason);
}

static void print_json(const struct dlr_health_result *r, int n)
{
    DLR_AUTO_JSON json_t *j = NULL;
    json_t *list = json_array();
    char host[256] = "", when[32];
    int i;

    gethostname(host, sizeof(host) - 1);
    dlr_wall_text(dlr_wall_ns(), when, sizeof(when));
    for (i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "check", r[i].check,
                                              "verdict",
                                              dlr_health_verdict_name(r[i].verdict),
                                              "reason", r[i].reason));
    j = json_pack("{s:s, s:s, s:s, s:o}", "node", host, "time", when, "verdict",
                  dlr_health_verdict_name(dlr_health_worst(r, (size_t)n)), "checks",
                  list);
    if (j && json_dumpf(j, stdout, JSON_INDENT(2)) == 0)
        putchar('\n');
}

/* --- the two ways ----------------------------------------------------------------- */

static int run_here(const struct check_conf *conf, const struct dlr_health_env *env)
{
    struct dlr_health_result results[DLR_HEALTH_CHECKS_MAX];
    struct dlr_err err = {0};
    int n = dlr_health_run(env, conf->checks ? conf->checks : "all", results,
                           DLR_HEALTH_CHECKS_MAX, &err);

    if (n < 0) {
        fprintf(stderr, "dlrover check: %s\n", err.text);
        return DLR_CLI_USAGE;
    }
    if (conf->json)
        print_json(results, n);
    else
        print_table(results, n);
    return dlr_health_worst(results, (size_t)n) >= DLR_HEALTH_FAIL ? DLR_CLI_FAIL
                                                                   : DLR_CLI_OK;
}

static int run_for_slurm(const struct check_conf *conf,
                         const struct dlr_health_env *env, const char *node)
{
    struct dlr_check_slurm c = {.env = env,
                                .checks = conf->checks ? conf->checks : "quick",
                                .node = node,
                                .bases = history_bases,
                                .may_resume = conf->undrain,
                                .now_s = dlr_wall_ns() / 1000000000};

    if (geteuid() == 0)
        return dlr_check_slurm(&c);
    fputs("dlrover check: --slurm is for root, as whom slurmd runs it\n", stderr);
    return DLR_CLI_OK;
}

static bool says(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc; i++)
        if (dlr_streq(argv[i], word))
            return true;
    return false;
}

int dlr_cli_check(int argc, char **argv)
{
    struct check_conf conf = {0};
    DLR_AUTO_FREE const char **peers = NULL;
    DLR_AUTO_FREE char *peers_text = NULL;
    struct dlr_health_env env;
    char dir[4096], node[64];

    if (says(argc, argv, "--help")) {
        help(stdout);
        return DLR_CLI_OK;
    }
    if (parse(argc, argv, &conf) != DLR_CLI_OK) /* a Prolog must not drain by a slip */
        return says(argc, argv, "--slurm") ? DLR_CLI_OK : DLR_CLI_USAGE;
    if (conf.list)
        return print_checks(conf.json);
    dlr_check_slurm_node(node, sizeof(node));
    if (conf.history)
        return dlr_check_history(node, history_bases);
    dlr_health_env_init(&env);
    if (!conf.slurm && getenv("SLURMD_NODENAME")) /* in a step, not beside salloc */
        dlr_health_env_slurm(&env);
    env.on_demand = true;
    env.root = conf.root ? conf.root : env.root;
    env.disk_path = conf.slurm ? conf.state_dir : state_dir(&conf, dir, sizeof(dir));
    env.shm_need_bytes = conf.need_bytes;
    peers_text = conf.peers ? strdup(conf.peers) : NULL;
    if (peers_text && split(peers_text, &peers) == 0)
        env.peers = peers;
    return conf.slurm ? run_for_slurm(&conf, &env, node) : run_here(&conf, &env);
}
