/* SPDX-License-Identifier: Apache-2.0 */
/* A node's inside, as hwloc sees it. */
#include "hwloc_topo/topo.h"

#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

struct dlr_topo {
    hwloc_topology_t hw;
    hwloc_cpuset_t usable; /* CPUs this process may run on */
};

static void cleanup_topo(struct dlr_topo **topo)
{
    dlr_topo_free(*topo);
}

static int set_source(struct dlr_topo *topo, const char *synthetic, struct dlr_err *err)
{
    int rc;

    if (!synthetic)
        return 0;
    if (synthetic[0] == '/' || synthetic[0] == '.')
        rc = hwloc_topology_set_xml(topo->hw, synthetic);
    else
        rc = hwloc_topology_set_synthetic(topo->hw, synthetic);
    if (rc < 0)
        return dlr_fail(err, -EINVAL, "bad topology '%s'", synthetic);
    return 0;
}

/* hwloc leaves out what a cgroup forbids; taskset's choice has to be asked for. */
static int find_usable(struct dlr_topo *topo)
{
    hwloc_const_cpuset_t allowed = hwloc_topology_get_allowed_cpuset(topo->hw);
    hwloc_cpuset_t bound;

    topo->usable = hwloc_bitmap_dup(allowed);
    bound = hwloc_bitmap_alloc();
    if (!topo->usable || !bound) {
        hwloc_bitmap_free(bound);
        return -ENOMEM;
    }
    if (hwloc_topology_is_thissystem(topo->hw) &&
        hwloc_get_cpubind(topo->hw, bound, HWLOC_CPUBIND_PROCESS) == 0 &&
        hwloc_bitmap_intersects(bound, topo->usable))
        hwloc_bitmap_and(topo->usable, topo->usable, bound);
    hwloc_bitmap_free(bound);
    return 0;
}

int dlr_topo_load(const char *synthetic, struct dlr_topo **ret_topo,
                  struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_topo) struct dlr_topo *topo = calloc(1, sizeof(*topo));
    int rc;

    if (!topo)
        return dlr_fail(err, -ENOMEM, "out of memory");
    if (hwloc_topology_init(&topo->hw) < 0) {
        topo->hw = NULL;
        return dlr_fail(err, -ENOMEM, "cannot initialise hwloc");
    }
    rc = set_source(topo, synthetic, err);
    if (rc < 0)
        return rc;
    hwloc_topology_set_io_types_filter(topo->hw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(topo->hw) < 0)
        return dlr_fail(err, -EINVAL, "hwloc cannot load %s%s%s",
                        synthetic ? "'" : "this node", synthetic ? synthetic : "",
                        synthetic ? "'" : "");
    rc = find_usable(topo);
    if (rc < 0)
        return dlr_fail(err, rc, "out of memory");
    *ret_topo = DLR_STEAL(topo);
    return 0;
}

struct dlr_topo *dlr_topo_free(struct dlr_topo *topo)
{
    if (!topo)
        return NULL;
    hwloc_bitmap_free(topo->usable);
    if (topo->hw)
        hwloc_topology_destroy(topo->hw);
    free(topo);
    return NULL;
}

static unsigned count_usable(const struct dlr_topo *topo, hwloc_obj_type_t type)
{
    hwloc_obj_t obj = NULL;
    unsigned n = 0;

    while ((obj = hwloc_get_next_obj_by_type(topo->hw, type, obj)))
        if (obj->cpuset && hwloc_bitmap_intersects(obj->cpuset, topo->usable))
            n++;
    return n;
}

/* One card shows up as several OS devices ("cuda0", "nvml0", "card0"; "ib0", "mlx5_0"): a
 * card is counted once, by the device above them. They stand together in hwloc's order.
 */
static unsigned count_cards(const struct dlr_topo *topo, hwloc_obj_osdev_type_t a,
                            hwloc_obj_osdev_type_t b)
{
    hwloc_obj_t obj = NULL, last = NULL;
    unsigned n = 0;

    while ((obj = hwloc_get_next_osdev(topo->hw, obj))) {
        if (obj->attr->osdev.type != a && obj->attr->osdev.type != b)
            continue;
        if (obj->parent != last || obj->parent->type != HWLOC_OBJ_PCI_DEVICE)
            n++;
        last = obj->parent;
    }
    return n;
}

void dlr_topo_summary(const struct dlr_topo *topo, struct dlr_topo_summary *ret)
{
    hwloc_obj_t numa = NULL;

    memset(ret, 0, sizeof(*ret));
    ret->packages = count_usable(topo, HWLOC_OBJ_PACKAGE);
    ret->cores = count_usable(topo, HWLOC_OBJ_CORE);
    ret->pus = count_usable(topo, HWLOC_OBJ_PU);
    while ((numa = hwloc_get_next_obj_by_type(topo->hw, HWLOC_OBJ_NUMANODE, numa))) {
        ret->numa_nodes++;
        ret->memory_bytes += numa->attr->numanode.local_memory;
    }
    ret->gpus = count_cards(topo, HWLOC_OBJ_OSDEV_GPU, HWLOC_OBJ_OSDEV_COPROC);
    ret->nics = count_cards(topo, HWLOC_OBJ_OSDEV_NETWORK, HWLOC_OBJ_OSDEV_OPENFABRICS);
}
