/* SPDX-License-Identifier: Apache-2.0 */
/* Places of a job that begins: from the deepest level up each switch makes as many
 * groups as it can of what those below it have left over. So every switch has as many
 * within it as its nodes allow, at every level. A place alone is a group of one.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "hwloc_topo/levels.h"
#include "hwloc_topo/rank_order.h"
#include "hwloc_topo/spares.h"

/* A group, and where it stands: behind all that is made of less under its switch. */
struct unit {
    size_t end; /* of its switch, in order */
    unsigned level;
    size_t first; /* its nodes, in the list of those */
};

struct maker {
    size_t n, want; /* nodes; groups wanted */
    unsigned group;
    unsigned *shared; /* [n] levels shared with the node before in order */
    unsigned *left;   /* [nleft] positions in order that no group has */
    size_t nleft;
    unsigned *used; /* [nunits * group] positions, in turn */
    struct unit *units;
    size_t nunits;
    unsigned *number, *between; /* room for a row of switches */
};

static void maker_done(struct maker *m)
{
    free(m->shared);
    free(m->left);
    free(m->used);
    free(m->units);
    free(m->number);
    free(m->between);
}

static int maker_init(struct maker *m, const struct dlr_topo_node *nodes,
                      const unsigned *order, unsigned *ret_depth)
{
    m->shared = calloc(m->n + 1, sizeof(*m->shared));
    m->left = calloc(m->n + 1, sizeof(*m->left));
    m->used = calloc(m->n + 1, sizeof(*m->used));
    m->units = calloc(m->n + 1, sizeof(*m->units));
    m->number = calloc(m->n + 1, sizeof(*m->number));
    m->between = calloc(m->n + 1, sizeof(*m->between));
    if (!m->shared || !m->left || !m->used || !m->units || !m->number || !m->between)
        return -ENOMEM;
    *ret_depth = 0;
    for (size_t i = 0; i < m->n; i++) {
        unsigned depth = dlr_topo_depth(&nodes[order[i]]);

        *ret_depth = depth > *ret_depth ? depth : *ret_depth;
        m->left[i] = (unsigned)i;
        m->shared[i] = i ? dlr_topo_shared(&nodes[order[i - 1]], &nodes[order[i]]) : 0;
    }
    m->nleft = m->n;
    return 0;
}

/* Makes the groups of each switch of this level, which row counts. */
static void make_groups(struct maker *m, unsigned level, struct dlr_topo_row *row)
{
    size_t kept = 0, start = 0, at = 0;

    for (row->n = 0; start < m->n; row->n++) {
        size_t end = start + 1, has = at, groups;

        while (end < m->n && m->shared[end] >= level)
            end++;
        while (has < m->nleft && m->left[has] < end)
            has++;
        groups = (has - at) / m->group;
        m->between[row->n] = m->shared[start];
        m->number[row->n] = (unsigned)groups;
        for (; groups > 0; groups--, at += m->group) {
            size_t first = m->nunits * m->group;

            memcpy(m->used + first, m->left + at, m->group * sizeof(*m->used));
            m->units[m->nunits++] = (struct unit){end, level, first};
        }
        for (; at < has; at++)
            m->left[kept++] = m->left[at];
        start = end;
    }
    m->nleft = kept;
    *row = (struct dlr_topo_row){row->n, m->between, m->number, level};
}

/* Of the groups from unit on, which the row counts, there are more than wanted: nothing
 * is made of what is left any more.
 */
static int drop_groups(struct maker *m, size_t unit, struct dlr_topo_row *row)
{
    size_t to = unit;
    int rc;

    memcpy(m->left, m->number, row->n * sizeof(*m->left));
    rc = dlr_topo_hold_back(row, m->nunits - m->want);
    for (size_t i = 0, at = unit; rc == 0 && i < row->n; at += m->left[i++])
        for (unsigned k = 0; k < row->units[i]; k++)
            m->units[to++] = m->units[at + k];
    m->nunits = rc < 0 ? m->nunits : to;
    return rc;
}

static int by_place(const void *a, const void *b)
{
    const struct unit *x = a, *y = b;

    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    if (x->level != y->level)
        return x->level > y->level ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

int dlr_topo_choose(const struct dlr_topo_node *nodes, const unsigned *order, size_t n,
                    size_t nplaces, unsigned group, unsigned *ret_place)
{
    DLR_CLEANUP(maker_done)
    struct maker m = {.n = n, .want = nplaces / group, .group = group};
    unsigned level;
    int rc = maker_init(&m, nodes, order, &level);

    for (; rc == 0 && m.nunits < m.want; level--) {
        size_t had = m.nunits;
        struct dlr_topo_row row = {0};

        make_groups(&m, level, &row);
        if (m.nunits > m.want)
            rc = drop_groups(&m, had, &row);
    }
    if (rc < 0)
        return rc;
    qsort(m.units, m.nunits, sizeof(*m.units), by_place);
    for (size_t i = 0, p = 0; i < m.nunits; i++)
        for (unsigned k = 0; k < group; k++)
            ret_place[p++] = order[m.used[m.units[i].first + k]];
    return 0;
}
