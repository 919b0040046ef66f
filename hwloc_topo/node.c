/* SPDX-License-Identifier: Apache-2.0 */
/* A node's inside, as hwloc sees it. */
#include "hwloc_topo/topo.h"

#include <errno.h>
#include <hwloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "hwloc_topo/loaded.h"

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

static int load(const char *synthetic, bool devices, struct dlr_topo **ret_topo,
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
    if (devices)
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

int dlr_topo_load(const char *synthetic, struct dlr_topo **ret_topo,
                  struct dlr_err *err)
{
    return load(synthetic, true, ret_topo, err);
}

int dlr_topo_load_cpus(struct dlr_topo **ret_topo, struct dlr_err *err)
{
    return load(NULL, false, ret_topo, err);
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

/* One card shows up as several OS devices ("cuda0", "nvml0", "card0"; "ib0", "mlx5_0"):
 * a card is counted once, by the device above them. They stand together in hwloc's
 * order.
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

static bool is_in(const struct dlr_topo_cpus *cpus, unsigned cpu)
{
    return cpus->bits[cpu / 64] >> cpu % 64 & 1;
}

static bool has_any(hwloc_const_bitmap_t set, const struct dlr_topo_cpus *cpus)
{
    for (unsigned cpu = 0; cpu < DLR_TOPO_CPUS; cpu++)
        if (is_in(cpus, cpu) && hwloc_bitmap_isset(set, cpu))
            return true;
    return false;
}

/* Adds to idle the cores without a busy CPU. */
static void find_idle(const struct dlr_topo *topo, const struct dlr_topo_cpus *busy,
                      hwloc_bitmap_t idle)
{
    hwloc_obj_t obj = NULL;

    while ((obj = hwloc_get_next_obj_by_type(topo->hw, HWLOC_OBJ_CORE, obj)))
        if (!has_any(obj->cpuset, busy))
            hwloc_bitmap_or(idle, idle, obj->cpuset);
    hwloc_bitmap_and(idle, idle, topo->usable);
}

/* Adds the NUMA nodes that own is on. */
static void find_own_nodes(const struct dlr_topo *topo, const struct dlr_topo_cpus *own,
                           hwloc_bitmap_t near)
{
    hwloc_obj_t obj = NULL;

    while ((obj = hwloc_get_next_obj_by_type(topo->hw, HWLOC_OBJ_NUMANODE, obj)))
        if (has_any(obj->cpuset, own))
            hwloc_bitmap_or(near, near, obj->cpuset);
}

/* Adds the NUMA nodes of these numbers. */
static void find_nodes(const struct dlr_topo *topo, const struct dlr_topo_numa *numa,
                       hwloc_bitmap_t near)
{
    hwloc_obj_t obj = NULL;

    while ((obj = hwloc_get_next_obj_by_type(topo->hw, HWLOC_OBJ_NUMANODE, obj)))
        for (unsigned i = 0; i < numa->n; i++)
            if (obj->os_index == numa->node[i])
                hwloc_bitmap_or(near, near, obj->cpuset);
}

/* *ret untouched when there are none. */
static unsigned give(hwloc_const_bitmap_t set, struct dlr_topo_cpus *ret)
{
    struct dlr_topo_cpus chosen = {0};
    unsigned n = 0;

    for (unsigned cpu = 0; cpu < DLR_TOPO_CPUS; cpu++) {
        if (!hwloc_bitmap_isset(set, cpu))
            continue;
        chosen.bits[cpu / 64] |= UINT64_C(1) << cpu % 64;
        n++;
    }
    if (n > 0)
        *ret = chosen;
    return n;
}

unsigned dlr_topo_spare(const struct dlr_topo *topo, const struct dlr_topo_cpus *own,
                        const struct dlr_topo_cpus *busy, struct dlr_topo_cpus *ret)
{
    hwloc_bitmap_t idle = hwloc_bitmap_alloc(), near = hwloc_bitmap_alloc();
    unsigned n = 0;

    if (idle && near) {
        find_idle(topo, busy, idle);
        find_own_nodes(topo, own, near);
        if (hwloc_bitmap_intersects(idle, near))
            hwloc_bitmap_and(idle, idle, near);
        n = give(idle, ret);
    }
    hwloc_bitmap_free(idle);
    hwloc_bitmap_free(near);
    return n;
}

static bool is_one_core(const struct dlr_topo *topo, hwloc_const_bitmap_t set)
{
    hwloc_obj_t obj = NULL;
    unsigned n = 0;

    while ((obj = hwloc_get_next_obj_by_type(topo->hw, HWLOC_OBJ_CORE, obj)))
        n += hwloc_bitmap_intersects(obj->cpuset, set) != 0;
    return n == 1;
}

/* near and others (idle cores that helpers have not) are used up. */
static hwloc_const_bitmap_t choose(const struct dlr_topo *topo, hwloc_bitmap_t idle,
                                   hwloc_bitmap_t near, hwloc_bitmap_t others)
{
    hwloc_bitmap_and(near, near, idle);
    if (hwloc_bitmap_intersects(near, others)) {
        hwloc_bitmap_and(near, near, others);
        return near;
    }
    if (hwloc_bitmap_iszero(near))
        return hwloc_bitmap_iszero(others) ? idle : others;
    if (is_one_core(topo, near) && !hwloc_bitmap_iszero(others))
        return others;
    return near;
}

unsigned dlr_topo_beside(const struct dlr_topo *topo, const struct dlr_topo_numa *near,
                         const struct dlr_topo_cpus *busy,
                         const struct dlr_topo_cpus *helpers, struct dlr_topo_cpus *ret)
{
    hwloc_bitmap_t idle = hwloc_bitmap_alloc(), there = hwloc_bitmap_alloc();
    hwloc_bitmap_t others = hwloc_bitmap_alloc();
    unsigned n = 0;

    if (idle && there && others) {
        find_idle(topo, busy, idle);
        find_nodes(topo, near, there);
        hwloc_bitmap_copy(others, idle);
        for (unsigned cpu = 0; cpu < DLR_TOPO_CPUS; cpu++)
            if (is_in(helpers, cpu))
                hwloc_bitmap_clr(others, cpu);
        n = give(choose(topo, idle, there, others), ret);
    }
    hwloc_bitmap_free(idle);
    hwloc_bitmap_free(there);
    hwloc_bitmap_free(others);
    return n;
}

void dlr_topo_usable(const struct dlr_topo *topo, struct dlr_topo_cpus *ret)
{
    memset(ret, 0, sizeof(*ret));
    give(topo->usable, ret);
}
