/* SPDX-License-Identifier: Apache-2.0 */
/* What the user wants done about failures: classes, each with an action. */
#ifndef DLR_COMMON_CONFIG_FAILURE_RULES_H
#define DLR_COMMON_CONFIG_FAILURE_RULES_H

#include <stdbool.h>
#include <stddef.h>

#define DLR_FAILURE_RULES_MAX 16
#define DLR_FAILURE_STOP_CODE 93 /* stops the run where no rule says otherwise */

enum dlr_failure_class {
    DLR_FAILURE_PROCESS, /* a task of the program failed, whatever its code */
    DLR_FAILURE_EXIT,    /* it ended with this code; 128 and a signal's number */
    DLR_FAILURE_NODE,    /* a node was lost */
    DLR_FAILURE_MEMORY,  /* a task failed since it was given too little memory */
};

enum dlr_failure_action {
    DLR_FAILURE_RESTARTS,  /* a new round */
    DLR_FAILURE_ELSEWHERE, /* the same, and the node where it failed first sits out */
    DLR_FAILURE_REQUEUES,  /* the job goes back into the queue; for want of memory:
                            * with more, and a new round where it gets none */
    DLR_FAILURE_STOPS,     /* the run ends, with the program's code */
};

struct dlr_failure_rules {
    unsigned n;
    struct dlr_failure_rule {
        enum dlr_failure_class of;
        int code; /* of DLR_FAILURE_EXIT */
        enum dlr_failure_action action;
    } rules[DLR_FAILURE_RULES_MAX];
};

#define DLR_FAILURE_RULES_WANT                                                         \
    "CLASS:ACTION[,...], such as 'exit-17:stop,node:requeue', of process and exit-N "  \
    "with restart, elsewhere, requeue or stop, of node and memory without elsewhere"

union dlr_opt_value;

/* CLASS:ACTION[,CLASS:ACTION]...; "" has none. -EINVAL, also for a class
 * that is there twice. Foreign bytes: fuzz target opt.
 */
int dlr_failure_rules_parse(const char *text, union dlr_opt_value *ret);
int dlr_failure_rules_show(const struct dlr_failure_rules *r, char *buf, size_t size);

/* What is to be done when a task ended with a code other than 0, or a node was lost. */
enum dlr_failure_action dlr_failure_rules_exit(const struct dlr_failure_rules *r,
                                               int code);
enum dlr_failure_action dlr_failure_rules_node(const struct dlr_failure_rules *r);
/* When the kernel has killed a process of it for want of memory, and no rule for its
 * code says that there is no other round.
 */
enum dlr_failure_action dlr_failure_rules_memory(const struct dlr_failure_rules *r);
/* Is there a rule for it? */
bool dlr_failure_rules_say_memory(const struct dlr_failure_rules *r);

#endif
