/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes train and which are kept warm, when a job begins. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "hwloc_topo/topo.h"

static bool same_leaf(const struct dlr_topo_node *a, const struct dlr_topo_node *b)
{
    char x[DLR_TOPO_PATH], y[DLR_TOPO_PATH];

    dlr_topo_leaf(a->path, x, sizeof(x));
    dlr_topo_leaf(b->path, y, sizeof(y));
    return dlr_streq(x, y);
}

/* Takes spares off the fullest leaf, one by one, its last node first. keep gets how
 * many stay at the front of each leaf, at the leaf's start.
 */
static void hold_back(const struct dlr_topo_node *nodes, const unsigned *order,
                      size_t n, size_t nplaces, unsigned *keep)
{
    size_t start = 0, left = n - nplaces, i;

    for (i = 0; i < n; i++) {
        if (i && !same_leaf(&nodes[order[i - 1]], &nodes[order[i]]))
            start = i;
        keep[start]++;
    }
    while (left--) {
        size_t most = 0;

        for (i = 0; i < n; i++)
            if (keep[i] >= keep[most])
                most = i;
        keep[most]--;
    }
}

int dlr_topo_choose(const struct dlr_topo_node *nodes, const unsigned *order, size_t n,
                    size_t nplaces, unsigned *ret_place)
{
    DLR_AUTO_FREE unsigned *keep = calloc(n + 1, sizeof(*keep));
    unsigned stay = 0;
    size_t p = 0, i;

    if (!keep)
        return -ENOMEM;
    hold_back(nodes, order, n, nplaces, keep);
    for (i = 0; i < n && p < nplaces; i++) {
        if (i == 0 || !same_leaf(&nodes[order[i - 1]], &nodes[order[i]]))
            stay = keep[i];
        if (stay) {
            ret_place[p++] = order[i];
            stay--;
        }
    }
    return 0;
}
