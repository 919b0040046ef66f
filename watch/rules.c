/* SPDX-License-Identifier: Apache-2.0 */
/* Files of rules: what they say, and whether they mean it. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "watch/rules_state.h"

#define LINE 1024 /* bytes */

static const char *const classes[] = {"hardware", "memory",  "storage", "setup",
                                      "program",  "slurm",   "unknown", "network",
                                      "peer",     "timeout", "killed"};
static const char *const actions[] = {"restart", "elsewhere", "requeue", "memory",
                                      "stop"};
_Static_assert(sizeof(classes) / sizeof(*classes) == DLR_CLASSES, "a name each");
_Static_assert(sizeof(actions) / sizeof(*actions) == DLR_CLASS_ACTIONS, "a name each");

const char *dlr_class_name(enum dlr_class c)
{
    return (unsigned)c < DLR_CLASSES ? classes[c] : NULL;
}

const char *dlr_class_action_name(enum dlr_class_action a)
{
    return (unsigned)a < DLR_CLASS_ACTIONS ? actions[a] : NULL;
}

struct dlr_class_rules *dlr_class_rules_new(void)
{
    return calloc(1, sizeof(struct dlr_class_rules));
}

static void free_texts(struct dlr_rule_texts *texts)
{
    while (texts->n)
        free(texts->list[--texts->n]);
}

void dlr_class_rule_done(struct dlr_class_rule *rule)
{
    for (unsigned i = 0; i < rule->patterns.n; i++)
        dlr_pattern_free(rule->compiled[i]);
    free_texts(&rule->states);
    free_texts(&rule->patterns);
    free_texts(&rule->examples);
    free(rule->advice);
}

static void cut(struct dlr_class_rules *r, size_t n)
{
    while (r->n > n)
        dlr_class_rule_done(&r->list[--r->n]);
}

struct dlr_class_rules *dlr_class_rules_free(struct dlr_class_rules *r)
{
    if (r) {
        cut(r, 0);
        free(r->list);
    }
    free(r);
    return NULL;
}

size_t dlr_class_rules_count(const struct dlr_class_rules *r)
{
    return r->n;
}

