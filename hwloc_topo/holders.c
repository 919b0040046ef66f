/* SPDX-License-Identifier: Apache-2.0 */
/* Holders: who keeps whose copies, or parity. */
#include "hwloc_topo/holders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "hwloc_topo/levels.h"
#include "hwloc_topo/names.h"

#define TRIES (1u << 24) /* exchanges of all parts together */
#define ONE_LEAF 4u      /* weighs more than one domain in it */

struct parts {
    const struct dlr_topo_sets *sets;
    unsigned *holder;        /* [n] of part t: of set t / rows, row t % rows */
    size_t n;                /* parts */
    unsigned *leaf, *domain; /* [nplaces] their numbers */
    unsigned *load;          /* [nplaces] parts it holds */
    unsigned tries;          /* exchanges of one part */
};

static void parts_done(struct parts *s)
{
    free(s->leaf);
    free(s->domain);
    free(s->load);
}

/* --- without regard to nodes ------------------------------------------------------ */

static bool may_hold(const struct parts *s, size_t set, unsigned place)
{
    const unsigned *holder = s->holder + set * s->sets->rows;

    for (unsigned row = 0; row < s->sets->rows; row++)
        if (holder[row] == place)
            return false;
    return place % s->sets->nsets != set;
}

/* The first place at or behind at that may hold a part of set, and holds no more than
 * others.
 */
static unsigned first_free(const struct parts *s, size_t set, size_t at)
{
    size_t nplaces = s->sets->nplaces;

    for (unsigned most = (unsigned)((s->n + nplaces - 1) / nplaces);; most++)
        for (size_t i = 0; i < nplaces; i++) {
            unsigned place = (unsigned)((at + i) % nplaces);

            if (s->load[place] < most && may_hold(s, set, place))
                return place;
        }
}

/* The rows of a set stand between its first place and its second, at equal distances;
 * each row a set's length behind the former one, so that all places get some.
 */
static void spread(struct parts *s)
{
    size_t nsets = s->sets->nsets, rows = s->sets->rows;
    size_t steps = rows < nsets ? rows : nsets - 1;

    memset(s->holder, 0xff, s->n * sizeof(*s->holder));
    for (size_t t = 0; t < s->n; t++) {
        size_t set = t / rows, row = t % rows;
        size_t at = set + (row % steps + 1) * nsets / (steps + 1) + row * nsets;

        s->holder[t] = first_free(s, set, at);
        s->load[s->holder[t]]++;
    }
}

/* --- and with it ------------------------------------------------------------------ */

static unsigned close_by(const struct parts *s, unsigned a, unsigned b)
{
    if (s->leaf[a] != s->leaf[b])
        return 0;
    return ONE_LEAF + (s->domain[a] == s->domain[b]);
}

/* How close place would be to the other parts of t's set, if it held t. */
static unsigned closeness(const struct parts *s, size_t t, unsigned place)
{
    size_t rows = s->sets->rows, set = t / rows;
    unsigned sum = 0;

    for (size_t p = set; p < s->sets->nplaces; p += s->sets->nsets)
        sum += close_by(s, place, (unsigned)p);
    for (size_t u = set * rows; u < (set + 1) * rows; u++)
        if (u != t)
            sum += close_by(s, place, s->holder[u]);
    return sum;
}

/* To a place that holds less. */
static bool move(struct parts *s, size_t t, unsigned now)
{
    unsigned from = s->holder[t];

    for (unsigned i = 1; i <= s->tries && i < s->sets->nplaces; i++) {
        unsigned to = (unsigned)((from + i) % s->sets->nplaces);

        if (s->load[to] >= s->load[from] || !may_hold(s, t / s->sets->rows, to) ||
            closeness(s, t, to) >= now)
            continue;
        s->load[from]--;
        s->load[to]++;
        s->holder[t] = to;
        return true;
    }
    return false;
}

static bool exchange(struct parts *s, size_t t, unsigned now)
{
    unsigned a = s->holder[t];

    for (unsigned i = 1; i <= s->tries && i < s->n; i++) {
        size_t u = (t + i) % s->n;
        unsigned b = s->holder[u];

        if (!may_hold(s, t / s->sets->rows, b) || !may_hold(s, u / s->sets->rows, a) ||
            closeness(s, t, b) + closeness(s, u, a) >= now + closeness(s, u, b))
            continue;
        s->holder[t] = b;
        s->holder[u] = a;
        return true;
    }
    return false;
}

static void keep_apart(struct parts *s)
{
    for (size_t t = 0; t < s->n; t++) {
        unsigned now = closeness(s, t, s->holder[t]);

        while (now > 0 && (move(s, t, now) || exchange(s, t, now)))
            now = closeness(s, t, s->holder[t]);
    }
}

int dlr_topo_holders(const struct dlr_topo_sets *sets, unsigned *ret_holder)
{
    size_t n = sets->nplaces;
    DLR_CLEANUP(parts_done)
    struct parts s = {.sets = sets,
                      .holder = ret_holder,
                      .n = (size_t)sets->nsets * sets->rows,
                      .leaf = calloc(n + 1, sizeof(*s.leaf)),
                      .domain = calloc(n + 1, sizeof(*s.domain)),
                      .load = calloc(n + 1, sizeof(*s.load))};
    int domains;

    if (!s.leaf || !s.domain || !s.load)
        return -ENOMEM;
    if (s.n == 0)
        return 0;
    domains = dlr_topo_number(sets->nodes, sets->place, n, dlr_topo_above, s.domain);
    if (domains < 0 ||
        dlr_topo_number(sets->nodes, sets->place, n, dlr_topo_to_leaf, s.leaf) < 0)
        return -ENOMEM;
    s.tries =
        TRIES / s.n < DLR_TOPO_EXCHANGES ? (unsigned)(TRIES / s.n) : DLR_TOPO_EXCHANGES;
    spread(&s);
    if (domains > 1)
        keep_apart(&s);
    return 0;
}

void dlr_topo_copies(const struct dlr_topo_node *nodes, const unsigned *place,
                     size_t nplaces, unsigned copies, unsigned *ret_holder)
{
    const struct dlr_topo_sets sets = {nodes, place, nplaces, (unsigned)nplaces,
                                       copies};

    for (size_t i = 0; nplaces < 2 && i < nplaces * copies; i++)
        ret_holder[i] = 0;
    if (nplaces < 2 || dlr_topo_holders(&sets, ret_holder) == 0)
        return;
    for (size_t i = 0; i < nplaces * copies; i++) /* any holder is better than none */
        ret_holder[i] = (unsigned)((i / copies + i % copies + 1) % nplaces);
}

void dlr_topo_partners(const struct dlr_topo_node *nodes, const unsigned *place,
                       size_t nplaces, unsigned *ret_partner)
{
    dlr_topo_copies(nodes, place, nplaces, 1, ret_partner);
}
