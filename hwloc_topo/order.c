/* SPDX-License-Identifier: Apache-2.0 */
/* Rank order: nodes of one leaf stand together; after a loss only lost nodes' ranks
 * move.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "hwloc_topo/levels.h"
#include "hwloc_topo/names.h"
#include "hwloc_topo/rank_order.h"

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

/* --- after a loss ----------------------------------------------------------------- */

/* A place without a node, or a node without a place. */
struct open {
    const struct dlr_topo_node *node; /* of a place: the one it has lost */
    unsigned at;                      /* place, or index of the node */
    bool is_place, done;
    unsigned shared; /* levels shared with the one before */
};

static int by_switch(const void *a, const void *b)
{
    const struct open *x = a, *y = b;
    int rc = dlr_topo_path_cmp(x->node->path, dlr_topo_above(x->node), y->node->path,
                               dlr_topo_above(y->node));

    if (rc || x->is_place != y->is_place)
        return rc ? rc : y->is_place - x->is_place;
    if (x->is_place)
        return (x->at > y->at) - (x->at < y->at);
    return dlr_topo_name_cmp(x->node->name, strlen(x->node->name), y->node->name,
                             strlen(y->node->name));
}

/* Of one switch: its first place gets its first node, and so on. */
static void pair_up(struct open *open, size_t n, unsigned *place)
{
    size_t free = 0;

    for (size_t i = 0; i < n; i++) {
        if (!open[i].is_place)
            continue;
        while (free < n && open[free].is_place)
            free++;
        if (free == n)
            return;
        place[open[i].at] = open[free].at;
        open[i].done = open[free++].done = true;
    }
}

static size_t drop_done(struct open *open, size_t n)
{
    size_t to = 0;
    unsigned shared = DLR_TOPO_ALL;

    for (size_t i = 0; i < n; i++) {
        shared = open[i].shared < shared ? open[i].shared : shared;
        if (open[i].done)
            continue;
        open[to] = open[i];
        open[to++].shared = shared;
        shared = DLR_TOPO_ALL;
    }
    return to;
}

/* From the deepest level up: one place's second choice must not take another's
 * neighbour on its own leaf.
 */
static void fill_places(struct open *open, size_t n, unsigned *place)
{
    unsigned level = 0;

    qsort(open, n, sizeof(*open), by_switch);
    for (size_t i = 0; i < n; i++) {
        unsigned depth = dlr_topo_depth(open[i].node);

        level = depth > level ? depth : level;
        open[i].shared = i ? dlr_topo_shared(open[i - 1].node, open[i].node) : 0;
    }
    for (level++; level-- > 0; n = drop_done(open, n))
        for (size_t start = 0, end; start < n; start = end) {
            for (end = start + 1; end < n && open[end].shared >= level;)
                end++;
            pair_up(open + start, end - start, place);
        }
}

int dlr_topo_replace(const struct dlr_topo_node *nodes, size_t n, const unsigned *place,
                     size_t nplaces, const unsigned char *alive, unsigned *ret_place,
                     struct dlr_err *err)
{
    DLR_AUTO_FREE struct open *open = calloc(n + nplaces + 1, sizeof(*open));
    DLR_AUTO_FREE unsigned char *seated = calloc(n + 1, 1);
    size_t nlost = 0, nopen, i;

    if (!open || !seated)
        return dlr_fail(err, -ENOMEM, "out of memory");
    for (i = 0; i < nplaces; i++) {
        seated[place[i]] = 1;
        if (!alive[place[i]])
            open[nlost++] =
                (struct open){&nodes[place[i]], (unsigned)i, true, false, 0};
    }
    for (i = 0, nopen = nlost; i < n; i++)
        if (alive[i] && !seated[i])
            open[nopen++] = (struct open){&nodes[i], (unsigned)i, false, false, 0};
    if (nopen - nlost < nlost)
        return dlr_fail(err, -ENOSPC, "%zu nodes are lost and %zu are free: %zu short",
                        nlost, nopen - nlost, 2 * nlost - nopen);
    memmove(ret_place, place, nplaces * sizeof(*place));
    if (nlost)
        fill_places(open, nopen, ret_place);
    return 0;
}

/* --- a new order of those that have places ---------------------------------------- */

/* Nodes of one switch, place by place. */
struct waiting {
    unsigned *first, *next; /* by switch, by place; NOBODY ends */
};

#define NOBODY (~0u)

/* Of the nodes that stood at places those of the same switch as the new order has there
 * stay; the others of a switch take its other places.
 */
