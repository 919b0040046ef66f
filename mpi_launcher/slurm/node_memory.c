/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory nodes of a partition can give to a job. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "mpi_launcher/slurm/api.h"
#include "mpi_launcher/slurm/compat.h"

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

static uint64_t usable(const node_info_t *node)
{
    return node->real_memory > node->mem_spec_limit
               ? node->real_memory - node->mem_spec_limit
               : 0;
}

/* What so many of the partition's nodes have at least. */
static uint64_t least_of(const partition_info_t *part, const node_info_msg_t *nodes,
                         unsigned count)
{
    DLR_AUTO_FREE uint64_t *sizes = calloc(nodes->record_count + 1, sizeof(*sizes));
    uint64_t limit = part->max_mem_per_cpu;
    char **names = NULL;
    unsigned n = 0, found = 0;

    if (!sizes || dlr_slurm_expand(part->nodes, &names, &n, NULL) < 0)
        return 0;
    for (uint32_t i = 0; i < nodes->record_count; i++) {
        const node_info_t *node = &nodes->node_array[i];

        if (node->name && dlr_slurm_has_name(names, n, node->name))
            sizes[found++] = usable(node);
    }
    dlr_slurm_free_names(names, n);
    if (count == 0 || count > found)
        return 0;
    qsort(sizes, found, sizeof(*sizes), by_size);
    return limit && limit != NO_VAL64 && !(limit & MEM_PER_CPU) &&
                   limit < sizes[count - 1]
               ? limit
               : sizes[count - 1];
}

int dlr_slurm_node_memory(const char *partitions, unsigned nodes, uint64_t *ret_mb,
                          struct dlr_err *err)
{
    partition_info_msg_t *parts = NULL;
    node_info_msg_t *all = NULL;

    *ret_mb = 0;
    if (slurm_load_partitions(0, &parts, SHOW_ALL) != SLURM_SUCCESS)
        return dlr_fail(err, -EIO, "cannot load the partitions");
    if (slurm_load_node(0, &all, SHOW_ALL) != SLURM_SUCCESS) {
        slurm_free_partition_info_msg(parts);
        return dlr_fail(err, -EIO, "cannot load the nodes");
    }
    for (uint32_t i = 0; i < parts->record_count; i++) {
        const partition_info_t *part = &parts->partition_array[i];
        uint64_t mb;

        if (!part->name || !part->nodes || !dlr_slurm_has_word(partitions, part->name))
            continue;
        mb = least_of(part, all, nodes);
        *ret_mb = mb > *ret_mb ? mb : *ret_mb;
    }
    slurm_free_partition_info_msg(parts);
    slurm_free_node_info_msg(all);
    return 0;
}
