/* SPDX-License-Identifier: Apache-2.0 */
/* Several sources of the switch tree, one tree. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "hwloc_topo/tree.h"

struct leaf {
    size_t node;
    char name[DLR_TOPO_NAME];
};

static int by_leaf(const void *a, const void *b)
{
    const struct leaf *x = a, *y = b;
    int rc = strcmp(x->name, y->name);

    return rc ? rc : (x->node > y->node) - (x->node < y->node);
}

static struct leaf *sort_leaves(const struct dlr_topo_node *nodes, size_t n)
{
    struct leaf *leaves = calloc(n + 1, sizeof(*leaves));

    for (size_t i = 0; leaves && i < n; i++) {
        leaves[i].node = i;
        dlr_topo_leaf(nodes[i].path, leaves[i].name, sizeof(leaves[i].name));
    }
    if (leaves)
        qsort(leaves, n, sizeof(*leaves), by_leaf);
    return leaves;
}

/* Whether two nodes that share a leaf by a are on two by b; of which nodes. */
static bool parts(const struct dlr_topo_node *a, const struct dlr_topo_node *b,
                  size_t n, size_t *ret_i, size_t *ret_j)
{
    DLR_AUTO_FREE struct leaf *leaves = sort_leaves(a, n);
    char x[DLR_TOPO_NAME], y[DLR_TOPO_NAME];

    for (size_t i = 1; leaves && i < n; i++) {
        if (!leaves[i].name[0] || !dlr_streq(leaves[i - 1].name, leaves[i].name))
            continue;
        dlr_topo_leaf(b[leaves[i - 1].node].path, x, sizeof(x));
        dlr_topo_leaf(b[leaves[i].node].path, y, sizeof(y));
        if (!x[0] || !y[0] || dlr_streq(x, y))
            continue;
        *ret_i = leaves[i - 1].node;
        *ret_j = leaves[i].node;
        return true;
    }
    return false;
}

static void add_note(char *note, const char *name, const char *text)
{
    size_t used = strlen(note);

    snprintf(note + used, DLR_TOPO_NOTE - used, "%s%.128s: %s", used ? "; " : "", name,
             text);
}

static void compare(const struct dlr_topo_node *taken, const char *taken_name,
                    const struct dlr_topo_node *other, const char *other_name, size_t n,
                    char *note)
{
    bool together;
    char text[DLR_TOPO_NOTE];
    size_t i, j;

    together = parts(taken, other, n, &i, &j);
    if (!together && !parts(other, taken, n, &i, &j))
        return;
    snprintf(text, sizeof(text), "%.100s and %.100s share no leaf by %.100s", //
             taken[i].name, taken[j].name, together ? other_name : taken_name);
    add_note(note, taken_name, text);
}

int dlr_topo_paths_from_sources(const struct dlr_topo_source *sources,
                                unsigned nsources, struct dlr_topo_node *nodes,
                                size_t n, char *ret_note)
{
    DLR_AUTO_FREE struct dlr_topo_node *other = calloc(n + 1, sizeof(*other));
    int taken = -1;

    ret_note[0] = '\0';
    for (size_t i = 0; i < n; i++)
        memcpy(nodes[i].path, nodes[i].name, sizeof(nodes[i].name));
    if (!other)
        return -ENOMEM;
    for (unsigned s = 0; s < nsources; s++) {
        char note[DLR_TOPO_NOTE] = "";
        struct dlr_err err = {0};
        size_t placed = 0;
        int rc;

        if (!sources[s].text)
            continue;
        for (size_t i = 0; i < n; i++)
            memcpy(other[i].name, nodes[i].name, sizeof(nodes[i].name));
        rc = dlr_topo_paths_from_text(sources[s].text, other, n, &placed, note, &err);
        if (rc == -ENOMEM)
            return rc;
        if (rc < 0)
            add_note(ret_note, sources[s].name, err.text);
        else if (!placed)
            add_note(ret_note, sources[s].name,
                     "it has a switch for none of the nodes");
        else if (taken >= 0)
            compare(nodes, sources[taken].name, other, sources[s].name, n, ret_note);
        if (rc < 0 || !placed || taken >= 0)
            continue;
        memcpy(nodes, other, n * sizeof(*nodes));
        taken = (int)s;
        if (note[0])
            add_note(ret_note, sources[s].name, note);
    }
    return taken;
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
