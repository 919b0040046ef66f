/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover: what users and administrators type. Finds the subcommand and calls it. */
#include "mpi_launcher/cli/base/cli.h"

#include <errno.h>
#include <jansson.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "common/base/str.h"
#include "common/config/job_config.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/chunk/chunk.h"
#include "mpi_launcher/cli/metrics/metrics.h"

/* Both are read by the Makefile: Slurm's SLURM_VERSION_NUMBER (0x160508 is 22.05.8),
 * UCX's text.
 */
#ifndef DLR_SLURM_BUILT
#define DLR_SLURM_BUILT 0
#endif
#ifndef DLR_UCX_BUILT
#define DLR_UCX_BUILT ""
#endif

/* --- version ---------------------------------------------------------------------- */

static const struct dlr_cli_opt version_opts[] = {
    {"json", NULL, "one JSON object"},
    {0},
};
static const struct dlr_cli_cmd version_cmd = {
    "version", "", "Prints the versions of the suite and of what it was built with.",
    version_opts,
    "The plugin loads only into the Slurm release (major.minor) it was built for.\n"};

static int set_version(void *arg, const char *name, const char *value,
                       struct dlr_err *err)
{
    if (!name)
        return dlr_fail(err, -EINVAL, "'%.64s' is one argument too many", value);
    *(bool *)arg = true;
    return 0;
}

static json_t *text_or_null(const char *text)
{
    return text[0] ? json_string(text) : json_null();
}

static void slurm_text(unsigned number, char *buf, size_t size)
{
    buf[0] = '\0';
    if (number)
        snprintf(buf, size, "%u.%02u.%u", number >> 16 & 0xff, number >> 8 & 0xff,
                 number & 0xff);
}

static int version(int argc, char **argv)
{
    static const char *const unknown = "unknown";
    char slurm[32];
    bool json = false;
    int code;

    slurm_text(DLR_SLURM_BUILT, slurm, sizeof(slurm));
    if (!dlr_cli_parse(&version_cmd, argc, argv, set_version, &json, &code))
        return code;
    if (json) {
        json_t *j = json_pack("{s:s,s:o,s:o}", "dlrover", DLR_VERSION, "slurm",
                              text_or_null(slurm), "ucx", text_or_null(DLR_UCX_BUILT));

        json_dumpf(j, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(j);
        return DLR_CLI_OK;
    }
    printf("dlrover    %s\n", DLR_VERSION);
    printf("for Slurm  %s\n", slurm[0] ? slurm : unknown);
    printf("with UCX   %s\n", DLR_UCX_BUILT[0] ? DLR_UCX_BUILT : unknown);
    return DLR_CLI_OK;
}

/* --- commands --------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"status", dlr_cli_status,
     "whether a job goes on: state, steps, checkpoint, nodes"},
    {"events", dlr_cli_events, "what happened to a job, one line for each event"},
    {"report", dlr_cli_report,
     "what became of a run, on one page: time, failures, checkpoints"},
    {"trace", dlr_cli_trace, "a run on one clock, for ui.perfetto.dev"},
    {"evidence", dlr_cli_evidence, "what a run has left, in one archive to send"},
    {"metrics", dlr_cli_metrics,
     "a run's numbers for Prometheus: once, in a file, over HTTP"},
    {"ckpt", dlr_cli_ckpt, "snapshots that a run has on the disk: list, check, export"},
    {"topo", dlr_cli_topo,
     "the switches above nodes: a job's with ranks and spares, or the cluster's"},
    {"stacks", dlr_cli_stacks,
     "where every thread of a job is, merged over all ranks: \"my job hangs\""},
    {"check", dlr_cli_check, "the health checks, on this node"},
    {"doctor", dlr_cli_doctor,
     "what of the installation is not as it should be, and what to do"},
    {"simulate", dlr_cli_simulate,
     "what share of its time a job would train, on nodes that fail"},
    {"classify", dlr_cli_classify,
     "what a program's last lines and its code say of why it ended"},
    {"chunk", dlr_cli_chunk,
     "whether a model that is larger than its GPUs fits into a job"},
    {"version", version, "versions of the suite and of what it was built with"},
};
#define NCOMMANDS (sizeof(commands) / sizeof(*commands))

static void help(FILE *out)
{
    fputs("usage: dlrover COMMAND [OPTION...] [WORD...]\n\n", out);
    for (size_t i = 0; i < NCOMMANDS; i++)
        fprintf(out, "  %-10s%s\n", commands[i].name, commands[i].help);
    fputs(
        "  help      this text; 'dlrover help COMMAND': about one command;\n"
        "            'dlrover help settings': what --dlrover-set takes\n\n"
        "A job is supervised when it is submitted with --dlrover=on: see dlrover(7).\n",
        out);
}

static int find(const char *word)
{
    const char *names[NCOMMANDS + 1], *near;

    for (size_t i = 0; i < NCOMMANDS; i++) {
        if (dlr_streq(commands[i].name, word))
            return (int)i;
        names[i] = commands[i].name;
    }
    names[NCOMMANDS] = "help";
    near = dlr_nearest(word, names, NCOMMANDS + 1);
    if (near)
        fprintf(stderr, "dlrover: unknown command '%.64s', did you mean '%s'?\n", word,
                near);
    else
        fprintf(stderr, "dlrover: unknown command '%.64s' (see 'dlrover help')\n",
                word);
    return -ENOENT;
}

static int help_on_settings(void)
{
    puts("Settings of a supervised job, for --dlrover-set=KEY=VALUE[,KEY=VALUE]... of "
         "sbatch, "
         "salloc and srun,\nDLROVER_SET in the environment, or KEY=VALUE in "
         "plugstack.conf, "
         "where the site sets them.\nA TIME is 500ms, 30s, 2m or 1h, a SIZE 64k, 2m or "
         "4g. What each "
         "does in full: spank_dlrover(8).\n");
    dlr_opt_table(dlr_job_config_opts + DLR_JOB_CONFIG_OPTIONS, stdout);
    return DLR_CLI_OK;
}

static int help_on(const char *word)
{
    static char help_word[] = "--help";
    char name[32];
    char *argv[] = {name, help_word, NULL};
    int i;

    if (dlr_streq(word, "settings"))
        return help_on_settings();
    if ((i = find(word)) < 0)
        return DLR_CLI_USAGE;
    snprintf(name, sizeof(name), "%s", commands[i].name);
    return commands[i].run(2, argv);
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    int i;

    setlocale(LC_TIME, "C");
    if (!word) {
        help(stderr);
        return DLR_CLI_USAGE;
    }
    if (dlr_streq(word, "--version"))
        word = "version";
    if (dlr_streq(word, "help") && argc > 2)
        return help_on(argv[2]);
    if (dlr_streq(word, "help") || dlr_streq(word, "--help") || dlr_streq(word, "-h")) {
        help(stdout);
        return DLR_CLI_OK;
    }
    if ((i = find(word)) < 0)
        return DLR_CLI_USAGE;
    return commands[i].run(argc - 1, argv + 1);
}
