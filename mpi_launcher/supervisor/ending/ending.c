/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's beginning and end, and what others ask it. */
#include "mpi_launcher/supervisor/ending/ending.h"

#include <stdlib.h>

#include "mpi_launcher/supervisor/ending/ending_state.h"

struct dlr_sup_ending *dlr_sup_ending_new(const struct dlr_sup_ending_env *env,
                                          const struct dlr_sup_ending_ops *ops,
                                          void *arg)
{
    static const struct dlr_sup_ending_ops none;
    struct dlr_sup_ending *ending = calloc(1, sizeof(*ending));

    if (!ending)
        return NULL;
    ending->env = *env;
    ending->ops = ops ? ops : &none;
    ending->arg = arg;
    ending->members = dlr_sup_members(env->nodes);
    ending->helper_out = ending->leave.fd = -1;
    return ending;
}

struct dlr_sup_ending *dlr_sup_ending_free(struct dlr_sup_ending *ending)
{
    if (ending)
        json_decref(ending->row);
    free(ending);
    return NULL;
}

void dlr_sup_ending_open(struct dlr_sup_ending *ending, struct dlr_policy *policy)
{
    ending->policy = policy;
}

bool dlr_sup_ending_finished(const struct dlr_sup_ending *ending)
{
    return ending->finished;
}

int dlr_sup_ending_code(const struct dlr_sup_ending *ending)
{
    return ending->exit_code;
}

bool dlr_sup_ending_over(const struct dlr_sup_ending *ending)
{
    return ending->finished && !dlr_sup_steps_busy(ending->env.steps) &&
           !(ending->script_lost && ending->helper.pid);
}

void dlr_sup_ending_script_lost(struct dlr_sup_ending *ending)
{
    ending->script_lost = true;
}

bool dlr_sup_ending_wanted(const struct dlr_sup_ending *ending)
{
    return ending->wanted_signal != 0;
}

void dlr_sup_ending_take(struct dlr_sup_ending *ending, unsigned code)
{
    ending->exit_code = (int)code;
}
