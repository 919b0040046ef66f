/* SPDX-License-Identifier: Apache-2.0 */
/* A network as ibnetdiscover(8) finds it. Private. */
#ifndef DLR_HWLOC_TOPO_INFINIBAND_H
#define DLR_HWLOC_TOPO_INFINIBAND_H

#include <stdbool.h>

#include "hwloc_topo/placing.h"

/* The output of ibnetdiscover. The levels of a fabric that is no tree: a switch with
 * hosts is a leaf, of level 0; another one is a level above the lowest that it is linked
 * to. What links of switches up to a level join is one switch of that level, named after
 * the first of them that is there. A node with ports on several leaves, as in a fabric
 * with rails, is on that of its first adapter by name.
 */
int dlr_topo_ib_place(char *text, struct dlr_topo_placing *p, struct dlr_err *err);
int dlr_topo_ib_names(char *text, dlr_topo_name_fn fn, void *arg, struct dlr_err *err);
/* Whether the text is of that kind. */
bool dlr_topo_ib_is(const char *text);

#endif
