/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/step_plan/container.h"

#include <stddef.h>

#include "common/base/str.h"

/* srun reads the first; so Slurm keeps pyxis's options of a job for its sruns. */
static const char *const vars[] = {"SLURM_CONTAINER",
                                   "SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_container"};

const char *dlr_srun_container(char *const options[], char *const env[])
{
    for (; options && *options; options++)
        if (dlr_after(*options, "--container"))
            return *options;
    for (; env && *env; env++)
        for (size_t i = 0; i < sizeof(vars) / sizeof(*vars); i++)
            if (dlr_after(*env, vars[i]))
                return *env;
    return NULL;
}
