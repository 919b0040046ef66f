/* SPDX-License-Identifier: Apache-2.0 */
/* Reads srun's arguments and variables into values by what they say. Private to the
 * step plan.
 */
#ifndef DLR_MPI_LAUNCHER_STEP_PLAN_READ_H
#define DLR_MPI_LAUNCHER_STEP_PLAN_READ_H

#include <stdbool.h>

#define DLR_STEP_PLAN_TASKS 1048576u

#include "common/base/err.h"
#include "mpi_launcher/step_plan/srun_options.h"
#include "mpi_launcher/step_plan/step_plan.h"

struct dlr_step_plan_read {
    const struct dlr_step_plan_in *in;
    struct dlr_step_plan *plan;
    struct dlr_err *err;
    /* By action: the last word on the command line, else the variable's value, else
     * NULL.
     */
    const char *value[DLR_SRUN_ACTIONS];
    bool by_env[DLR_SRUN_ACTIONS]; /* it is a variable's */
    const char *cpus;              /* --cpus-per-task, or NULL */
    char distribution[48];         /* as srun itself would call it */
    unsigned least;                /* nodes: the lower end of a range, 0 none */
    unsigned plane;                /* 0: none */
    bool gpus_said; /* the command line asks for generic resources itself */
    bool mem_said;  /* and for memory, by node or by GPU */
    bool counted;   /* slurmctld itself would have found the number of tasks */
    bool bad_exit;  /* the command line says what a task's failure does */
    int at;
};

/* Fills value and by_env, and of the plan: plain, note, options, program.
 * Foreign bytes: fuzz target step_plan.
 */
int dlr_step_plan_read(struct dlr_step_plan_read *r);

/* Adds a word to the plan's options. */
int dlr_step_plan_keep(struct dlr_step_plan_read *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A number from 1 on, or -EINVAL that names what. */
int dlr_step_plan_number(struct dlr_step_plan_read *r, const char *what,
                         const char *text, unsigned *ret);

/* Nodes that take no part. */
unsigned dlr_step_plan_barred(const struct dlr_step_plan_read *r);

/* How many nodes may train: neither spare nor barred, and no more than --dlrover-nodes
 * allows.
 */
unsigned dlr_step_plan_most(const struct dlr_step_plan_read *r);

/* -EINVAL: what=text asks for more than the most nodes there are. */
int dlr_step_plan_too_many(struct dlr_step_plan_read *r, const char *what,
                           const char *text, unsigned most);

/* nodes.c: nodes by name before the sizes are known, ranks on nodes after it.
 * Foreign bytes: fuzz target step_plan.
 */
int dlr_step_plan_read_exclude(struct dlr_step_plan_read *r);
/* Foreign bytes: fuzz target step_plan. */
int dlr_step_plan_read_prefer(struct dlr_step_plan_read *r);
int dlr_step_plan_check_prefer(struct dlr_step_plan_read *r);
int dlr_step_plan_choose_nodes(struct dlr_step_plan_read *r);

/* ranks.c: tasks and ranks of the places. Listed: prefer has a node for each rank. */
int dlr_step_plan_node_is_listed(struct dlr_step_plan_read *r);
int dlr_step_plan_spread(struct dlr_step_plan_read *r);
int dlr_step_plan_distribute(struct dlr_step_plan_read *r);

#endif
