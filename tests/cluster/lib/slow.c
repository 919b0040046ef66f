/* SPDX-License-Identifier: Apache-2.0 */
/* A SPANK plugin that brings an image, as pyxis does: a step of the name "slowN" takes
 * N seconds in slurmstepd, as the user, before its tasks start.
 */
#include <slurm/spank.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

SPANK_PLUGIN(slow, 1)

static int take_image(int val, const char *optarg, int remote)
{
    return 0;
}

struct spank_option spank_options[] = {
    {"container-image", "IMAGE", "as pyxis has it", 1, 0, take_image},
    SPANK_OPTIONS_TABLE_END};

int slurm_spank_user_init(spank_t sp, int ac, char **av)
{
    char name[64] = "";

    if (spank_getenv(sp, "SLURM_JOB_NAME", name, sizeof(name)) == ESPANK_SUCCESS &&
        strncmp(name, "slow", 4) == 0)
        sleep(atoi(name + 4));
    return 0;
}
