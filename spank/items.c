/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/items.h"

#include "common/base/log.h"

bool dlr_items_job(spank_t sp, struct dlr_jobmem *ret)
{
    ret->mb = 0;
    spank_get_item(sp, S_JOB_ALLOC_MEM, &ret->mb); /* not in an epilog */
    return spank_get_item(sp, S_JOB_ID, &ret->job) == ESPANK_SUCCESS &&
           spank_get_item(sp, S_JOB_UID, &ret->uid) == ESPANK_SUCCESS &&
           spank_get_item(sp, S_JOB_GID, &ret->gid) == ESPANK_SUCCESS;
}

static const char *program(spank_t sp)
{
    char **argv = NULL;
    int argc = 0;

    return spank_get_item(sp, S_JOB_ARGV, &argc, &argv) == ESPANK_SUCCESS && argv &&
                   argc > 0
               ? argv[0]
               : NULL;
}

bool dlr_items_place(spank_t sp, struct dlr_step_place *ret)
{
    ret->program = program(sp);
    return spank_get_item(sp, S_JOB_STEPID, &ret->step) == ESPANK_SUCCESS &&
           spank_get_item(sp, S_TASK_GLOBAL_ID, &ret->rank) == ESPANK_SUCCESS &&
           spank_get_item(sp, S_JOB_TOTAL_TASK_COUNT, &ret->world) == ESPANK_SUCCESS;
}

char **dlr_items_env(spank_t sp)
{
    char **env = NULL;

    return spank_get_item(sp, S_JOB_ENV, &env) == ESPANK_SUCCESS ? env : NULL;
}

void dlr_items_put(spank_t sp, const struct dlr_task_env *vars)
{
    for (const struct dlr_task_var *v = vars->vars; v < vars->vars + vars->count; v++)
        if (!v->value)
            spank_unsetenv(sp, v->name);
        else if (spank_setenv(sp, v->name, v->value, 1) != ESPANK_SUCCESS)
            dlr_error("cannot set %s", v->name);
}
