/* SPDX-License-Identifier: Apache-2.0 */
/* Partners: who keeps whose copies. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hwloc_topo/names.h"
#include "hwloc_topo/topo.h"

#define TRIED 64 /* steps that are weighed against each other */

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

/* Places in a circle, those of each leaf side by side; everyone takes partners the same
 * number of seats on, so that each keeps as many copies as others keep of it.
 */
struct circle {
    unsigned *order; /* [n] places */
    unsigned *leaf;  /* [n] number of the leaf at each seat */
    size_t n;
};

static void number_leaves(const struct seats *s, struct circle *c)
{
    unsigned leaf = 0;

    for (size_t i = 0; i < c->n; i++) {
        if (i && cmp_leaf(s, c->order[i - 1], c->order[i]) != 0)
            leaf++;
        c->leaf[i] = leaf;
    }
}

static bool is_taken(const size_t *shift, unsigned n, size_t by)
{
    for (unsigned j = 0; j < n; j++)
        if (shift[j] == by)
            return true;
    return false;
}

/* How many pairs of holders of one snapshot would be on different leaves. */
static size_t apart(const struct circle *c, const size_t *shift, unsigned n, size_t by)
{
    size_t pairs = 0;

    for (size_t i = 0; i < c->n; i++) {
        unsigned leaf = c->leaf[(i + by) % c->n];

        pairs += leaf != c->leaf[i];
        for (unsigned j = 0; j < n; j++)
            pairs += leaf != c->leaf[(i + shift[j]) % c->n];
    }
    return pairs;
}

/* The best of the steps that are left; of a large circle's the first TRIED and as many
 * multiples of the first step.
 */
static size_t next_shift(const struct circle *c, const size_t *shift, unsigned n)
{
    size_t best = 0, most = 0, tried = c->n - 1 < 2 * TRIED ? c->n - 1 : 2 * TRIED;

    for (size_t i = 1; i <= tried; i++) {
        size_t by = i <= TRIED ? i * shift[0] % c->n : i - TRIED, pairs;

        if (tried < 2 * TRIED)
            by = (i - 1 + shift[0]) % (c->n - 1) + 1;
        if (by == 0 || is_taken(shift, n, by))
            continue;
        pairs = apart(c, shift, n, by);
        if (best && pairs <= most)
            continue;
        best = by;
        most = pairs;
    }
    return best;
}

/* The first step is the size m of the largest group. A group of g <= m places is left
 * by all its members unless g + m > n; that is only so for the largest, of which 2m - n
 * stay, and no permutation does better: its m members share n - m places outside.
 */
static void choose_shifts(const struct seats *s, const struct circle *c,
                          unsigned copies, size_t *ret_shift)
{
    size_t m = largest_group(s, c->order, c->n);

    ret_shift[0] = m == c->n ? 1 : m;
    for (unsigned j = 1; j < copies; j++) {
        ret_shift[j] = next_shift(c, ret_shift, j);
        for (size_t by = 1; !ret_shift[j]; by++) /* all that were tried are taken */
            if (!is_taken(ret_shift, j, by))
                ret_shift[j] = by;
    }
}

void dlr_topo_copies(const struct dlr_topo_node *nodes, const unsigned *place,
                     size_t nplaces, unsigned copies, unsigned *ret_holder)
{
    struct seats s = {nodes, place};
    struct circle c = {calloc(nplaces + 1, sizeof(*c.order)),
                       calloc(nplaces + 1, sizeof(*c.leaf)), nplaces};
    size_t shift[DLR_TOPO_COPIES_MAX];

    for (size_t i = 0; i < nplaces * copies; i++) /* any holder is better than none */
        ret_holder[i] = (unsigned)((i / copies + i % copies + 1) % nplaces);
    if (c.order && c.leaf && nplaces > 1) {
        for (size_t i = 0; i < nplaces; i++)
            c.order[i] = (unsigned)i;
        qsort_r(c.order, nplaces, sizeof(*c.order), by_leaf, &s);
        number_leaves(&s, &c);
        choose_shifts(&s, &c, copies, shift);
        for (size_t i = 0; i < nplaces; i++)
            for (unsigned j = 0; j < copies; j++)
                ret_holder[c.order[i] * copies + j] = c.order[(i + shift[j]) % nplaces];
    }
    free(c.order);
    free(c.leaf);
}

void dlr_topo_partners(const struct dlr_topo_node *nodes, const unsigned *place,
                       size_t nplaces, unsigned *ret_partner)
{
    dlr_topo_copies(nodes, place, nplaces, 1, ret_partner);
}
