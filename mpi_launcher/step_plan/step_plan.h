/* SPDX-License-Identifier: Apache-2.0 */
/* The user's step is planned, not pasted: from srun's arguments and the job's
 * environment, what a round's srun looks like. Pure functions; the table is
 * srun_options.c.
 */
#ifndef DLR_MPI_LAUNCHER_STEP_PLAN_STEP_PLAN_H
#define DLR_MPI_LAUNCHER_STEP_PLAN_STEP_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

/* The names in a list of nodes ("n[1-3],n7"), or in a file of such lists; repeated
 * names stay. *ret_names and each name in it are on the heap.
 */
typedef int (*dlr_step_plan_expand_fn)(const char *text, bool is_file,
                                       char ***ret_names, unsigned *ret_n,
                                       struct dlr_err *err);

/* What the allocation offers. */
struct dlr_step_plan_in {
    int argc;
    char **argv;      /* srun's, argv[0] included */
    int words;        /* of them before the program, by srun's own parser; 0: unknown */
    char *const *env; /* srun's environment; NULL: empty */
    unsigned release; /* of Slurm, as 2205: year and month */
    unsigned nnodes;  /* nodes of the allocation */
    char *const *names; /* [nnodes] in the allocation's order */
    unsigned spares;    /* of them kept warm */
    unsigned most;      /* nodes that train at most, 0: no limit */
    unsigned nplaces;   /* of an earlier incarnation of this run; 0: none */
    unsigned world;     /* its tasks; 0: none */
    bool resized;       /* both are fewer than the words say, and right */
    dlr_step_plan_expand_fn expand;
};

struct dlr_step_plan {
    bool tolerant; /* --kill-on-bad-exit=0: a task that fails is to end no other */
    bool overlap;  /* --overlap: it takes what other steps have, too */
    bool by_cpu;   /* its memory is asked for by CPU: */
    bool mem_said; /* it has a word for its memory */
    const char *mem_per_cpu; /* by this word of argv; NULL: by the job's variable */
    /* the job's GPUs lie unevenly: Slurm makes no step of all of them that overlaps */
    bool uneven;
    int64_t limit_ms; /* --time: Slurm ends a step that has run so long; 0: none */
    bool plain;       /* this srun is run as it is */
    char note
        [256]; /* one line for the user about what is not as he may think, "" none */
    char **options; /* words kept and words rewritten, on the heap; NULL-terminated */
    unsigned noptions;
    char **program;   /* points into argv: program and its arguments */
    unsigned nplaces; /* nodes of a round */
    unsigned world;   /* tasks of a round */
    unsigned *tasks;  /* [nplaces] at each place */
    /* [world] of place 0 ascending, then of place 1 ...; NULL: 0, 1 ... */
    unsigned *ranks;
    unsigned *prefer; /* [nprefer] nodes that get a place while they live */
    unsigned nprefer;
    bool first;            /* nobody named them: they are the allocation's first */
    bool ordered;          /* and in this order */
    unsigned char *barred; /* [nnodes] 1: takes no part (--exclude) */
    char shape[320]; /* what tasks find of the layout: "SLURM_DISTRIBUTION=block ..." */
};

static inline bool dlr_step_plan_bars(const struct dlr_step_plan *plan, unsigned node)
{
    return plan->barred && plan->barred[node];
}

/* -EINVAL with one line for the user: what was given, and what would be right. */
int dlr_step_plan_make(const struct dlr_step_plan_in *in, struct dlr_step_plan *ret,
                       struct dlr_err *err);
void dlr_step_plan_done(struct dlr_step_plan *plan);

#define DLR_STEP_PLAN_SHARE 3

/* What a round's srun says, beside the plan's options, of what other steps of the job
 * have. It queues: it takes its resources as the user's srun would, and waits while
 * others have them. Else it overlaps, and its memory must not be asked for by CPU: for
 * that slurmctld subtracts what other steps have all the same, so that the round would
 * wait for one that cannot end, of a dead node. It is the job's then. ret is
 * NULL-terminated; its words are constant or argv's.
 */
void dlr_step_plan_share(const struct dlr_step_plan *plan, bool queues,
                         const char *ret[DLR_STEP_PLAN_SHARE + 1]);

#endif
