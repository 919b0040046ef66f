/* SPDX-License-Identifier: Apache-2.0 */
/* From hwloc to struct dlr_machine. */
#include "hwloc_topo/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "hwloc_topo/loaded.h"

#define NVIDIA 0x10de    /* PCI vendor */
#define DISPLAY 0x03     /* PCI base class; 0302 is a GPU without a screen */
#define INFORMATION 4096 /* bytes of a file of the driver's */

/* --- CPUs ------------------------------------------------------------------------- */

/* Nodes whose CPUs are the same are one: the first. */
static unsigned find_numas(hwloc_topology_t hw, hwloc_obj_t nodes[DLR_MACHINE_NUMA])
{
    hwloc_obj_t obj = NULL;
    unsigned n = 0;

    while (n < DLR_MACHINE_NUMA &&
           (obj = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_NUMANODE, obj))) {
        bool known = hwloc_bitmap_iszero(obj->cpuset);

        for (unsigned i = 0; i < n && !known; i++)
            known = hwloc_bitmap_isequal(nodes[i]->cpuset, obj->cpuset);
        if (!known)
            nodes[n++] = obj;
    }
    return n;
}

/* DLR_MACHINE_NUMA: of none. */
static unsigned numa_of(hwloc_obj_t *nodes, unsigned n, unsigned cpu)
{
    unsigned best = DLR_MACHINE_NUMA;

    for (unsigned i = 0; i < n; i++)
        if (hwloc_bitmap_isset(nodes[i]->cpuset, cpu) &&
            (best == DLR_MACHINE_NUMA ||
             hwloc_bitmap_isincluded(nodes[i]->cpuset, nodes[best]->cpuset)))
            best = i;
    return best;
}

static void describe_cpus(hwloc_topology_t hw, struct dlr_machine *m)
{
    hwloc_obj_t nodes[DLR_MACHINE_NUMA], obj = NULL;

    m->numas = find_numas(hw, nodes);
    while ((obj = hwloc_get_next_obj_by_type(hw, HWLOC_OBJ_CORE, obj))) {
        bool any = false;

        for (unsigned cpu = 0; cpu < DLR_TOPO_CPUS; cpu++) {
            unsigned numa = hwloc_bitmap_isset(obj->cpuset, cpu)
                                ? numa_of(nodes, m->numas, cpu)
                                : DLR_MACHINE_NUMA;

            if (numa == DLR_MACHINE_NUMA)
                continue;
            m->core[cpu] = (uint16_t)(m->cores + 1);
            m->numa[cpu] = (uint8_t)numa;
            any = true;
        }
        m->cores += any;
    }
    for (unsigned i = 0; i < m->numas; i++) {
        obj = hwloc_get_ancestor_obj_by_type(hw, HWLOC_OBJ_PACKAGE, nodes[i]);
        m->package[i] = obj ? (uint16_t)obj->logical_index : 0;
    }
}

/* --- devices ---------------------------------------------------------------------- */

static uint64_t numas_near(hwloc_topology_t hw, hwloc_obj_t dev,
                           const struct dlr_machine *m)
{
    hwloc_obj_t at = hwloc_get_non_io_ancestor_obj(hw, dev);
    uint64_t set = 0;

    for (unsigned cpu = 0; at && at->cpuset && cpu < DLR_TOPO_CPUS; cpu++)
        if (m->core[cpu] && hwloc_bitmap_isset(at->cpuset, cpu))
            set |= UINT64_C(1) << m->numa[cpu];
    return set;
}

/* "Device Minor:  3" in /proc/driver/nvidia/gpus/BUS/information */
static uint32_t minor_of(const char *root, const char *bus, uint32_t otherwise)
{
    DLR_AUTO_FREE char *text = NULL;
    char path[PATH_MAX];
    const char *at;
    unsigned minor;

    if (dlr_format(path, sizeof(path), "%s/proc/driver/nvidia/gpus/%s/information",
                   root, bus) < 0 ||
        dlr_file_load(AT_FDCWD, path, INFORMATION, &text, NULL, NULL) < 0)
        return otherwise;
    at = strstr(text, "Device Minor:");
    return at && sscanf(at, "Device Minor: %u", &minor) == 1 ? minor : otherwise;
}

static bool is_gpu(const struct hwloc_obj *obj)
{
    return obj->attr->pcidev.vendor_id == NVIDIA &&
           obj->attr->pcidev.class_id >> 8 == DISPLAY;
}

static uint64_t place_on_bus(const struct hwloc_obj *obj)
{
    const struct hwloc_pcidev_attr_s *a = &obj->attr->pcidev;

    return (uint64_t)a->domain << 32 | a->bus << 16 | a->dev << 8 | a->func;
}

