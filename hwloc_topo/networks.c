/* SPDX-License-Identifier: Apache-2.0 */
#include "hwloc_topo/networks.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "hwloc_topo/infiniband.h"
#include "hwloc_topo/placing.h"
#include "hwloc_topo/slurm_text.h"

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
    DLR_CLEANUP(dlr_topo_placing_done) struct dlr_topo_placing p = {0};
    DLR_AUTO_FREE char *copy = strdup(text);
    int rc;

    if (!copy || dlr_topo_placing_init(&p, nodes, n) < 0)
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

/* --- several of them -------------------------------------------------------------- */

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
        dlr_topo_leaf(&nodes[i], leaves[i].name, sizeof(leaves[i].name));
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
        dlr_topo_leaf(&b[leaves[i - 1].node], x, sizeof(x));
        dlr_topo_leaf(&b[leaves[i].node], y, sizeof(y));
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
