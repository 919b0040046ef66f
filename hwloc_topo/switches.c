/* SPDX-License-Identifier: Apache-2.0 */
/* The switch tree: paths of nodes, and the way to them from a text. */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "hwloc_topo/topo.h"
#include "hwloc_topo/tree.h"

/* The component that ends at *end, which lies at a dot or at the path's begin: *end goes
 * to its start, its length is returned.
 */
static size_t step_up(const char *path, const char **end)
{
    const char *last = *end;

    while (*end > path && (*end)[-1] != '.')
        (*end)--;
    return (size_t)(last - *end);
}

/* The lowest switch (or, wanted, the lowest domain) above the node. */
static int lowest(const char *path, bool domain, char *buf, size_t size)
{
    const char *at = strrchr(path, '.');

    while (at) {
        size_t n = step_up(path, &at);

        if (n && (*at == DLR_TOPO_DOMAIN) == domain)
            return dlr_format(buf, size, "%.*s", (int)n - domain, at + domain);
        at = at > path ? at - 1 : NULL;
    }
    return dlr_format(buf, size, "%s", "");
}

int dlr_topo_leaf(const char *path, char *buf, size_t size)
{
    return lowest(path, false, buf, size);
}

int dlr_topo_domain(const char *path, char *buf, size_t size)
{
    return lowest(path, true, buf, size);
}

unsigned dlr_topo_common(const char *path_a, const char *path_b)
{
    unsigned n = 0;

    for (;;) {
        const char *a = strchr(path_a, '.'), *b = strchr(path_b, '.');

        if (!a || !b || a - path_a != b - path_b ||
            memcmp(path_a, path_b, (size_t)(a - path_a)) != 0)
            return n;
        n++;
        path_a = a + 1;
        path_b = b + 1;
    }
}

/* --- described networks ----------------------------------------------------------- */

static void cleanup_placing(struct dlr_topo_placing *p)
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

static int by_node_name(const void *a, const void *b, void *arg)
{
    const struct dlr_topo_node *nodes = arg;

    return strcmp(nodes[*(const unsigned *)a].name, nodes[*(const unsigned *)b].name);
}

static int placing_init(struct dlr_topo_placing *p, struct dlr_topo_node *nodes,
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

/* Those on no switch, of the nodes of a network that names some. */
static size_t count_placed(struct dlr_topo_placing *p)
{
    const char *first = NULL;
    size_t placed = 0;

    for (size_t i = 0; i < p->n; i++) {
        const char *name = p->nodes[p->by_name[i]].name;

        if (p->at[p->by_name[i]] != DLR_TOPO_NOWHERE)
            placed++;
        else if (!first)
            first = name;
    }
    if (placed && first)
        dlr_topo_odd(p, "%zu of %zu nodes are on no switch, the first is %s",
                     p->n - placed, p->n, first);
    return placed;
}

static void tell(const struct dlr_topo_placing *p, char *ret_note)
{
    if (p->more)
        dlr_format(ret_note, DLR_TOPO_NOTE, "%.400s, and %u more such lines", p->note,
                   p->more);
    else
        memcpy(ret_note, p->note, sizeof(p->note));
}

int dlr_topo_paths_from_text(const char *text, struct dlr_topo_node *nodes, size_t n,
                             size_t *ret_placed, char *ret_note, struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_placing) struct dlr_topo_placing p = {0};
    DLR_AUTO_FREE char *copy = strdup(text);
    int rc;

    if (!copy || placing_init(&p, nodes, n) < 0)
        return dlr_fail(err, -ENOMEM, "out of memory");
    rc = dlr_topo_ib_is(text) ? dlr_topo_ib_place(copy, &p, err)
                              : dlr_topo_slurm_place(copy, &p, err);
    if (rc < 0) {
        for (size_t i = 0; i < n; i++)
            memcpy(nodes[i].path, nodes[i].name, sizeof(nodes[i].name));
        return rc;
    }
    *ret_placed = count_placed(&p);
    tell(&p, ret_note);
    return 0;
}

struct listed {
    struct dlr_topo_node *nodes;
    size_t n, room;
};

static int add_name(const char *name, void *arg)
{
    struct listed *l = arg;

    if (l->n == DLR_TOPO_EXPAND_MAX)
        return -EBADMSG;
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        struct dlr_topo_node *more = reallocarray(l->nodes, room, sizeof(*more));

        if (!more)
            return -ENOMEM;
        l->nodes = more;
        l->room = room;
    }
    return dlr_format(l->nodes[l->n++].name, DLR_TOPO_NAME, "%s", name);
}

static int by_natural_name(const void *a, const void *b)
{
    const struct dlr_topo_node *x = a, *y = b;

    return dlr_topo_name_cmp(x->name, strlen(x->name), y->name, strlen(y->name));
}

int dlr_topo_nodes_from_text(const char *text, struct dlr_topo_node **ret_nodes,
                             size_t *ret_n, char *ret_note, struct dlr_err *err)
{
    DLR_AUTO_FREE char *copy = strdup(text);
    struct listed l = {0};
    size_t n = 0, placed;
    int rc = !copy                  ? -ENOMEM
             : dlr_topo_ib_is(text) ? dlr_topo_ib_names(copy, add_name, &l, err)
                                    : dlr_topo_slurm_names(copy, add_name, &l, err);

    if (rc == 0 && l.n)
        qsort(l.nodes, l.n, sizeof(*l.nodes), by_natural_name);
    for (size_t i = 0; i < l.n; i++)
        if (i == 0 || !dlr_streq(l.nodes[i].name, l.nodes[n - 1].name))
            l.nodes[n++] = l.nodes[i];
    if (rc == 0)
        rc = dlr_topo_paths_from_text(text, l.nodes, n, &placed, ret_note, err);
    if (rc < 0) {
        free(l.nodes);
        return rc;
    }
    *ret_nodes = l.nodes;
    *ret_n = n;
    return 0;
}
