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
    int64_t at_ms; /* by its node's wall clock */
};

/* A task has failed, not for our doing. */
void dlr_sup_note_failure(struct dlr_sup_rounds *rounds, const struct dlr_failure *f);
/* The round's failure is set, and becomes the one that caused it. False: no rule knows
 * what it was; *ret is borrowed until the round's lines are gone.
 */
bool dlr_sup_first_cause(struct dlr_sup_rounds *rounds, struct dlr_class_said *ret);

#endif