static void keep_places(const unsigned *was, const unsigned *is, const unsigned *place,
                        size_t nplaces, const struct waiting *w, unsigned *to)
{
    for (size_t p = 0; p < nplaces; p++)
        w->first[was[p]] = w->first[is[p]] = NOBODY;
    for (size_t p = nplaces; p-- > 0;)
        if (was[p] != is[p]) {
            w->next[p] = w->first[was[p]];
            w->first[was[p]] = (unsigned)p;
        }
    for (size_t p = 0; p < nplaces; p++) {
        unsigned from = was[p] == is[p] ? (unsigned)p : w->first[is[p]];

        if (from != p)
            w->first[is[p]] = w->next[from];
        to[p] = place[from];
    }
}

/* leaf has the numbers of the leaves before, and then of those now. */
static void count_moves(const unsigned *place, const unsigned *to, const unsigned *leaf,
                        size_t nplaces, unsigned *into, struct dlr_topo_moves *ret)
{
    *ret = (struct dlr_topo_moves){0};
    memset(into, 0, nplaces * 2 * sizeof(*into));
    for (size_t p = 0; p < nplaces; p++) {
        ret->nodes += place[p] != to[p];
        if (leaf[p] != leaf[nplaces + p] && ++into[leaf[nplaces + p]] > ret->most)
            ret->most = into[leaf[nplaces + p]];
    }
}

int dlr_topo_renew(const struct dlr_topo_node *nodes, const unsigned *place,
                   size_t nplaces, unsigned group, unsigned *ret_place,
                   struct dlr_topo_moves *ret)
{
    DLR_AUTO_FREE unsigned *at = calloc(2 * nplaces + 1, sizeof(*at));
    DLR_AUTO_FREE unsigned *number = calloc(2 * nplaces + 1, sizeof(*number));
    DLR_AUTO_FREE unsigned *first = calloc(2 * nplaces + 1, sizeof(*first));
    DLR_AUTO_FREE unsigned *next = calloc(nplaces + 1, sizeof(*next));
    unsigned *now = at + nplaces;
    int rc = at && number && first && next ? 0 : -ENOMEM;

    if (rc < 0)
        return rc;
    memcpy(at, place, nplaces * sizeof(*at));
    memcpy(next, place, nplaces * sizeof(*next));
    qsort_r(next, nplaces, sizeof(*next), by_place, (void *)nodes);
    rc = dlr_topo_choose(nodes, next, nplaces, nplaces, group, now);
    if (rc == 0)
        rc = dlr_topo_number(nodes, at, 2 * nplaces, dlr_topo_above, number);
    if (rc < 0)
        return rc;
    keep_places(number, number + nplaces, at, nplaces, &(struct waiting){first, next},
                now);
    rc = dlr_topo_number(nodes, at, 2 * nplaces, dlr_topo_to_leaf, number);
    if (rc < 0)
        return rc;
    count_moves(at, now, number, nplaces, first, ret);
    memcpy(ret_place, now, nplaces * sizeof(*now));
    return 0;
}

/* --- what an order costs ---------------------------------------------------------- */

static void count_split(const unsigned *leaf, size_t nplaces, unsigned group,
                        unsigned *seen, struct dlr_topo_cost *ret)
{
    for (unsigned g = 0; (g + 1) * (size_t)group <= nplaces; g++) {
        unsigned leaves = 0;

        for (size_t p = (size_t)g * group; p < (g + 1) * (size_t)group; p++) {
            leaves += seen[leaf[p]] != g + 1;
            seen[leaf[p]] = g + 1;
        }
        if (leaves > 1 && ret->split++ == 0) {
            ret->first = g;
            ret->leaves = leaves;
        }
    }
}

int dlr_topo_cost(const struct dlr_topo_node *nodes, const unsigned *place,
                  size_t nplaces, unsigned group, struct dlr_topo_cost *ret)
{
    DLR_AUTO_FREE unsigned *leaf = calloc(nplaces + 1, sizeof(*leaf));
    DLR_AUTO_FREE unsigned *seen = calloc(nplaces + 1, sizeof(*seen));
    int leaves = leaf && seen
                     ? dlr_topo_number(nodes, place, nplaces, dlr_topo_to_leaf, leaf)
                     : -ENOMEM;

    if (leaves < 0)
        return leaves;
    *ret = (struct dlr_topo_cost){.least = leaves > 1 ? (unsigned)leaves : 0};
    for (size_t p = 0; p < nplaces; p++)
        ret->apart += leaf[p] != leaf[(p + 1) % nplaces];
    if (group > 1)
        count_split(leaf, nplaces, group, seen, ret);
    return 0;
}
