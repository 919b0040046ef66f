/* SPDX-License-Identifier: Apache-2.0 */
/* The options of srun (22.05 to 25.11) and what becomes of each when a step is planned anew
 * for a round. One table; tests and the manual walk it.
 */
#ifndef DLR_MPI_LAUNCHER_SRUN_OPTIONS_H
#define DLR_MPI_LAUNCHER_SRUN_OPTIONS_H

#include <stddef.h>

enum dlr_srun_action {
    DLR_SRUN_PASS,     /* as it is */
    DLR_SRUN_DROP,     /* the round decides this itself */
    DLR_SRUN_NTASKS,   /* says the number of tasks */
    DLR_SRUN_NODES,    /* says the number of nodes */
    DLR_SRUN_PER_NODE, /* says tasks for each node */
    DLR_SRUN_REFUSE,   /* cannot be kept when ranks move: refused by name */
    DLR_SRUN_PLAIN,    /* starts no step: srun runs unsupervised */
};

enum dlr_srun_arg { DLR_SRUN_NO_ARG, DLR_SRUN_ARG, DLR_SRUN_OPTIONAL_ARG };

struct dlr_srun_option {
    const char *name; /* NULL ends the table */
    char letter;      /* '\0': none */
    enum dlr_srun_arg arg;
    enum dlr_srun_action action;
    const char *why; /* of REFUSE: what to write in its place */
};

extern const struct dlr_srun_option dlr_srun_options[];

/* The row of a long name of len bytes, also of a unique abbreviation; NULL: unknown. */
const struct dlr_srun_option *dlr_srun_find(const char *name, size_t len);
const struct dlr_srun_option *dlr_srun_find_letter(char letter);

#endif
