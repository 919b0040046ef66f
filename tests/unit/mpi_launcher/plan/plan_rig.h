/* SPDX-License-Identifier: Apache-2.0 */
/* Plans from small texts. A node is written
 *     leaf.name[!|!!][?a,b][=RANK:ROUND/STEP ...]
 * "!" fails a check, "!!" one for a drain, "?a,b" cannot reach a and b, "=..." lists
 * copies it holds; nodes stand apart by ";".
 */
#ifndef DLR_TESTS_MPI_LAUNCHER_PLAN_PLAN_RIG_H
#define DLR_TESTS_MPI_LAUNCHER_PLAN_PLAN_RIG_H

#include "mpi_launcher/plan/plan.h"

#define PLAN_RIG_MAX 16

struct plan_rig {
    struct dlr_plan_report reports[PLAN_RIG_MAX];
    unsigned n;
    struct dlr_plan_former_place former[PLAN_RIG_MAX];
    unsigned tasks[PLAN_RIG_MAX];
    struct dlr_plan_want want;
};

/* Places with one task each. former: "l0.n1>n3 l1.n2>n4", each node and its partner;
 * NULL for a first round.
 */
void plan_rig_setup(struct plan_rig *w, unsigned nplaces, const char *nodes,
                    const char *former);
void plan_rig_teardown(struct plan_rig *w);

/* Appends text, after sep unless buf is empty. */
void plan_rig_add(char *buf, size_t size, const char *sep, const char *text);

/* "n1 n2 | n3 | n4: why": places, spares, who is out. */
void plan_rig_describe(const struct dlr_plan *plan, char *buf, size_t size);

/* "4/120 local n2 /file": version, then each rank's source; "none". */
void plan_rig_describe_restore(const struct dlr_plan *plan, char *buf, size_t size);

/* The plan as JSON with sorted keys, on the heap. */
char *plan_rig_text(const struct dlr_plan *plan, const struct dlr_err *err);

#endif
