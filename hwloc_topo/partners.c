/* SPDX-License-Identifier: Apache-2.0 */
/* Partners: who keeps whose copies. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hwloc_topo/names.h"
#include "hwloc_topo/topo.h"

struct seats {
    const struct dlr_topo_node *nodes;
    const unsigned *place;
};

static const struct dlr_topo_node *seat(const struct seats *s, unsigned p)
{
    return &s->nodes[s->place[p]];
}

static int cmp_leaf(const struct seats *s, unsigned p, unsigned q)
{
    const struct dlr_topo_node *a = seat(s, p), *b = seat(s, q);

    return dlr_topo_path_cmp(a->path, dlr_topo_above(a), b->path, dlr_topo_above(b));
}

static int by_leaf(const void *a, const void *b, void *arg)
{
    unsigned p = *(const unsigned *)a, q = *(const unsigned *)b;
    int rc = cmp_leaf(arg, p, q);

    return rc ? rc : (p > q) - (p < q);
}

static size_t largest_group(const struct seats *s, const unsigned *order, size_t n)
{
    size_t best = 0, run = 0, i;

    for (i = 0; i < n; i++) {
        run = i && cmp_leaf(s, order[i - 1], order[i]) == 0 ? run + 1 : 1;
        if (run > best)
            best = run;
    }
    return best;
}

/* With the places of each leaf side by side in a circle, everyone steps on by the size m of
 * the largest group. A group of g <= m places is left by all its members unless g + m > n;
 * that is only so for the largest, of which 2m - n stay, and no permutation does better: its
 * m members share n - m places outside.
 */
void dlr_topo_partners(const struct dlr_topo_node *nodes, const unsigned *place,
                       size_t nplaces, unsigned *ret_partner)
{
    struct seats s = {nodes, place};
    unsigned *order = calloc(nplaces + 1, sizeof(*order));
    size_t shift = 1, i;

    for (i = 0; i < nplaces; i++)
        ret_partner[i] = (unsigned)((i + 1) % nplaces);
    if (!order) /* any partner is better than none */
        return;
    for (i = 0; i < nplaces; i++)
        order[i] = (unsigned)i;
    qsort_r(order, nplaces, sizeof(*order), by_leaf, &s);
    shift = largest_group(&s, order, nplaces);
    if (shift == nplaces)
        shift = 1;
    for (i = 0; i < nplaces; i++)
        ret_partner[order[i]] = order[(i + shift) % nplaces];
    free(order);
}
