/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of one task: the round it belongs to, not the allocation it runs in.
 */
#ifndef DLR_SPANK_TASK_TASK_ENV_H
#define DLR_SPANK_TASK_TASK_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

/* What the supervisor says of a round in the environment of its step; strings belong to
 * that environment.
 */
struct dlr_task_round {
    unsigned round;     /* DLROVER_ROUND */
    const char *socket; /* DLROVER_AGENT_SOCKET */
    const char *nodes;  /* DLROVER_ROUND_NODES: names in rank order, "n3,n1" */
    const char *tasks;  /* DLROVER_TASKS: tasks of each of them, "2,2" */
    unsigned fd;    /* the same socket as a descriptor of the task, 0: there is none */
    bool per_node;  /* DLROVER_PER_NODE: the user asked for tasks per node */
    bool dealt;     /* DLROVER_DEALT: the ranks of a node are not one run */
    bool own_store; /* nobody has said how torchrun's workers meet: see task_env.c */
    unsigned port;  /* DLROVER_MASTER_PORT, 0 when absent */
    const char *shape; /* DLROVER_SHAPE: as the user's srun would say, or NULL */
};

/* What Slurm says of the task. */
struct dlr_task_self {
    unsigned rank;
    unsigned world;    /* tasks of the step */
    const char *node;  /* SLURMD_NODENAME, NULL when absent */
    const char *local; /* SLURM_LOCALID, NULL when absent */
};

struct dlr_task_var {
    const char *name;
    char *value; /* on the heap; NULL: the variable is taken out */
};

#define DLR_TASK_VARS 48

struct dlr_task_env {
    unsigned local,
        local_world; /* which of its node's tasks of the round, of how many */
    unsigned count;
    struct dlr_task_var vars[DLR_TASK_VARS];
};

/* Finds a round in an environment. False when the step is not one of a supervisor: a
 * variable is missing or no number. *ret is written only on true.
 * Foreign bytes: fuzz target task_env.
 */
bool dlr_task_round_find(char *const env[], struct dlr_task_round *ret);

/* Makes the list of variables to set and to take out for one task. -EINVAL with text
 * when the round does not fit the task (the rank map was not followed), -ENOMEM. *ret
 * is the caller's: dlr_task_env_free(). Foreign bytes: fuzz target task_env.
 */
int dlr_task_env_make(const struct dlr_task_round *round,
                      const struct dlr_task_self *self, struct dlr_task_env *ret,
                      struct dlr_err *err);

void dlr_task_env_free(struct dlr_task_env *env);

#endif
