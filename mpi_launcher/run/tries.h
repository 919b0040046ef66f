/* SPDX-License-Identifier: Apache-2.0 */
/* Equal sruns of a job, one after the other: which of them are runs of their own, and
 * which are tries of one run. A try that did not end with 0 is followed by the next one
 * of the same run.
 */
#ifndef DLR_MPI_LAUNCHER_RUN_TRIES_H
#define DLR_MPI_LAUNCHER_RUN_TRIES_H

#include <stdbool.h>

#define DLR_TRIES_KINDS 32
#define DLR_TRIES_ENDED 143 /* told of a try that was ended from outside */

/* Exit codes, in their order: equal ones that follow each other are counted. */
struct dlr_tries {
    unsigned n;
    struct {
        unsigned code, times;
    } kinds[DLR_TRIES_KINDS];
};

/* A run that has been. */
struct dlr_tries_run {
    struct dlr_tries before; /* its tries, but the newest */
    bool ended;              /* the newest has, by itself, */
    unsigned code;           /* with this */
    bool same;  /* it was begun by the same command as the srun that asks */
    bool again; /* the job was over and is run once more: nothing is told again */
};

enum dlr_tries_place {
    DLR_TRIES_REPORTED, /* a try before the newest: its code is told again */
    DLR_TRIES_NEWEST,   /* the newest try, which goes on or is told again */
    DLR_TRIES_NEXT,     /* one more */
    DLR_TRIES_LATER,    /* none: it belongs to a later run */
};

/* Where the nth srun (from 0) since the run's first belongs. has_later: the job has a
 * later run of equal words.
 */
enum dlr_tries_place dlr_tries_find(const struct dlr_tries_run *run, unsigned nth,
                                    bool has_later);

/* One more has ended. With too many kinds the last one counts it. */
void dlr_tries_add(struct dlr_tries *t, unsigned code, unsigned times);

/* The code of the nth, which must be there. */
unsigned dlr_tries_code(const struct dlr_tries *t, unsigned nth);

#endif
