/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config/failure_rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/config/opt_value.h"

static const char *const actions[] = {"restart", "elsewhere", "requeue", "stop"};

#define NACTIONS (sizeof(actions) / sizeof(actions[0]))

static int parse_class(const char *word, struct dlr_failure_rule *ret)
{
    const char *code = dlr_after(word, "exit-");

    *ret = (struct dlr_failure_rule){.of = DLR_FAILURE_PROCESS};
    if (dlr_streq(word, "process"))
        return 0;
    if (dlr_streq(word, "node")) {
        ret->of = DLR_FAILURE_NODE;
        return 0;
    }
    if (dlr_streq(word, "memory")) {
        ret->of = DLR_FAILURE_MEMORY;
        return 0;
    }
    if (!code || !*code || strlen(code) > 3 ||
        strspn(code, "0123456789") != strlen(code))
        return -EINVAL;
    ret->of = DLR_FAILURE_EXIT;
    for (; *code; code++)
        ret->code = 10 * ret->code + (*code - '0');
    return ret->code >= 1 && ret->code <= 255 ? 0 : -EINVAL;
}

static int parse_rule(char *word, struct dlr_failure_rule *ret)
{
    char *action = strchr(word, ':');
    size_t i = 0;

    if (!action)
        return -EINVAL;
    *action++ = '\0';
    while (i < NACTIONS && !dlr_streq(action, actions[i]))
        i++;
    if (i == NACTIONS || parse_class(word, ret) < 0)
        return -EINVAL;
    ret->action = (enum dlr_failure_action)i;
    return (ret->of == DLR_FAILURE_NODE || ret->of == DLR_FAILURE_MEMORY) &&
                   ret->action == DLR_FAILURE_ELSEWHERE
               ? -EINVAL
               : 0;
}

static const struct dlr_failure_rule *find(const struct dlr_failure_rules *r,
                                           enum dlr_failure_class of, int code)
{
    for (unsigned i = 0; i < r->n; i++)
        if (r->rules[i].of == of && r->rules[i].code == code)
            return &r->rules[i];
    return NULL;
}

int dlr_failure_rules_parse(const char *text, union dlr_opt_value *ret)
{
    struct dlr_failure_rules *r = &ret->failures;

    *r = (struct dlr_failure_rules){0};
    while (*text) {
        struct dlr_failure_rule rule;
        size_t len = strcspn(text, ",");
        char word[32];

        if (r->n == DLR_FAILURE_RULES_MAX || len >= sizeof(word) ||
            (text[len] == ',' && !text[len + 1]))
            return -EINVAL;
        memcpy(word, text, len);
        word[len] = '\0';
        if (parse_rule(word, &rule) < 0 || find(r, rule.of, rule.code))
            return -EINVAL;
        r->rules[r->n++] = rule;
        text += len + (text[len] == ',');
    }
    return 0;
}

int dlr_failure_rules_show(const struct dlr_failure_rules *r, char *buf, size_t size)
{
    size_t at = 0;

    if (!r->n)
        return dlr_format(buf, size, "%s", "");
    for (unsigned i = 0; i < r->n; i++) {
        const struct dlr_failure_rule *rule = &r->rules[i];
        char word[32];
        int rc;

        dlr_format(word, sizeof(word), "exit-%d", rule->code);
        rc = dlr_format(buf + at, size - at, "%s%s:%s", i ? "," : "",
                        rule->of == DLR_FAILURE_NODE      ? "node"
                        : rule->of == DLR_FAILURE_PROCESS ? "process"
                        : rule->of == DLR_FAILURE_MEMORY  ? "memory"
                                                          : word,
                        actions[rule->action]);
        if (rc < 0)
            return rc;
        at += strlen(buf + at);
    }
    return 0;
}

enum dlr_failure_action dlr_failure_rules_exit(const struct dlr_failure_rules *r,
                                               int code)
{
    const struct dlr_failure_rule *rule = find(r, DLR_FAILURE_EXIT, code);

    if (!rule && code == DLR_FAILURE_STOP_CODE)
        return DLR_FAILURE_STOPS;
    if (!rule)
        rule = find(r, DLR_FAILURE_PROCESS, 0);
    return rule ? rule->action : DLR_FAILURE_RESTARTS;
}

enum dlr_failure_action dlr_failure_rules_node(const struct dlr_failure_rules *r)
{
    const struct dlr_failure_rule *rule = find(r, DLR_FAILURE_NODE, 0);

    return rule ? rule->action : DLR_FAILURE_RESTARTS;
}

enum dlr_failure_action dlr_failure_rules_memory(const struct dlr_failure_rules *r)
{
    const struct dlr_failure_rule *rule = find(r, DLR_FAILURE_MEMORY, 0);

    return rule ? rule->action : DLR_FAILURE_REQUEUES;
}

bool dlr_failure_rules_say_memory(const struct dlr_failure_rules *r)
{
    return find(r, DLR_FAILURE_MEMORY, 0);
}
