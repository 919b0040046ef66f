/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of nodes in the switch tree. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "hwloc_topo/levels.h"
#include "hwloc_topo/names.h"
#include "hwloc_topo/topo.h"

/* The lowest switch (or, wanted, the lowest domain) above the node. */
static int lowest(const struct dlr_topo_node *node, bool domain, char *buf, size_t size)
{
    size_t end = dlr_topo_above(node), start;

    for (; end > 0; end = start ? start - 1 : 0) {
        for (start = end; start > 0 && node->path[start - 1] != '.'; start--)
            ;
        if (end > start && (node->path[start] == DLR_TOPO_DOMAIN) == domain)
            return dlr_format(buf, size, "%.*s", (int)(end - start) - domain,
                              node->path + start + domain);
    }
    return dlr_format(buf, size, "%s", "");
}

int dlr_topo_leaf(const struct dlr_topo_node *node, char *buf, size_t size)
{
    return lowest(node, false, buf, size);
}

int dlr_topo_domain(const struct dlr_topo_node *node, char *buf, size_t size)
{
    return lowest(node, true, buf, size);
}

unsigned dlr_topo_common(const struct dlr_topo_node *a, const struct dlr_topo_node *b)
{
    unsigned shared = dlr_topo_shared(a, b);

    return shared == DLR_TOPO_ALL ? dlr_topo_depth(a) : shared;
}
