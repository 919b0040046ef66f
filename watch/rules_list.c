/* SPDX-License-Identifier: Apache-2.0 */
/* Rules as rows of a table. */
#include "watch/rules_state.h"

static void put_numbers(const struct dlr_rule_numbers *numbers, const char *what,
                        const char **between, FILE *out)
{
    for (unsigned i = 0; i < numbers->n; i++) {
        if (i == 0)
            fprintf(out, "%s%s ", *between, what);
        fprintf(out, "%s%u", i ? ", " : "", numbers->list[i]);
        *between = "; ";
    }
}

static void put_texts(const struct dlr_rule_texts *texts, const char *what,
                      const char **between, FILE *out)
{
    for (unsigned i = 0; i < texts->n; i++) {
        if (i == 0)
            fprintf(out, "%s%s ", *between, what);
        fprintf(out, "%s%s", i ? ", " : "", texts->list[i]);
        *between = "; ";
    }
}

static void put_conditions(const struct dlr_class_rule *rule, FILE *out)
{
    const char *between = "";

    put_numbers(&rule->codes, "code", &between, out);
    put_numbers(&rule->signals, "signal", &between, out);
    put_numbers(&rule->xids, "XID", &between, out);
    put_texts(&rule->states, "Slurm's state", &between, out);
    if (rule->oom) {
        fprintf(out, "%scounter oom_kill", between);
        between = "; ";
    }
    if (rule->patterns.n)
        fprintf(out, "%sa line like `%s`", between, rule->examples.list[0]);
}

void dlr_class_rules_list(const struct dlr_class_rules *r, FILE *out)
{
    fputs("| rule | class, action | known by | what to do |\n|---|---|---|---|\n", out);
    for (size_t i = 0; i < r->n; i++) {
        const struct dlr_class_rule *rule = &r->list[i];

        fprintf(out, "| %s | %s, %s | ", rule->name, dlr_class_name(rule->class),
                dlr_class_action_name(rule->action));
        put_conditions(rule, out);
        fprintf(out, " | %s |\n", rule->advice);
    }
}
