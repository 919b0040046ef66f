/* SPDX-License-Identifier: Apache-2.0 */
/* Rank order: nodes of one leaf stand together; after a loss only lost nodes' ranks
 * move.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "hwloc_topo/names.h"
#include "hwloc_topo/topo.h"

static int by_place(const void *a, const void *b, void *arg)
{
    const struct dlr_topo_node *nodes = arg;
    const struct dlr_topo_node *x = &nodes[*(const unsigned *)a];
    const struct dlr_topo_node *y = &nodes[*(const unsigned *)b];
    int rc = dlr_topo_path_cmp(x->path, dlr_topo_above(x), y->path, dlr_topo_above(y));

    return rc ? rc
              : dlr_topo_name_cmp(x->name, strlen(x->name), y->name, strlen(y->name));
}

void dlr_topo_order(const struct dlr_topo_node *nodes, size_t n, unsigned *ret_order)
{
    unsigned i;

    for (i = 0; i < n; i++)
        ret_order[i] = i;
    qsort_r(ret_order, n, sizeof(*ret_order), by_place, (void *)nodes);
}

/* Of the free nodes (in natural name order) the first that shares exactly level
 * switches with the lost one, or -1.
 */
static long find_free(const struct dlr_topo_node *nodes, const unsigned *by_name,
                      size_t n, const unsigned char *is_free,
                      const struct dlr_topo_node *lost, unsigned level)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (is_free[by_name[i]] &&
            dlr_topo_common(nodes[by_name[i]].path, lost->path) == level)
            return by_name[i];
    return -1;
}

static int by_name(const void *a, const void *b, void *arg)
{
    const struct dlr_topo_node *nodes = arg;
    const char *x = nodes[*(const unsigned *)a].name,
               *y = nodes[*(const unsigned *)b].name;

    return dlr_topo_name_cmp(x, strlen(x), y, strlen(y));
}

static unsigned depth(const struct dlr_topo_node *node)
{
    unsigned n = 0;
    const char *p;

    for (p = strchr(node->path, '.'); p; p = strchr(p + 1, '.'))
        n++;
    return n;
}

/* Closest pairs first over all lost places: one place's second choice must not take
 * another's neighbour on its own leaf.
 */
static void fill_places(const struct dlr_topo_node *nodes, const unsigned *sorted,
                        size_t n, unsigned *place, size_t nplaces,
                        unsigned char *is_lost, unsigned char *is_free,
                        unsigned deepest)
{
    unsigned level;
    size_t p;

    for (level = deepest + 1; level-- > 0;)
        for (p = 0; p < nplaces; p++) {
            long i = !is_lost[p] ? -1
                                 : find_free(nodes, sorted, n, is_free,
                                             &nodes[place[p]], level);

            if (i < 0)
                continue;
            place[p] = (unsigned)i;
            is_free[i] = 0;
            is_lost[p] = 0;
        }
}

int dlr_topo_replace(const struct dlr_topo_node *nodes, size_t n, const unsigned *place,
                     size_t nplaces, const unsigned char *alive, unsigned *ret_place,
                     struct dlr_err *err)
{
    DLR_AUTO_FREE unsigned *work = calloc(n + nplaces + 1, sizeof(*work));
    DLR_AUTO_FREE unsigned char *flags = calloc(n + nplaces + 1, 1);
    unsigned char *is_free = flags, *is_lost = flags + n;
    size_t nfree = 0, nlost = 0, i, p;
    unsigned deepest = 0, *sorted = work, *out = work + n;

    if (!work || !flags)
        return dlr_fail(err, -ENOMEM, "out of memory");
    for (i = 0; i < n; i++) {
        is_free[i] = alive[i] != 0;
        sorted[i] = (unsigned)i;
    }
    for (p = 0; p < nplaces; p++) {
        is_free[place[p]] = 0;
        is_lost[p] = !alive[place[p]];
        nlost += is_lost[p];
        if (is_lost[p] && depth(&nodes[place[p]]) > deepest)
            deepest = depth(&nodes[place[p]]);
    }
    for (i = 0; i < n; i++)
        nfree += is_free[i];
    if (nfree < nlost)
        return dlr_fail(err, -ENOSPC, "%zu nodes are lost and %zu are free: %zu short",
                        nlost, nfree, nlost - nfree);
    memcpy(out, place, nplaces * sizeof(*out));
    if (nlost) {
        qsort_r(sorted, n, sizeof(*sorted), by_name, (void *)nodes);
        fill_places(nodes, sorted, n, out, nplaces, is_lost, is_free, deepest);
    }
    memcpy(ret_place, out, nplaces * sizeof(*out));
    return 0;
}
