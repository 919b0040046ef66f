/* SPDX-License-Identifier: Apache-2.0 */
/* A supervisor's step on this node, as slurmstepd lives through it. On every other step
 * these functions do nothing.
 */
#ifndef DLR_SPANK_TASK_STEP_H
#define DLR_SPANK_TASK_STEP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "spank/base/options.h"
#include "spank/task/preload.h"
#include "spank/task/stderr_tap.h"
#include "spank/task/task_env.h"

/* Whose step it is. */
struct dlr_step_job {
    unsigned id;
    uid_t uid;
    const char *root; /* of the jobs' memory: DLR_MEMORY_ROOT */
};

struct dlr_step {
    bool in_round; /* it is a supervisor's */
    bool tapped;
    uint32_t round;
    char socket[256];         /* the agent's, as it is called on this node */
    int agent;                /* connection to the agent, -1 without */
    struct dlr_loader loader; /* slurmstepd's own */
    int name;                 /* its socket's file, for O_PATH; -1 without */
    struct dlr_stderr_tap tap;
};

#define DLR_STEP_NONE                                                                  \
    {                                                                                  \
        .agent = -1, .name = -1, .tap = DLR_STDERR_TAP_NONE                            \
    }

/* Before the tasks are forked, as the user or as root: tells the agent, unless it knows
 * already. As early as can be: what another plugin does for the user may take minutes.
 * env is the step's, its words are the user's: only a socket of the job's own memory is
 * used, and that as the user.
 */
void dlr_step_begin(struct dlr_step *step, char *const env[],
                    const struct dlr_step_job *job);

/* In slurmstepd, for each task once all are forked, and when it has ended. The agent
 * knows a task's last lines before its end, unless they take longer than
 * DLR_STDERR_TAP_SOON_MS.
 */
void dlr_step_forked(struct dlr_step *step, uint32_t rank, pid_t pid);
void dlr_step_ended(struct dlr_step *step, uint32_t rank, int status);

/* Which task it is. */
struct dlr_step_place {
    uint32_t step, rank, world;
    const char *program; /* as its srun names it; NULL: not known */
};

/* A task finds its agent here and above (DLROVER_AGENT_FD), out of the way of shells,
 * which number their own from 10.
 */
#define DLR_STEP_FD 64

/* In the task, as the user: taps its stderr and makes the changes to its environment,
 * or those of a batch script. 0 or -errno with text; *ret is the caller's:
 * dlr_task_env_free(), empty on failure and where nobody supervises.
 */
int dlr_step_task(const struct dlr_step *step, const struct dlr_spank_conf *conf,
                  char *const env[], const struct dlr_step_place *at,
                  struct dlr_task_env *ret, struct dlr_err *err);

#endif
