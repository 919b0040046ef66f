/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of classes as they are kept, for the sources of this folder. */
#ifndef DLR_WATCH_RULES_STATE_H
#define DLR_WATCH_RULES_STATE_H

#include "watch/classify.h"
#include "watch/pattern.h"

#define DLR_RULE_CONDITIONS 16 /* of one kind */
#define DLR_RULE_NAME 65       /* bytes */

/* Numbers or words of which one must be there; n 0: any will do. */
struct dlr_rule_numbers {
    unsigned n;
    unsigned list[DLR_RULE_CONDITIONS];
};
struct dlr_rule_texts {
    unsigned n;
    char *list[DLR_RULE_CONDITIONS];
};

struct dlr_class_rule {
    char name[DLR_RULE_NAME], *advice;
    bool has_class, has_action, oom;
    enum dlr_class class;
    enum dlr_class_action action;
    struct dlr_rule_numbers codes, signals, xids;
    struct dlr_rule_texts states, patterns, examples;
    struct dlr_pattern *compiled[DLR_RULE_CONDITIONS];
    unsigned at_line;
};

struct dlr_class_rules {
    struct dlr_class_rule *list;
    size_t n;
};

/* rules.c */
void dlr_class_rule_done(struct dlr_class_rule *rule);

/* classify.c: does the rule know it? */
bool dlr_class_rule_knows(const struct dlr_class_rule *rule, const struct dlr_ending *e,
                          struct dlr_class_said *ret);

#endif
