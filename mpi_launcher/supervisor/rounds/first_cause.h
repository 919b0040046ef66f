/* SPDX-License-Identifier: Apache-2.0 */
/* The failures of a round, and which of them was the cause. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_ROUNDS_FIRST_CAUSE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_ROUNDS_FIRST_CAUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "watch/classify.h"

#define DLR_FAILURES_KEPT 64 /* of a round, those that are heard first */

struct dlr_sup_rounds;

/* A task's; the one that came first is told when the round is cleared. */
struct dlr_failure {
    bool set, told;
    unsigned rank, node;
    int status;
    bool starved;  /* a process of its cgroup was killed for want of memory */
    int64_t at_ms; /* by its node's wall clock */
};

/* A task has failed, not for our doing. */
void dlr_sup_note_failure(struct dlr_sup_rounds *rounds, const struct dlr_failure *f);
/* The round's failure is set, and becomes the one that caused it. False: no rule knows
 * what it was; *ret is borrowed until the round's lines are gone.
 */
bool dlr_sup_first_cause(struct dlr_sup_rounds *rounds, struct dlr_class_said *ret);
/* Is what it said last to be carried out? Of the user's rules all that can be is. */
bool dlr_sup_class_sits_out(const struct dlr_sup_rounds *rounds,
                            const struct dlr_class_said *said);
void dlr_sup_note_class(struct dlr_sup_rounds *rounds, const struct dlr_failure *f,
                        const struct dlr_class_said *said);

/* Reads the file of rules of the setting. -errno and what is wrong where. Blocks as long
 * as the file system does.
 */
int dlr_sup_users_rules(struct dlr_sup_rounds *rounds, struct dlr_err *err);
/* A rule of the user's says that a failure like the round's ends the run; into buf, why.
 */
bool dlr_sup_rule_stops(const struct dlr_sup_rounds *rounds, char *buf, size_t size);
/* A failure like the round's would not have come with more memory: by the kernel's own
 * count, or by a rule of the user's; into buf, whose.
 */
bool dlr_sup_starves(const struct dlr_sup_rounds *rounds, char *buf, size_t size);

#endif
