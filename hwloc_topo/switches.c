/* SPDX-License-Identifier: Apache-2.0 */
/* The switch tree: paths of nodes, and how to read them out of Slurm. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "hwloc_topo/names.h"
#include "hwloc_topo/topo.h"

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

/* --- scontrol show topology ------------------------------------------------------- */

struct sw {
    char name[DLR_TOPO_NAME];
    const char *nodes, *switches; /* into the text */
    size_t nnodes, nswitches;     /* their bytes */
    unsigned line;
    int parent; /* -1 none */
};

struct tree {
    struct sw *sw;
    size_t n, room;
    struct dlr_topo_node *nodes;
    unsigned *by_name; /* indices into nodes, sorted */
    size_t nnodes;
    size_t current; /* switch being linked */
};

static void cleanup_tree(struct tree *t)
{
    free(t->sw);
    free(t->by_name);
}

/* The value of " key=VALUE" in a line; its bytes in *ret_size, NULL when absent. */
static const char *field(const char *line, size_t size, const char *key,
                         size_t *ret_size)
{
    size_t nkey = strlen(key), i, n;

    for (i = 0; i + nkey <= size; i++) {
        if ((i && line[i - 1] != ' ') || memcmp(line + i, key, nkey) != 0)
            continue;
        i += nkey;
        for (n = 0; i + n < size && line[i + n] != ' '; n++)
            ;
        *ret_size = n;
        return line + i;
    }
    return NULL;
}

static int add_switch(struct tree *t, const char *line, size_t size, unsigned number,
                      struct dlr_err *err)
{
    const char *name;
    size_t n = 0;
    struct sw *sw;

    if (t->n == t->room) {
        size_t room = t->room ? t->room * 2 : 64;
        struct sw *more = reallocarray(t->sw, room, sizeof(*more));

        if (!more)
            return dlr_fail(err, -ENOMEM, "out of memory");
        t->sw = more;
        t->room = room;
    }
    sw = &t->sw[t->n];
    memset(sw, 0, sizeof(*sw));
    name = field(line, size, "SwitchName=", &n);
    if (!name || name != line + strlen("SwitchName=") || !n ||
        dlr_format(sw->name, sizeof(sw->name), "%.*s", (int)n, name) < 0 ||
        strchr(sw->name, '.'))
        return dlr_fail(err, -EBADMSG, "line %u is not a switch of topology/tree",
                        number);
    sw->nodes = field(line, size, "Nodes=", &sw->nnodes);
    sw->switches = field(line, size, "Switches=", &sw->nswitches);
    sw->line = number;
    sw->parent = -1;
    t->n++;
    return 0;
}

static int read_lines(struct tree *t, const char *text, struct dlr_err *err)
{
    unsigned number = 0;

    while (*text) {
        size_t size = strcspn(text, "\n"), trim = size;
        int rc;

        number++;
        while (trim && (text[trim - 1] == ' ' || text[trim - 1] == '\r'))
            trim--;
        rc = trim ? add_switch(t, text, trim, number, err) : 0;
        if (rc < 0)
            return rc;
        text += size + (text[size] == '\n');
    }
    if (!t->n)
        return dlr_fail(err, -EBADMSG, "line 1 is not a switch of topology/tree");
    return 0;
}

static int by_switch_name(const void *a, const void *b)
{
    return strcmp(((const struct sw *)a)->name, ((const struct sw *)b)->name);
}

static int by_node_name(const void *a, const void *b, void *arg)
{
    const struct dlr_topo_node *nodes = arg;

    return strcmp(nodes[*(const unsigned *)a].name, nodes[*(const unsigned *)b].name);
}

/* A switch that is not described has no level of its own: it is skipped. */
static int link_switch(const char *name, void *arg)
{
    struct tree *t = arg;
    struct sw key, *child;

    if (dlr_format(key.name, sizeof(key.name), "%s", name) < 0)
        return -EBADMSG;
    child = bsearch(&key, t->sw, t->n, sizeof(*t->sw), by_switch_name);
    if (child && child->parent < 0 && child != &t->sw[t->current])
        child->parent = (int)t->current;
    return 0;
}

/* Writes "root.….leaf.name"; a loop in the text ends it after as many steps as
 * switches.
 */
static int write_path(const struct tree *t, struct dlr_topo_node *node)
{
    char path[DLR_TOPO_PATH];
    size_t steps = 0;
    int at;

    if (dlr_format(path, sizeof(path), "%s", node->name) < 0)
        return -EBADMSG;
    for (at = (int)t->current; at >= 0; at = t->sw[at].parent) {
        char longer[DLR_TOPO_PATH];

        if (++steps > t->n ||
            dlr_format(longer, sizeof(longer), "%s.%s", t->sw[at].name, path) < 0)
            return -EBADMSG;
        memcpy(path, longer, sizeof(path));
    }
    memcpy(node->path, path, sizeof(path));
    return 0;
}

static int place_node(const char *name, void *arg)
{
    struct tree *t = arg;
    size_t lo = 0, hi = t->nnodes;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        struct dlr_topo_node *node = &t->nodes[t->by_name[mid]];
        int rc = strcmp(name, node->name);

        if (rc == 0)
            return write_path(t, node);
        if (rc < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return 0; /* a node nobody asked about */
}

/* Links switches first (all), then nodes to the switches that have none below them. */
static int link_all(struct tree *t, struct dlr_err *err)
{
    int pass;

    for (pass = 0; pass < 2; pass++)
        for (t->current = 0; t->current < t->n; t->current++) {
            const struct sw *sw = &t->sw[t->current];
            int rc = 0;

            if (pass == 0 && sw->nswitches)
                rc = dlr_topo_expand(sw->switches, sw->nswitches, link_switch, t);
            if (pass == 1 && !sw->nswitches && sw->nnodes)
                rc = dlr_topo_expand(sw->nodes, sw->nnodes, place_node, t);
            if (rc < 0)
                return dlr_fail(err, rc, "line %u has a malformed list or a loop",
                                sw->line);
        }
    return 0;
}

int dlr_topo_paths_from_slurm(const char *text, struct dlr_topo_node *nodes, size_t n,
                              struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_tree) struct tree t = {.nodes = nodes, .nnodes = n};
    unsigned i;
    int rc;

    t.by_name = calloc(n ? n : 1, sizeof(*t.by_name));
    if (!t.by_name)
        return dlr_fail(err, -ENOMEM, "out of memory");
    rc = read_lines(&t, text, err);
    if (rc < 0)
        return rc;
    for (i = 0; i < n; i++) {
        t.by_name[i] = i;
        memcpy(nodes[i].path, nodes[i].name, sizeof(nodes[i].name));
    }
    qsort_r(t.by_name, n, sizeof(*t.by_name), by_node_name, nodes);
    if (t.n)
        qsort(t.sw, t.n, sizeof(*t.sw), by_switch_name);
    return link_all(&t, err);
}
