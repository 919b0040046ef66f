/* SPDX-License-Identifier: Apache-2.0 */
/* The user's step is planned, not pasted: from srun's words and the job's environment, what
 * a round's srun looks like. Pure functions; the table is srun_options.c.
 */
#ifndef DLR_MPI_LAUNCHER_STEPPLAN_H
#define DLR_MPI_LAUNCHER_STEPPLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

/* What the allocation offers. */
struct dlr_stepplan_in {
    int argc;
    char **argv;          /* srun's, argv[0] included */
    unsigned nnodes;      /* nodes of the allocation */
    unsigned spares;      /* of them kept warm */
    unsigned nplaces;     /* of an earlier incarnation of this run; 0: none */
    unsigned world;       /* its tasks; 0: none */
    const char *ntasks;   /* SLURM_NTASKS or NULL */
    const char *per_node; /* SLURM_NTASKS_PER_NODE or NULL */
};

struct dlr_stepplan {
    bool plain;     /* this srun starts no step: run it as it is */
    char **options; /* words kept, on the heap; NULL-terminated */
    unsigned noptions;
    char **program;   /* points into argv: program and its arguments */
    unsigned nplaces; /* nodes of a round */
    unsigned world;   /* tasks of a round */
    unsigned *tasks;  /* [nplaces] at each place, block distribution */
};

/* -EINVAL with one line for the user: what was given, and what would be right. */
int dlr_stepplan_make(const struct dlr_stepplan_in *in, struct dlr_stepplan *ret,
                      struct dlr_err *err);
void dlr_stepplan_done(struct dlr_stepplan *plan);

#endif
