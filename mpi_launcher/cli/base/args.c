/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/cli/base/args.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/cli/base/cli.h"

#define MAX_OPTS 16
#define MAX_NAME 32 /* of an option: a longer word is nobody's slip of one */

static const struct dlr_cli_opt help_opt = {"help", NULL, "this text"};

static void print_opt(const struct dlr_cli_opt *opt, int width, FILE *out)
{
    int used = fprintf(out, "  --%s%s%s", opt->name, opt->arg ? "=" : "",
                       opt->arg ? opt->arg : "");

    fprintf(out, "%*s%s\n", width - used, "", opt->help);
}

static void print_help(const struct dlr_cli_cmd *cmd, FILE *out)
{
    int width = 8;

    for (const struct dlr_cli_opt *o = cmd->opts; o->name; o++) {
        int n = (int)(strlen(o->name) + (o->arg ? strlen(o->arg) + 1 : 0));

        width = n > width ? n : width;
    }
    fprintf(out, "usage: dlrover %s [OPTION...]%s%s\n\n%s\n\n", cmd->name,
            cmd->words[0] ? " " : "", cmd->words, cmd->summary);
    for (const struct dlr_cli_opt *o = cmd->opts; o->name; o++)
        print_opt(o, width + 6, out);
    print_opt(&help_opt, width + 6, out);
    if (cmd->notes)
        fprintf(out, "\n%s", cmd->notes);
}

/* The table as getopt_long(3) wants it; *ret_names: the same names for suggestions. */
static size_t long_options(const struct dlr_cli_cmd *cmd, struct option *longs,
                           const char **names)
{
    size_t n = 0;

    for (const struct dlr_cli_opt *o = cmd->opts; o->name && n < MAX_OPTS - 1;
         o++, n++) {
        names[n] = o->name;
        longs[n] = (struct option){o->name, o->arg ? required_argument : no_argument,
                                   NULL, (int)n + 256};
    }
    names[n] = help_opt.name;
    longs[n] = (struct option){help_opt.name, no_argument, NULL, 'h'};
    longs[n + 1] = (struct option){0};
    return n + 1;
}

static int wrong(const struct dlr_cli_cmd *cmd, const char *text)
{
    fprintf(stderr, "dlrover %s: %s (see 'dlrover help %s')\n", cmd->name, text,
            cmd->name);
    return DLR_CLI_USAGE;
}

static int wrong_option(const struct dlr_cli_cmd *cmd, const char *word, bool no_value,
                        const char *const *names, size_t n)
{
    char name[MAX_NAME + 2] = "", text[512];
    const char *near;

    if (no_value) {
        snprintf(text, sizeof(text), "'%.200s' needs a value", word);
        return wrong(cmd, text);
    }
    if (dlr_after(word, "--"))
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    near = name[0] ? dlr_nearest(name, names, n) : NULL;
    if (near && dlr_streq(near, name))
        snprintf(text, sizeof(text), "'--%s' takes no value", name);
    else if (near)
        snprintf(text, sizeof(text), "unknown option '%.200s', did you mean '--%s'?",
                 word, near);
    else
        snprintf(text, sizeof(text), "unknown option '%.200s'", word);
    return wrong(cmd, text);
}

bool dlr_cli_parse(const struct dlr_cli_cmd *cmd, int argc, char **argv,
                   dlr_cli_set_fn set, void *arg, int *ret_code)
{
    struct option longs[MAX_OPTS + 1];
    const char *names[MAX_OPTS];
    size_t n = long_options(cmd, longs, names);
    struct dlr_err err = {0};
    int c, rc = 0;

    optind = 0; /* start anew: another command may have been parsed before */
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", longs, NULL)) != -1 && rc == 0) {
        if (c == 'h') {
            print_help(cmd, stdout);
            *ret_code = DLR_CLI_OK;
            return false;
        }
        if (c == '?' || c == ':') {
            *ret_code = wrong_option(cmd, argv[optind - 1], c == ':', names, n);
            return false;
        }
        rc = set(arg, names[c - 256], optarg, &err);
    }
    for (int i = optind; i < argc && rc == 0; i++)
        rc = set(arg, NULL, argv[i], &err);
    if (rc == 0)
        return true;
    *ret_code = wrong(cmd, err.text);
    return false;
}
