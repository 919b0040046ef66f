/* SPDX-License-Identifier: Apache-2.0 */
/* Where things are: a node's inside (hwloc), and the switches above the nodes. The
 * decisions taken from that are pure functions of data: rank_order.h and holders.h.
 */
#ifndef DLR_HWLOC_TOPO_TOPO_H
#define DLR_HWLOC_TOPO_TOPO_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

#define DLR_TOPO_NAME 256  /* a node's name, NUL included */
#define DLR_TOPO_PATH 1024 /* a node's switch path, NUL included */

/* --- one node ------------------------------------------------------------------- */

struct dlr_topo; /* opaque: a loaded hwloc topology */

/* Loads this node's topology, or the one described by synthetic if not NULL (hwloc
 * syntax, e.g. "numa:2 core:8 pu:2", or the path of an XML file starting with '/' or
 * '.'). On success *ret_topo is owned by the caller: dlr_topo_free().
 */
int dlr_topo_load(const char *synthetic, struct dlr_topo **ret_topo,
                  struct dlr_err *err);
/* The same of this node without its devices: asking drivers for those can take seconds.
 */
int dlr_topo_load_cpus(struct dlr_topo **ret_topo, struct dlr_err *err);
struct dlr_topo *dlr_topo_free(struct dlr_topo *topo); /* accepts NULL, returns NULL */

struct dlr_topo_summary {
    unsigned packages, numa_nodes, cores, pus; /* what this process may use */
    uint64_t memory_bytes;                     /* of all NUMA nodes together */
    unsigned gpus, nics;                       /* OS devices hwloc names */
};
void dlr_topo_summary(const struct dlr_topo *topo, struct dlr_topo_summary *ret);

#define DLR_TOPO_CPUS 1024 /* those beyond are left alone */
struct dlr_topo_cpus {     /* CPU i is bit i % 64 of word i / 64 */
    uint64_t bits[DLR_TOPO_CPUS / 64];
};

/* Where threads that help a process bound to own may run without taking time from those
 * bound to busy: of the CPUs this process may use the cores that have none of busy, in
 * own's NUMA nodes, or anywhere when all of those are busy. Returns how many CPUs; 0
 * (*ret untouched): there is nothing better than own.
 */
unsigned dlr_topo_spare(const struct dlr_topo *topo, const struct dlr_topo_cpus *own,
                        const struct dlr_topo_cpus *busy, struct dlr_topo_cpus *ret);

/* NUMA nodes of a process's devices; those beyond are passed over */
#define DLR_TOPO_NUMA 16
struct dlr_topo_numa { /* as the kernel numbers them */
    unsigned n, node[DLR_TOPO_NUMA];
};

/* Where a process that serves all of those on a node may run without taking time from
 * those bound to busy. Of the cores that have none of busy, the first of these that
 * there is:
 *   - those in the NUMA nodes near (of its devices; one that is not here is passed
 *     over) that no
 *     thread of helpers runs on (what dlr_topo_spare() gave to others)
 *   - all of those in near, when they are more than one
 *   - those anywhere that no thread of helpers runs on
 *   - all of those in near: one, which is shared with helpers
 *   - all
 * So a single core beside the device is the helpers' as long as another is free.
 * Returns how many CPUs; 0 (*ret untouched): all are busy.
 */
unsigned dlr_topo_beside(const struct dlr_topo *topo, const struct dlr_topo_numa *near,
                         const struct dlr_topo_cpus *busy,
                         const struct dlr_topo_cpus *helpers,
                         struct dlr_topo_cpus *ret);

/* All that this process may use. */
void dlr_topo_usable(const struct dlr_topo *topo, struct dlr_topo_cpus *ret);

/* "0-3,8"; "" of none. The length, or -ENOSPC; size is at least 1. */
int dlr_topo_cpus_text(const struct dlr_topo_cpus *cpus, char *buf, size_t size);

/* --- the switch tree -------------------------------------------------------------- */

/* A node and the switches above it as Slurm gives them to each task in
 * SLURM_TOPOLOGY_ADDR: "spine.leaf0.n1", root first, node last; "n1" alone where Slurm
 * knows no topology (then every node hangs on one leaf called "").
 */
struct dlr_topo_node {
    char name[DLR_TOPO_NAME];
    char path[DLR_TOPO_PATH];
};

/* A component that begins with this is no switch but a domain below the leaf, whose nodes
 * are joined by more than the network (NVLink, a chassis): "spine.leaf0.~nvl3.n1".
 */
#define DLR_TOPO_DOMAIN '~'

/* The leaf switch above a node, "" when there is none: "spine.leaf0.n1" and
 * "spine.leaf0.~nvl3.n1" -> "leaf0". The node's own name may hold dots.
 */
int dlr_topo_leaf(const struct dlr_topo_node *node, char *buf, size_t size);

/* The lowest domain above a node, "" when there is none: "spine.leaf0.~nvl3.n1" ->
 * "nvl3".
 */
int dlr_topo_domain(const struct dlr_topo_node *node, char *buf, size_t size);

/* Switches shared from the root down, 0 when the first differs. */
unsigned dlr_topo_common(const struct dlr_topo_node *a, const struct dlr_topo_node *b);

/* Puts the node into a domain below its leaf; "" none, which changes nothing. What does
 * not fit a component of a path becomes '_'. 0, -ENAMETOOLONG.
 */
int dlr_topo_put_domain(struct dlr_topo_node *node, const char *domain);

#endif