unsigned dlr_class_signal(const char *name)
{
    static const struct {
        const char *name;
        unsigned number;
    } signals[] = {
        {"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"ILL", SIGILL},
        {"TRAP", SIGTRAP}, {"ABRT", SIGABRT}, {"BUS", SIGBUS},   {"FPE", SIGFPE},
        {"KILL", SIGKILL}, {"USR1", SIGUSR1}, {"SEGV", SIGSEGV}, {"USR2", SIGUSR2},
        {"PIPE", SIGPIPE}, {"ALRM", SIGALRM}, {"TERM", SIGTERM}, {"XCPU", SIGXCPU},
        {"XFSZ", SIGXFSZ}, {"SYS", SIGSYS},
    };
    const char *word = dlr_after(name, "SIG");

    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
        if (dlr_streq(signals[i].name, word ? word : name))
            return signals[i].number;
    return 0;
}

/* --- the words of a rule ---------------------------------------------------------- */

typedef int (*key_fn)(struct dlr_class_rule *rule, const char *value,
                      struct dlr_err *err);

static int find_word(const char *const *names, unsigned n, const char *value)
{
    for (unsigned i = 0; i < n; i++)
        if (dlr_streq(names[i], value))
            return (int)i;
    return -EINVAL;
}

static int add_number(struct dlr_rule_numbers *numbers, unsigned number,
                      struct dlr_err *err)
{
    if (numbers->n == DLR_RULE_CONDITIONS)
        return dlr_fail(err, -E2BIG, "more than %d of one kind", DLR_RULE_CONDITIONS);
    numbers->list[numbers->n++] = number;
    return 0;
}

static int add_text(struct dlr_rule_texts *texts, const char *text, struct dlr_err *err)
{
    if (texts->n == DLR_RULE_CONDITIONS)
        return dlr_fail(err, -E2BIG, "more than %d of one kind", DLR_RULE_CONDITIONS);
    if (!(texts->list[texts->n] = strdup(text)))
        return dlr_fail(err, -ENOMEM, "out of memory");
    texts->n++;
    return 0;
}

static int set_class(struct dlr_class_rule *rule, const char *value,
                     struct dlr_err *err)
{
    int i = find_word(classes, DLR_CLASSES, value);

    if (i < 0)
        return dlr_fail(err, -EINVAL, "'%.64s' is no class", value);
    rule->class = (enum dlr_class)i;
    rule->has_class = true;
    return 0;
}

static int set_action(struct dlr_class_rule *rule, const char *value,
                      struct dlr_err *err)
{
    int i = find_word(actions, DLR_CLASS_ACTIONS, value);

    if (i < 0)
        return dlr_fail(err, -EINVAL, "'%.64s' is no action", value);
    rule->action = (enum dlr_class_action)i;
    rule->has_action = true;
    return 0;
}

static int set_advice(struct dlr_class_rule *rule, const char *value,
                      struct dlr_err *err)
{
    if (rule->advice)
        return dlr_fail(err, -EINVAL, "a second advice");
    rule->advice = strdup(value);
    return rule->advice ? 0 : dlr_fail(err, -ENOMEM, "out of memory");
}

static int add_code(struct dlr_class_rule *rule, const char *value, struct dlr_err *err)
{
    unsigned code;

    if (dlr_parse_uint(value, 255, &code) < 0)
        return dlr_fail(err, -EINVAL, "'%.64s' is no exit code: 0 to 255", value);
    return add_number(&rule->codes, code, err);
}

static int add_signal(struct dlr_class_rule *rule, const char *value,
                      struct dlr_err *err)
{
    unsigned number = 0;

    if (dlr_parse_uint(value, 64, &number) < 0)
        number = dlr_class_signal(value);
    if (!number)
        return dlr_fail(err, -EINVAL, "'%.64s' is no signal: KILL, SEGV or a number",
                        value);
    return add_number(&rule->signals, number, err);
}

static int add_xid(struct dlr_class_rule *rule, const char *value, struct dlr_err *err)
{
    unsigned xid;

    if (dlr_parse_uint(value, 999, &xid) < 0 || !xid)
        return dlr_fail(err, -EINVAL, "'%.64s' is no XID: 1 to 999", value);
    return add_number(&rule->xids, xid, err);
}

static int set_counter(struct dlr_class_rule *rule, const char *value,
                       struct dlr_err *err)
{
    if (!dlr_streq(value, "oom_kill"))
        return dlr_fail(err, -EINVAL, "'%.64s' is no counter: oom_kill", value);
    rule->oom = true;
    return 0;
}

static int add_state(struct dlr_class_rule *rule, const char *value,
                     struct dlr_err *err)
{
    return add_text(&rule->states, value, err);
}

static int add_example(struct dlr_class_rule *rule, const char *value,
                       struct dlr_err *err)
{
    return add_text(&rule->examples, value, err);
}

static int add_pattern(struct dlr_class_rule *rule, const char *value,
                       struct dlr_err *err)
{
    struct dlr_pattern *p = NULL;
    int rc = dlr_pattern_parse(value, &p, err);

    if (rc == 0)
        rc = add_text(&rule->patterns, value, err);
    if (rc < 0)
        dlr_pattern_free(p);
    else
        rule->compiled[rule->patterns.n - 1] = p;
    return rc;
}

static const struct {
    const char *name;
    key_fn set;
} keys[] = {
    {"class", set_class},     {"action", set_action}, {"advice", set_advice},
    {"code", add_code},       {"signal", add_signal}, {"xid", add_xid},
    {"counter", set_counter}, {"state", add_state},   {"pattern", add_pattern},
    {"example", add_example},
};
#define NKEYS (sizeof(keys) / sizeof(*keys))

/* --- a rule as a whole ------------------------------------------------------------ */

static bool is_name(const char *text)
{
    return *text && strlen(text) < DLR_RULE_NAME &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(text);
}

static struct dlr_class_rule *add_rule(struct dlr_class_rules *r)
{
    struct dlr_class_rule *more = realloc(r->list, (r->n + 1) * sizeof(*more));

    if (!more)
        return NULL;
    r->list = more;
    r->list[r->n] = (struct dlr_class_rule){0};
    return &r->list[r->n++];
}

static int begin_rule(struct dlr_class_rules *r, size_t from, const char *name,
                      unsigned line, struct dlr_err *err)
{
    struct dlr_class_rule *rule;

    if (!is_name(name))
        return dlr_fail(err, -EINVAL,
                        "'%.64s' is no name: small letters, digits and '-'", name);
    for (size_t i = from; i < r->n; i++)
        if (dlr_streq(r->list[i].name, name))
            return dlr_fail(err, -EINVAL, "a second rule '%s'", name);
    if (r->n - from >= DLR_CLASS_RULES_MAX)
        return dlr_fail(err, -E2BIG, "more than %d rules", DLR_CLASS_RULES_MAX);
    rule = add_rule(r);
    if (!rule)
        return dlr_fail(err, -ENOMEM, "out of memory");
    rule->at_line = line;
    return dlr_format(rule->name, sizeof(rule->name), "%s", name);
}

static const char *what_is_missing(const struct dlr_class_rule *rule)
{
    if (!rule->has_class)
        return "class";
    if (!rule->has_action)
        return "action";
    if (!rule->advice)
        return "advice";
    if (rule->patterns.n && !rule->examples.n)
        return "example";
    if (rule->codes.n + rule->signals.n + rule->xids.n + rule->states.n +
                rule->patterns.n ==
            0 &&
        !rule->oom)
        return "condition";
    return NULL;
}

/* What the rule says of itself, with one of its examples. */
static void example_of(const struct dlr_class_rule *rule, unsigned i,
                       struct dlr_ending *ret)
{
    *ret = (struct dlr_ending){
        .code = rule->codes.n ? (int)rule->codes.list[0] : -1,
        .signal = rule->signals.n ? (int)rule->signals.list[0] : 0,
        .xid = rule->xids.n ? rule->xids.list[0] : 0,
        .state = rule->states.n ? rule->states.list[0] : NULL,
        .oom = rule->oom,
        .text = i < rule->examples.n ? rule->examples.list[i] : NULL};
    ret->len = ret->text ? strlen(ret->text) : 0;
}

/* The example is known to its own rule, and to none before it since from. */
static int check_example(const struct dlr_class_rules *r, size_t from, size_t own,
                         unsigned i, struct dlr_err *err)
{
    const struct dlr_class_rule *rule = &r->list[own];
    struct dlr_class_said said;
    struct dlr_ending e;

    example_of(rule, i, &e);
    for (size_t k = from; k < own; k++)
        if (dlr_class_rule_knows(&r->list[k], &e, &said))
            return dlr_fail(err, -EINVAL, "line %u: rule '%s' before it takes '%.128s'",
                            rule->at_line, r->list[k].name,
                            e.text ? e.text : "what it is for");
    if (dlr_class_rule_knows(rule, &e, &said))
        return 0;
    return dlr_fail(err, -EINVAL, "line %u: rule '%s' does not know its example '%s'",
                    rule->at_line, rule->name, e.text);
}

static int check_rules(const struct dlr_class_rules *r, size_t from,
                       struct dlr_err *err)
{
    for (size_t k = from; k < r->n; k++) {
        const char *missing = what_is_missing(&r->list[k]);
        unsigned i = 0;
        int rc;

        if (missing)
            return dlr_fail(err, -EINVAL, "line %u: rule '%s' has no %s",
                            r->list[k].at_line, r->list[k].name, missing);
        do {
            rc = check_example(r, from, k, i, err);
        } while (rc == 0 && ++i < r->list[k].examples.n);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* --- the file --------------------------------------------------------------------- */

static char *skip(char *text)
{
    return text + strspn(text, " \t");
}

static void chop(char *line)
{
    size_t len = strlen(line);

    while (len && strchr(" \t\r", line[len - 1]))
        line[--len] = '\0';
}

static int take_line(struct dlr_class_rules *r, size_t from, char *line,
                     unsigned number, struct dlr_err *err)
{
    char *word = skip(line), *value = word + strcspn(word, " \t");
    size_t i = 0;

    if (!*word || *word == '#')
        return 0;
    if (*value)
        *value++ = '\0';
    value = skip(value);
    if (!*value)
        return dlr_fail(err, -EINVAL, "'%.64s' without a value", word);
    if (dlr_streq(word, "rule"))
        return begin_rule(r, from, value, number, err);
    while (i < NKEYS && !dlr_streq(keys[i].name, word))
        i++;
    if (i == NKEYS)
        return dlr_fail(err, -EINVAL, "'%.64s' is no word of a rule", word);
    if (r->n == from)
        return dlr_fail(err, -EINVAL, "'%s' before any rule", word);
    return keys[i].set(&r->list[r->n - 1], value, err);
}

static int take_text(struct dlr_class_rules *r, const char *text, struct dlr_err *err)
{
    size_t from = r->n;
    unsigned number = 0;
    char line[LINE];

    while (*text) {
        size_t len = strcspn(text, "\n");
        struct dlr_err why;
        int rc;

        number++;
        if (len >= sizeof(line))
            return dlr_fail(err, -EINVAL, "line %u: longer than %d bytes", number,
                            LINE - 1);
        memcpy(line, text, len);
        line[len] = '\0';
        chop(line);
        rc = take_line(r, from, line, number, &why);
        if (rc < 0)
            return dlr_fail(err, rc, "line %u: %s", number, why.text);
        text += len + (text[len] == '\n');
    }
    return check_rules(r, from, err);
}

int dlr_class_rules_parse(struct dlr_class_rules *r, const char *text,
                          struct dlr_err *err)
{
    size_t before = r->n;
    int rc = take_text(r, text, err);

    if (rc < 0)
        cut(r, before);
    return rc;
}
