/* SPDX-License-Identifier: Apache-2.0 */
/* Names of nodes and switches: their order, and Slurm's short form of many. Private. */
#ifndef DLR_HWLOC_TOPO_NAMES_H
#define DLR_HWLOC_TOPO_NAMES_H

#include <stddef.h>

#include "hwloc_topo/topo.h"

/* Orders n bytes of a and m of b with digits as numbers ("n2" < "n10"); names whose
 * numbers are equal but written differently ("n1", "n01") by their bytes, so 0 means
 * equal bytes.
 */
int dlr_topo_name_cmp(const char *a, size_t n, const char *b, size_t m);

/* Length of the switches' part of a node's path: "spine.leaf0.n1" ->
 * strlen("spine.leaf0"), 0 without switches. A node's own name may hold dots.
 */
size_t dlr_topo_above(const struct dlr_topo_node *node);

/* Orders two switch paths component by component. */
int dlr_topo_path_cmp(const char *a, size_t n, const char *b, size_t m);

/* Calls fn for each name in "n[1-3,07],ctl". Stops at the first fn that returns < 0 and
 * returns that. -EBADMSG for a malformed list or more than DLR_TOPO_EXPAND_MAX names.
 */
#define DLR_TOPO_EXPAND_MAX 1000000u
typedef int (*dlr_topo_name_fn)(const char *name, void *arg);
int dlr_topo_expand(const char *list, size_t size, dlr_topo_name_fn fn, void *arg);

#endif
