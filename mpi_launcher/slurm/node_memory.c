/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory a job could have on its nodes. */
#include <errno.h>

#include "mpi_launcher/slurm/api.h"
#include "mpi_launcher/slurm/compat.h"

/* ACCOUNTING_ENFORCE_LIMITS of src/common/read_config.h, the same from 22.05 to 26.05. */
#define ENFORCE_LIMITS 2

static uint64_t usable(const node_info_t *node)
{
    return node->real_memory > node->mem_spec_limit
               ? node->real_memory - node->mem_spec_limit
               : 0;
}

/* What each of its nodes has. 0: it has none that are known. */
static int least_of(const struct dlr_slurm_job *job, uint64_t *ret_mb,
                    struct dlr_err *err)
{
    node_info_msg_t *all = NULL;
    char **names = NULL;
    unsigned n = 0;

    *ret_mb = 0;
    if (slurm_load_node(0, &all, SHOW_ALL) != SLURM_SUCCESS)
        return dlr_fail(err, -EIO, "cannot load the nodes");
    dlr_slurm_expand(job->nodes, &names, &n, NULL);
    for (uint32_t i = 0; i < all->record_count; i++) {
        const node_info_t *node = &all->node_array[i];

        if (node->name && dlr_slurm_has_name(names, n, node->name) &&
            (*ret_mb == 0 || usable(node) < *ret_mb))
            *ret_mb = usable(node);
    }
    dlr_slurm_free_names(names, n);
    slurm_free_node_info_msg(all);
    return 0;
}

/* CPUs of one of its nodes. */
static unsigned cpus_of_node(const struct dlr_slurm_job *job)
{
    unsigned n = job->nodes_now ? job->nodes_now : 1;

    return job->cpus_now > n ? job->cpus_now / n : 1;
}

/* MaxMemPerNode or MaxMemPerCPU, of the partition or else of the site (_valid_pn_min_mem
 * of job_mgr.c). Above it slurmctld takes an update, and never starts the job, or gives it
 * other CPUs. UINT64_MAX: none.
 */
static uint64_t limit_of(const struct dlr_slurm_job *job, uint64_t site,
                         const partition_info_msg_t *parts)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < parts->record_count; i++) {
        const partition_info_t *part = &parts->partition_array[i];
        uint64_t limit = part->max_mem_per_cpu ? part->max_mem_per_cpu : site;
        bool per_cpu = limit & MEM_PER_CPU;

        limit &= ~MEM_PER_CPU;
        if (!part->name || !dlr_slurm_has_word(job->partition, part->name) ||
            limit == 0 || limit >= (NO_VAL64 & ~MEM_PER_CPU))
            continue;
        limit *= per_cpu ? cpus_of_node(job) : 1;
        least = limit < least ? limit : least;
    }
    return least;
}

int dlr_slurm_memory(const struct dlr_slurm_job *job, struct dlr_slurm_memory *ret,
                     struct dlr_err *err)
{
    partition_info_msg_t *parts = NULL;
    slurm_conf_t *conf = NULL;
    uint64_t limit;
    int rc = least_of(job, &ret->mb, err);

    if (rc < 0)
        return rc;
    if (slurm_load_partitions(0, &parts, SHOW_ALL) != SLURM_SUCCESS)
        return dlr_fail(err, -EIO, "cannot load the partitions");
    rc = slurm_load_ctl_conf(0, &conf);
    if (rc == SLURM_SUCCESS) {
        limit = limit_of(job, conf->max_mem_per_cpu, parts);
        ret->mb = limit < ret->mb ? limit : ret->mb;
        ret->mb /= job->memory_per_cpu ? cpus_of_node(job) : 1;
        ret->accounts = conf->accounting_storage_enforce & ENFORCE_LIMITS;
        dlr_slurm_free_conf(conf);
    }
    slurm_free_partition_info_msg(parts);
    return rc == SLURM_SUCCESS ? 0
                               : dlr_fail(err, -EIO, "cannot load the configuration");
}
