/* SPDX-License-Identifier: Apache-2.0 */
/* A loaded topology. Private. */
#ifndef DLR_HWLOC_TOPO_LOADED_H
#define DLR_HWLOC_TOPO_LOADED_H

#include <hwloc.h>

struct dlr_topo {
    hwloc_topology_t hw;
    hwloc_cpuset_t usable; /* CPUs this process may run on */
};

#endif
