/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's beginning and end. */
#include "mpi_launcher/supervisor/disk/disk.h"

#include <stdlib.h>

#include "mpi_launcher/supervisor/disk/disk_state.h"

struct dlr_sup_disk *dlr_sup_disk_new(const struct dlr_sup_disk_env *env,
                                      const struct dlr_sup_disk_ops *ops, void *arg)
{
    static const struct dlr_sup_disk_ops none;
    struct dlr_sup_disk *disk = calloc(1, sizeof(*disk));

    if (!disk)
        return NULL;
    disk->env = *env;
    disk->ops = ops ? ops : &none;
    disk->arg = arg;
    disk->members = dlr_sup_members(env->nodes);
    return disk;
}

struct dlr_sup_disk *dlr_sup_disk_free(struct dlr_sup_disk *disk)
{
    if (!disk)
        return NULL;
    dlr_plan_done(&disk->persist.plan);
    dlr_sup_periodic_free(disk);
    dlr_sup_inventory_free(disk);
    dlr_offload_free(disk->persist.manifest);
    free(disk->files);
    free(disk);
    return NULL;
}

void dlr_sup_disk_open(struct dlr_sup_disk *disk, const struct dlr_policy *policy)
{
    disk->policy = policy;
}

void dlr_sup_disk_tick(struct dlr_sup_disk *disk)
{
    dlr_sup_inventory_tick(disk);
    dlr_sup_periodic_tick(disk);
}
