/* SPDX-License-Identifier: Apache-2.0 */
/* Switches that nodes share, level by level. Private.
 * A switch that begins with '~' is an NVLink domain or a chassis below a leaf.
 */
#ifndef DLR_HWLOC_TOPO_LEVELS_H
#define DLR_HWLOC_TOPO_LEVELS_H

#include "hwloc_topo/topo.h"

#define DLR_TOPO_ALL (~0u)

/* Switches above a node. */
unsigned dlr_topo_depth(const struct dlr_topo_node *node);

/* Of the switches of both how many from the root down are the same; DLR_TOPO_ALL when
 * neither has others.
 */
unsigned dlr_topo_shared(const struct dlr_topo_node *a, const struct dlr_topo_node *b);

/* Length of a node's path down to its leaf: dlr_topo_above() without what begins with
 * '~'.
 */
size_t dlr_topo_to_leaf(const struct dlr_topo_node *node);

/* Gives those of n nodes (nodes[at[i]]; at NULL: nodes[i]) that have the same first
 * bytes the same number, from 0. Their count, or -ENOMEM.
 */
typedef size_t dlr_topo_bytes_fn(const struct dlr_topo_node *node);
int dlr_topo_number(const struct dlr_topo_node *nodes, const unsigned *at, size_t n,
                    dlr_topo_bytes_fn *bytes, unsigned *ret_number);

#endif
