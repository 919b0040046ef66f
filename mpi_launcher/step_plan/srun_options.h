/* SPDX-License-Identifier: Apache-2.0 */
/* The options of srun (22.05 to 26.05) and what becomes of each when a step is planned
 * anew for a round. One table; tests and the manual walk it.
 */
#ifndef DLR_MPI_LAUNCHER_STEP_PLAN_SRUN_OPTIONS_H
#define DLR_MPI_LAUNCHER_STEP_PLAN_SRUN_OPTIONS_H

#include <stddef.h>

enum dlr_srun_action {
    DLR_SRUN_PASS,   /* as it is */
    DLR_SRUN_DROP,   /* the round decides this itself */
    DLR_SRUN_REFUSE, /* cannot be kept when ranks move: refused by name */
    DLR_SRUN_PLAIN,  /* srun runs unsupervised; why is told when there is one */
    /* Taken apart; the round says it in its own way (step_plan.c). */
    DLR_SRUN_NTASKS,
    DLR_SRUN_NODES,
    DLR_SRUN_PER_NODE, /* tasks for each node */
    DLR_SRUN_NODELIST, /* nodes to be preferred */
    DLR_SRUN_NODEFILE, /* the same, in a file */
    DLR_SRUN_HOSTFILE, /* a node for each task, in a file */
    DLR_SRUN_EXCLUDE,
    DLR_SRUN_EXCLUSIVE, /* of a step: its own CPUs, --exact says as much */
    DLR_SRUN_RELATIVE,
    DLR_SRUN_DISTRIBUTION,
    DLR_SRUN_GPUS, /* a total */
    DLR_SRUN_EXPORT,
    DLR_SRUN_JOBID,
    DLR_SRUN_MEM_PER_CPU, /* a later round says --mem */
    DLR_SRUN_ACTIONS,
};

enum dlr_srun_arg { DLR_SRUN_NO_ARG, DLR_SRUN_ARG, DLR_SRUN_OPTIONAL_ARG };

struct dlr_srun_option {
    const char *name; /* NULL ends the table */
    char letter;      /* '\0': none */
    enum dlr_srun_arg arg;
    enum dlr_srun_action action;
    const char *why; /* of REFUSE: why, and what to write in its place; of PLAIN: why */
};

extern const struct dlr_srun_option dlr_srun_options[];
extern const struct dlr_srun_option dlr_srun_vars[]; /* names of variables */

/* The row of a long name of len bytes, also of a unique abbreviation; NULL: unknown. */
const struct dlr_srun_option *dlr_srun_find(const char *name, size_t len);
const struct dlr_srun_option *dlr_srun_find_letter(char letter);

/* The row of a variable, for an entry "NAME=value" of an environment; NULL: it passes.
 */
const struct dlr_srun_option *dlr_srun_find_var(const char *entry);

#endif
