/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a written checkpoint. It is made durable by a process apart, for as
 * long as that takes: a limit ends the wait for it, not the writing.
 */
#include "ckpt/manifest/manifest.h"
#include "common/base/cleanup.h"
#include "mpi_launcher/supervisor/disk/disk_state.h"

struct dlr_offload *dlr_sup_manifest_new(const struct dlr_sup_disk *disk,
                                         unsigned world)
{
    struct dlr_offload *a = dlr_offload_new(sizeof(struct dlr_sup_manifest) +
                                            world * sizeof(struct dlr_plan_file));
    struct dlr_sup_manifest *m = a ? dlr_offload_arg(a) : NULL;
    unsigned keep = disk->env.conf->persist_count;

    if (!m)
        return NULL;
    dlr_sup_persist_dir(disk, m->dir, sizeof(m->dir));
    m->keep = keep ? keep : 1;
    m->world = world;
    return a;
}

int dlr_sup_manifest_save(struct dlr_sup_manifest *m)
{
    int rc = dlr_persist_count(m->files, m->world, &m->count, &m->bytes, &m->err);

    return rc < 0 ? rc : dlr_persist_save(m->dir, m->files, m->world, m->keep, &m->err);
}

void dlr_sup_manifest_set(struct dlr_sup_manifest *m, unsigned rank,
                          struct dlr_version v, const struct dlr_slice *slice)
{
    m->files[rank].slice = *slice;
    m->files[rank].copy = (struct dlr_plan_copy){
        .rank = (int32_t)rank, .world = m->world, .version = v, .bytes = slice->room};
}

int dlr_sup_manifest_write(void *arg, int *fd)
{
    struct dlr_sup_manifest *m = arg;
    DLR_AUTO_FREE struct dlr_plan_file *files = NULL;
    struct dlr_err quiet;
    unsigned n = 0;
    int rc;

    if (m->give_up) {
        dlr_persist_forget(m->dir, &m->write, &m->stop);
        return 0;
    }
    rc = dlr_sup_manifest_save(m);
    if (rc >= 0 && dlr_persist_load(m->dir, &files, &n, &quiet) == 0)
        dlr_inventory_export(files, n, fd);
    return rc < 0 ? rc : 0;
}
