/* SPDX-License-Identifier: Apache-2.0 */
#include "hwloc_topo/placing.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

static int by_node_name(const void *a, const void *b, void *arg)
{
    const struct dlr_topo_node *nodes = arg;

    return strcmp(nodes[*(const unsigned *)a].name, nodes[*(const unsigned *)b].name);
}

int dlr_topo_placing_init(struct dlr_topo_placing *p, struct dlr_topo_node *nodes,
                          size_t n)
{
    *p = (struct dlr_topo_placing){.nodes = nodes, .n = n};
    p->by_name = calloc(n + 1, sizeof(*p->by_name));
    p->at = calloc(n + 1, sizeof(*p->at));
    if (!p->by_name || !p->at)
        return -ENOMEM;
    for (unsigned i = 0; i < n; i++) {
        p->by_name[i] = i;
        p->at[i] = DLR_TOPO_NOWHERE;
        memcpy(nodes[i].path, nodes[i].name, sizeof(nodes[i].name));
    }
    qsort_r(p->by_name, n, sizeof(*p->by_name), by_node_name, nodes);
    return 0;
}

void dlr_topo_placing_done(struct dlr_topo_placing *p)
{
    free(p->by_name);
    free(p->at);
}

long dlr_topo_placing_find(const struct dlr_topo_placing *p, const char *name)
{
    size_t lo = 0, hi = p->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int rc = strcmp(name, p->nodes[p->by_name[mid]].name);

        if (rc == 0)
            return p->by_name[mid];
        if (rc < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return -1;
}

int dlr_topo_put_above(struct dlr_topo_node *node, const char *name)
{
    char path[DLR_TOPO_PATH];

    if (dlr_format(path, sizeof(path), "%s.%s", name, node->path) < 0)
        return -EBADMSG;
    memcpy(node->path, path, sizeof(path));
    return 0;
}

int dlr_topo_component(const char *name, size_t size, char *ret)
{
    char buf[DLR_TOPO_NAME];

    if (!size || dlr_format(buf, sizeof(buf), "%.*s", (int)size, name) < 0)
        return -EBADMSG;
    for (char *c = buf; *c; c++)
        if (*c <= ' ' || *c >= DLR_TOPO_DOMAIN + (c > buf) || *c == '.')
            *c = '_';
    memcpy(ret, buf, sizeof(buf));
    return 0;
}

void dlr_topo_odd(struct dlr_topo_placing *p, const char *format, ...)
{
    va_list args;

    if (p->note[0]) {
        p->more++;
        return;
    }
    va_start(args, format);
    vsnprintf(p->note, sizeof(p->note), format, args);
    va_end(args);
}

int dlr_topo_put_domain(struct dlr_topo_node *node, const char *domain)
{
    char name[DLR_TOPO_NAME], path[DLR_TOPO_PATH];
    size_t above = dlr_topo_above(node);
    int rc;

    if (!domain[0])
        return 0;
    if (dlr_topo_component(domain, strlen(domain), name) < 0)
        return -ENAMETOOLONG;
    rc = dlr_format(path, sizeof(path), "%.*s%s%c%s.%s", (int)above, node->path,
                    above ? "." : "", DLR_TOPO_DOMAIN, name,
                    node->path + above + (above ? 1 : 0));
    if (rc == 0)
        memcpy(node->path, path, sizeof(path));
    return rc;
}
