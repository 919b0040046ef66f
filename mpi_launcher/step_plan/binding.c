/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/step_plan/binding.h"

#include <string.h>

#include "common/base/env.h"
#include "common/base/str.h"
#include "mpi_launcher/step_plan/srun_options.h"

/* srun(1), and the variables of its section INPUT ENVIRONMENT VARIABLES */
static const char *const names[] = {"accel-bind", "cpu-bind", "cpu_bind",
                                    "gpu-bind",   "hint",     "mem-bind",
                                    "overcommit", "tres-bind"};
static const char *const vars[] = {"SLURM_CPU_BIND",   "SLURM_GPU_BIND",
                                   "SLURM_HINT",       "SLURM_MEM_BIND",
                                   "SLURM_OVERCOMMIT", "SLURM_TRES_BIND"};

static const struct dlr_srun_option *find(const char *word)
{
    if (word[0] != '-' || !word[1])
        return NULL;
    if (word[1] != '-')
        return dlr_srun_find_letter(word[1]);
    return dlr_srun_find(word + 2, strcspn(word + 2, "="));
}

const char *dlr_srun_binding(char *const options[], char *const env[])
{
    for (; options && *options; options++) {
        const struct dlr_srun_option *o = find(*options);

        for (unsigned i = 0; o && i < sizeof(names) / sizeof(*names); i++)
            if (dlr_streq(o->name, names[i]))
                return *options;
    }
    for (unsigned i = 0; i < sizeof(vars) / sizeof(*vars); i++)
        if (dlr_env_get(env, vars[i]))
            return vars[i];
    return NULL;
}
