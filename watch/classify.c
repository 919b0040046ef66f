/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/classify.h"

#include <string.h>

#include "common/base/str.h"
#include "watch/rules_state.h"

static bool is_of(const struct dlr_rule_numbers *numbers, unsigned number)
{
    for (unsigned i = 0; i < numbers->n; i++)
        if (numbers->list[i] == number)
            return true;
    return !numbers->n;
}

static bool is_state(const struct dlr_rule_texts *states, const char *state)
{
    for (unsigned i = 0; i < states->n; i++)
        if (dlr_streq(states->list[i], state))
            return true;
    return !states->n;
}

/* The first line of text in which one of the patterns is. */
static bool find_line(const struct dlr_class_rule *rule, const char *text, size_t size,
                      struct dlr_class_said *ret)
{
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t len = end ? (size_t)(end - text - at) : size - at;

        for (unsigned i = 0; i < rule->patterns.n; i++)
            if (dlr_pattern_find(rule->compiled[i], text + at, len)) {
                ret->line = text + at;
                ret->len = len;
                return true;
            }
        at += len + 1;
    }
    return false;
}

bool dlr_class_rule_knows(const struct dlr_class_rule *rule, const struct dlr_ending *e,
                          struct dlr_class_said *ret)
{
    size_t cut = e->len > DLR_CLASSIFY_TEXT ? e->len - DLR_CLASSIFY_TEXT : 0;
    struct dlr_class_said said = {.rule = rule->name,
                                  .class = rule->class,
                                  .action = rule->action,
                                  .advice = rule->advice};

    if ((rule->oom && !e->oom) || !is_state(&rule->states, e->state) ||
        (rule->codes.n && (e->code < 0 || !is_of(&rule->codes, (unsigned)e->code))) ||
        (rule->signals.n &&
         (e->signal <= 0 || !is_of(&rule->signals, (unsigned)e->signal))) ||
        (rule->xids.n && (!e->xid || !is_of(&rule->xids, e->xid))))
        return false;
    if (rule->patterns.n &&
        (!e->text || !find_line(rule, e->text + cut, e->len - cut, &said)))
        return false;
    *ret = said;
    return true;
}

bool dlr_classify(const struct dlr_class_rules *r, const struct dlr_ending *e,
                  struct dlr_class_said *ret)
{
    for (size_t i = 0; i < r->n; i++)
        if (dlr_class_rule_knows(&r->list[i], e, ret)) {
            ret->at = i;
            return true;
        }
    *ret = (struct dlr_class_said){
        .rule = "",
        .class = DLR_CLASS_UNKNOWN,
        .action = DLR_CLASS_RESTART,
        .advice = "No rule knows these lines. What the program says before it ends is "
                  "all there is; a rule of your own can name it (dlr_failures(5))."};
    return false;
}

bool dlr_class_before(enum dlr_class a, int64_t a_ms, enum dlr_class b, int64_t b_ms)
{
    int64_t apart = a_ms < b_ms ? b_ms - a_ms : a_ms - b_ms;

    return a == b || apart > DLR_CLASS_ORIGIN_MS ? a_ms < b_ms : a < b;
}
