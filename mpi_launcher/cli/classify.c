/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover classify: what an ending was, by the rules that a run looks at. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/cli/base/args.h"
#include "mpi_launcher/cli/base/cli.h"
#include "watch/classify.h"

#define SHOWN 512 /* bytes of a line */

struct classify {
    const char *rules, *file;
    bool json, list, ended;
    struct dlr_ending ending;
    char text[DLR_CLASSIFY_TEXT];
};

/* clang-format off */
static const struct dlr_cli_opt opts[] = {
    {"rules", "FILE", "rules of your own, which are looked at first"},
    {"exit", "N", "the exit code"},
    {"signal", "NAME", "the signal that ended it, as KILL or 9"},
    {"state", "STATE", "Slurm's state, as sacct says it: OUT_OF_MEMORY, TIMEOUT"},
    {"xid", "N", "an XID of its GPUs"},
    {"oom", NULL, "the kernel's counter of kills for memory has risen"},
    {"list", NULL, "list the rules as a table"},
    {"json", NULL, "one JSON object"},
    {0},
};
/* clang-format on */
static const struct dlr_cli_cmd classify_cmd = {
    "classify", "[FILE]",
    "Says the class of an ending, what follows from it and what to do.", opts,
    "FILE is what the program wrote to stderr, '-' for standard input; its last 4 KiB\n"
    "count. The exit code is 1 when no rule knows the ending.\n"};

/* --- words ------------------------------------------------------------------------ */

static int set_number(struct dlr_ending *e, const char *name, const char *value,
                      struct dlr_err *err)
{
    unsigned number = 0;
    bool code = dlr_streq(name, "exit"), xid = dlr_streq(name, "xid");

    if (dlr_parse_uint(value,
                       code  ? 255
                       : xid ? 999
                             : 64,
                       &number) < 0 &&
        !code && !xid)
        number = dlr_class_signal(value);
    else if (code && dlr_parse_uint(value, 255, &number) < 0)
        return dlr_fail(err, -EINVAL, "--exit=%.64s: 0 to 255", value);
    if (!code && !number)
        return dlr_fail(err, -EINVAL,
                        xid ? "--xid=%.64s: 1 to 999"
                            : "--signal=%.64s: KILL, SEGV or 1 to 64",
                        value);
    if (code)
        e->code = (int)number;
    else if (xid)
        e->xid = number;
    else
        e->signal = (int)number;
    return 0;
}

static int set(void *arg, const char *name, const char *value, struct dlr_err *err)
{
    struct classify *c = arg;

    if (!name && c->file)
        return dlr_fail(err, -EINVAL, "one file: '%.64s' is one too many", value);
    if (!name)
        c->file = value;
    else if (dlr_streq(name, "rules"))
        c->rules = value;
    else if (dlr_streq(name, "list"))
        c->list = true;
    else if (dlr_streq(name, "json"))
        c->json = true;
    else {
        c->ended = true;
        if (dlr_streq(name, "oom"))
            c->ending.oom = true;
        else if (dlr_streq(name, "state"))
            c->ending.state = value;
        else
            return set_number(&c->ending, name, value, err);
    }
    return 0;
}

/* --- input ------------------------------------------------------------------------ */

static int load_rules(const struct classify *c, struct dlr_class_rules *rules,
                      struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    struct dlr_err why;
    int rc;

    if (c->rules) {
        rc = dlr_file_load(AT_FDCWD, c->rules, DLR_CLASS_RULES_FILE, &text, NULL, err);
        if (rc < 0)
            return rc;
        rc = dlr_class_rules_parse(rules, text, &why);
        if (rc < 0)
            return dlr_fail(err, rc, "'%.200s': %.300s", c->rules, why.text);
    }
    return dlr_class_rules_add_own(rules, err);
}

/* Reads on to the end; buf has the last bytes then. */
static int read_end(FILE *in, char *buf, size_t size, size_t *ret_len)
{
    char piece[8192];
    size_t n, have = 0;

    while ((n = fread(piece, 1, sizeof(piece), in)) > 0) {
        size_t take = n < size ? n : size, drop = 0;

        if (have + take > size)
            drop = have + take - size;
        memmove(buf, buf + drop, have - drop);
        have -= drop;
        memcpy(buf + have, piece + n - take, take);
        have += take;
    }
    *ret_len = have;
    return ferror(in) ? -EIO : 0;
}

static int load_text(struct classify *c, struct dlr_err *err)
{
    DLR_AUTO_FCLOSE FILE *file = NULL;
    FILE *in = stdin;
    int rc;

    if (!c->file)
        return 0;
    if (!dlr_streq(c->file, "-") && !(in = file = fopen(c->file, "re")))
        return dlr_fail(err, -errno, "cannot open '%.200s': %m", c->file);
    rc = read_end(in, c->text, sizeof(c->text), &c->ending.len);
    if (rc < 0)
        return dlr_fail(err, rc, "cannot read '%.200s': %m", c->file);
    c->ending.text = c->text;
    return 0;
}

/* --- output ----------------------------------------------------------------------- */

static void show(const struct classify *c, const struct dlr_class_said *said)
{
    const char *class = dlr_class_name(said->class);
    const char *action = dlr_class_action_name(said->action);
    char line[SHOWN];

    snprintf(line, sizeof(line), "%.*s", (int)(said->len < SHOWN ? said->len : SHOWN),
             said->line ? said->line : "");
    dlr_plain(line);
    if (c->json) {
        json_t *j =
            json_pack("{s:s,s:s,s:s,s:s,s:s}", "class", class, "rule", said->rule,
                      "action", action, "line", line, "advice", said->advice);

        if (!j) /* the line is not UTF-8 */
            j = json_pack("{s:s,s:s,s:s,s:s}", "class", class, "rule", said->rule,
                          "action", action, "advice", said->advice);
        json_dumpf(j, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(j);
        return;
    }
    printf("class   %s\n", class);
    if (said->rule[0])
        printf("rule    %s\n", said->rule);
    if (said->line)
        printf("line    %s\n", line);
    printf("action  %s\nadvice  %s\n", action, said->advice);
}

static int classify(struct classify *c, const struct dlr_class_rules *rules,
                    struct dlr_err *err)
{
    struct dlr_class_said said;
    int rc = load_text(c, err);
    bool known;

    if (rc < 0)
        return rc;
    known = dlr_classify(rules, &c->ending, &said);
    show(c, &said);
    return known ? DLR_CLI_OK : DLR_CLI_FAIL;
}

int dlr_cli_classify(int argc, char **argv)
{
    struct classify c = {.ending.code = -1};
    struct dlr_class_rules *rules;
    struct dlr_err err = {0};
    int code, rc;

    if (!dlr_cli_parse(&classify_cmd, argc, argv, set, &c, &code))
        return code;
    if (!c.list && !c.file && !c.ended) {
        fputs("dlrover classify: a FILE, or --exit, --signal, --state, --xid or --oom "
              "(see 'dlrover help classify')\n",
              stderr);
        return DLR_CLI_USAGE;
    }
    rules = dlr_class_rules_new();
    rc = rules ? load_rules(&c, rules, &err) : dlr_fail(&err, -ENOMEM, "out of memory");
    if (rc == 0 && c.list)
        dlr_class_rules_list(rules, stdout);
    else if (rc == 0)
        rc = classify(&c, rules, &err);
    dlr_class_rules_free(rules);
    if (rc >= 0)
        return rc;
    fprintf(stderr, "dlrover classify: %s\n", err.text);
    return DLR_CLI_USAGE;
}