static int by_place(const void *a, const void *b)
{
    uint64_t x = place_on_bus(*(hwloc_obj_t const *)a);
    uint64_t y = place_on_bus(*(hwloc_obj_t const *)b);

    return (x > y) - (x < y);
}

static unsigned find_gpus(hwloc_topology_t hw, hwloc_obj_t gpus[DLR_MACHINE_GPUS])
{
    hwloc_obj_t obj = NULL;
    unsigned n = 0;

    while (n < DLR_MACHINE_GPUS && (obj = hwloc_get_next_pcidev(hw, obj)))
        if (is_gpu(obj))
            gpus[n++] = obj;
    qsort(gpus, n, sizeof(*gpus), by_place);
    return n;
}

static void describe_gpus(hwloc_topology_t hw, const char *root, hwloc_obj_t *gpus,
                          struct dlr_machine *m)
{
    for (unsigned i = 0; i < m->gpus; i++) {
        const struct hwloc_pcidev_attr_s *a = &gpus[i]->attr->pcidev;
        struct dlr_machine_gpu *gpu = &m->gpu[i];

        dlr_format(gpu->bus, sizeof(gpu->bus), "%04x:%02x:%02x.%x", a->domain, a->bus,
                   a->dev, a->func);
        gpu->minor = minor_of(root, gpu->bus, i);
        gpu->numa = numas_near(hw, gpus[i], m);
    }
}

/* The first port in state 4, ACTIVE; 0: none is. */
static unsigned active_port(hwloc_obj_t nic)
{
    for (unsigned port = 1; port < 10; port++) {
        char name[] = "PortNState";
        const char *state;

        name[4] = (char)('0' + port);
        state = hwloc_obj_get_info_by_name(nic, name);
        if (state && state[0] == '4')
            return port;
    }
    return 0;
}

static void describe_nics(hwloc_topology_t hw, hwloc_obj_t nics[DLR_MACHINE_NICS],
                          struct dlr_machine *m)
{
    hwloc_obj_t obj = NULL;

    while (m->nics < DLR_MACHINE_NICS && (obj = hwloc_get_next_osdev(hw, obj))) {
        struct dlr_machine_nic *nic = &m->nic[m->nics];

        if (obj->attr->osdev.type != HWLOC_OBJ_OSDEV_OPENFABRICS)
            continue;
        nic->port = active_port(obj);
        if (nic->port == 0 ||
            dlr_format(nic->name, sizeof(nic->name), "%s", obj->name) < 0)
            continue;
        nic->numa = numas_near(hw, obj, m);
        nics[m->nics++] = obj;
    }
}

static bool is_below(hwloc_obj_t obj, hwloc_obj_t above)
{
    while (obj && obj != above)
        obj = obj->parent;
    return obj != NULL;
}

/* A bridge from the host is a root of the bus: what meets there goes through the CPU. */
static bool share_switch(hwloc_obj_t gpu, hwloc_obj_t nic)
{
    for (hwloc_obj_t at = gpu->parent; at && at->type == HWLOC_OBJ_BRIDGE;
         at = at->parent)
        if (at->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI && is_below(nic, at))
            return true;
    return false;
}

static uint64_t packages_of(const struct dlr_machine *m, uint64_t numas)
{
    uint64_t set = 0;

    for (unsigned i = 0; i < m->numas; i++)
        if (numas >> i & 1 && m->package[i] < 64)
            set |= UINT64_C(1) << m->package[i];
    return set;
}

static void describe_near(struct dlr_machine *m, hwloc_obj_t *gpus, hwloc_obj_t *nics)
{
    for (unsigned i = 0; i < m->gpus; i++)
        for (unsigned k = 0; k < m->nics; k++) {
            uint64_t a = m->gpu[i].numa, b = m->nic[k].numa;

            m->near[i][k] = share_switch(gpus[i], nics[k])          ? DLR_NEAR_SWITCH
                            : a & b                                 ? DLR_NEAR_NUMA
                            : packages_of(m, a) & packages_of(m, b) ? DLR_NEAR_PACKAGE
                                                                    : DLR_NEAR_NOT;
        }
}

void dlr_machine_describe(const struct dlr_topo *topo, const char *root,
                          struct dlr_machine *ret)
{
    hwloc_obj_t gpus[DLR_MACHINE_GPUS], nics[DLR_MACHINE_NICS];

    memset(ret, 0, sizeof(*ret));
    ret->magic = DLR_MACHINE_MAGIC;
    ret->size = sizeof(*ret);
    describe_cpus(topo->hw, ret);
    ret->gpus = find_gpus(topo->hw, gpus);
    describe_gpus(topo->hw, root, gpus, ret);
    describe_nics(topo->hw, nics, ret);
    describe_near(ret, gpus, nics);
}
