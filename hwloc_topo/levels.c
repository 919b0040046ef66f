/* SPDX-License-Identifier: Apache-2.0 */
#include "hwloc_topo/levels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "hwloc_topo/names.h"

unsigned dlr_topo_depth(const struct dlr_topo_node *node)
{
    size_t size = dlr_topo_above(node);
    unsigned n = size > 0;

    for (size_t i = 0; i < size; i++)
        n += node->path[i] == '.';
    return n;
}

unsigned dlr_topo_shared(const struct dlr_topo_node *a, const struct dlr_topo_node *b)
{
    size_t n = dlr_topo_above(a), m = dlr_topo_above(b), i = 0;
    unsigned shared = 0;

    for (; i < n && i < m && a->path[i] == b->path[i]; i++)
        shared += a->path[i] == '.';
    if (i == n && i == m)
        return DLR_TOPO_ALL;
    if (i > 0 && (i == n ? b->path[i] == '.' : i == m && a->path[i] == '.'))
        shared++;
    return shared;
}

size_t dlr_topo_to_leaf(const struct dlr_topo_node *node)
{
    size_t size = dlr_topo_above(node), start = size;

    for (; size > 0; size = start ? start - 1 : 0) {
        for (start = size; start > 0 && node->path[start - 1] != '.'; start--)
            ;
        if (node->path[start] != '~')
            break;
    }
    return size;
}

struct key {
    const char *path;
    size_t size;
    unsigned at;
};

static int by_path(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    int rc = memcmp(x->path, y->path, x->size < y->size ? x->size : y->size);

    return rc ? rc : (x->size > y->size) - (x->size < y->size);
}

int dlr_topo_number(const struct dlr_topo_node *nodes, const unsigned *at, size_t n,
                    dlr_topo_bytes_fn *bytes, unsigned *ret_number)
{
    DLR_AUTO_FREE struct key *keys = calloc(n + 1, sizeof(*keys));
    int count = 0;

    if (!keys)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct dlr_topo_node *node = &nodes[at ? at[i] : i];

        keys[i] = (struct key){node->path, bytes(node), (unsigned)i};
    }
    qsort(keys, n, sizeof(*keys), by_path);
    for (size_t i = 0; i < n; i++) {
        count += i == 0 || by_path(&keys[i - 1], &keys[i]) != 0;
        ret_number[keys[i].at] = (unsigned)count - 1;
    }
    return count;
}
