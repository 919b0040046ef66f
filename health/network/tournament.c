/* SPDX-License-Identifier: Apache-2.0 */
/* Who meets whom, and what they saw. What is thought of it: opinion.c, judge.c. */
#include "health/network/tournament.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "health/network/state.h"

/* Whom each node meets at least, at first: two of them may be bad. */
#define FIRST_LEAST 3

/* --- the object ------------------------------------------------------------------- */

/* Players of the circle: one that is not there makes them even. */
static unsigned circle(unsigned n)
{
    return n + n % 2;
}

static unsigned first_rounds(unsigned n)
{
    unsigned rounds = 0;

    while (1u << rounds < n)
        rounds++;
    if (rounds < FIRST_LEAST + n % 2) /* of an odd number one waits */
        rounds = FIRST_LEAST + n % 2;
    return rounds < circle(n) - 1 ? rounds : circle(n) - 1;
}

int dlr_tournament_new(unsigned n, unsigned rails, const uint64_t *leaf,
                       struct dlr_tournament **ret)
{
    struct dlr_tournament *t;
    size_t pairs;

    if (n < 2 || n > INT_MAX / 64 || rails < 1 || rails > DLR_TOURNAMENT_RAILS)
        return -EINVAL;
    t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    t->n = n;
    t->rails = rails;
    t->first = first_rounds(n);
    t->most = t->first + DLR_TOURNAMENT_AGAIN;
    pairs = (size_t)(n / 2) * t->most;
    t->pairs = calloc(pairs, sizeof(*t->pairs));
    t->seen = calloc(pairs, 2 * rails * sizeof(*t->seen));
    t->met = calloc((size_t)n * t->most, sizeof(*t->met));
    t->nmet = calloc(n, 1);
    t->leaf = calloc(n, sizeof(*t->leaf));
    if (!t->pairs || !t->seen || !t->met || !t->nmet || !t->leaf) {
        dlr_tournament_free(t);
        return -ENOMEM;
    }
    if (leaf)
        memcpy(t->leaf, leaf, n * sizeof(*leaf));
    *ret = t;
    return 0;
}

struct dlr_tournament *dlr_tournament_free(struct dlr_tournament *t)
{
    if (!t)
        return NULL;
    free(t->pairs);
    free(t->seen);
    free(t->met);
    free(t->nmet);
    free(t->leaf);
    free(t);
    return NULL;
}

unsigned dlr_tournament_rounds(const struct dlr_tournament *t)
{
    return t->round;
}

unsigned dlr_tournament_pairs(const struct dlr_tournament *t)
{
    return t->npairs;
}

struct dlr_net_pair dlr_tournament_pair(const struct dlr_tournament *t, unsigned i)
{
    return t->pairs[i];
}

const struct dlr_net_pair *dlr_net_met(const struct dlr_tournament *t, unsigned a,
                                       unsigned b)
{
    for (unsigned k = 0; k < t->nmet[a]; k++) {
        const struct dlr_net_pair *p = &t->pairs[t->met[(size_t)a * t->most + k]];

        if (p->a == b || p->b == b)
            return p;
    }
    return NULL;
}

/* --- the circle method ------------------------------------------------------------ */

/* Round r of c - 1: the last player meets r, any other i meets j with i + j = 2 r modulo
 * c - 1. Our rounds lie far apart, so that a node does not meet three neighbours.
 */
static void circle_round(const struct dlr_tournament *t, unsigned round,
                         unsigned *ret_partner)
{
    unsigned c = circle(t->n), turns = c - 1, step = turns / t->first;
    unsigned r = (round * step + round / t->first) % turns;

    for (unsigned i = 0; i < t->n; i++) {
        unsigned j = i == turns ? r : (2 * r + turns - i) % turns;

        if (j == i)
            j = turns;
        ret_partner[i] = j < t->n ? j : i;
    }
}

/* --- who meets again -------------------------------------------------------------- */

struct doubts {
    const struct dlr_tournament *t;
    struct dlr_net_opinion rail[DLR_TOURNAMENT_RAILS];
    unsigned char *good; /* [n] on every rail */
    unsigned *partner;   /* [n] */
    unsigned ngood, pairs;
};

static void cleanup_doubts(struct doubts *d)
{
    for (unsigned r = 0; r < d->t->rails; r++)
        dlr_net_opinion_done(&d->rail[r]);
    free(d->good);
    free(d->partner);
}

static int make_doubts(struct doubts *d)
{
    const struct dlr_tournament *t = d->t;
    int rc = 0;

    d->good = malloc(t->n);
    d->partner = calloc(t->n, sizeof(*d->partner));
    if (!d->good || !d->partner)
        return -ENOMEM;
    memset(d->good, 1, t->n);
    for (unsigned r = 0; rc == 0 && r < t->rails; r++) {
        rc = dlr_net_opinion_make(t, r, &d->rail[r]);
        for (unsigned i = 0; rc == 0 && i < t->n; i++)
            d->good[i] = d->good[i] && d->rail[r].node[i] == DLR_NET_GOOD;
    }
    for (unsigned i = 0; i < t->n; i++) {
        d->partner[i] = i;
        d->ngood += d->good[i];
    }
    return rc;
}

static void join(struct doubts *d, unsigned a, unsigned b)
{
    d->partner[a] = b;
    d->partner[b] = a;
    d->pairs++;
}

/* A node that is known to be good and free, and that i has not met; i: there is none. */
static unsigned nearest_good(const struct doubts *d, unsigned i)
{
    for (unsigned far = 1; far < d->t->n; far++)
        for (unsigned up = 0; up < 2; up++) {
            unsigned g = up ? i + far : i - far; /* below 0: a large number */

            if (g < d->t->n && d->good[g] && d->partner[g] == g &&
                !dlr_net_met(d->t, i, g))
                return g;
        }
    return i;
}

/* Near ones first: whoever has met only nodes behind a slow uplink is cleared so. */
static void join_suspects(struct doubts *d)
{
    unsigned left = d->ngood;

    for (unsigned i = 0; i < d->t->n && left; i++) {
        unsigned g = d->good[i] ? i : nearest_good(d, i);

        if (g == i)
            continue;
        join(d, i, g);
        left--;
    }
}

static bool is_doubtful(const struct doubts *d, const struct dlr_net_pair *p)
{
    for (unsigned r = 0; r < d->t->rails; r++)
        for (unsigned side = 0; side < 2; side++)
            if (dlr_net_unexplained(d->t, &d->rail[r], p, r, DLR_NET_OUT, side) ||
                dlr_net_unexplained(d->t, &d->rail[r], p, r, DLR_NET_LATENCY, side))
                return true;
    return false;
}

static void join_doubtful(struct doubts *d)
{
    for (unsigned i = 0; i < d->t->npairs; i++) {
        const struct dlr_net_pair *p = &d->t->pairs[i];

        if (p->tries == 1 && d->partner[p->a] == p->a && d->partner[p->b] == p->b &&
            is_doubtful(d, p))
            join(d, p->a, p->b);
    }
}

static bool again(const struct dlr_tournament *t, unsigned *ret_partner)
{
    DLR_CLEANUP(cleanup_doubts) struct doubts d = {.t = t};

    if (make_doubts(&d) < 0)
        return false;
    if (!d.ngood) { /* nobody to compare with: the whole circle, twice */
        circle_round(t, t->round, ret_partner);
        return t->round < 2 * (circle(t->n) - 1);
    }
    join_suspects(&d);
    join_doubtful(&d);
    if (d.pairs)
        memcpy(ret_partner, d.partner, t->n * sizeof(*ret_partner));
    return d.pairs > 0;
}

bool dlr_tournament_next(struct dlr_tournament *t, unsigned *ret_partner)
{
    if (t->round == t->most || (t->round >= t->first && !again(t, ret_partner)))
        return false;
    if (t->round < t->first)
        circle_round(t, t->round, ret_partner);
    t->round++;
    return true;
}

/* --- what they saw ---------------------------------------------------------------- */

static struct dlr_net_pair *pair_of(struct dlr_tournament *t, unsigned a, unsigned b)
{
    struct dlr_net_pair *p = (struct dlr_net_pair *)dlr_net_met(t, a, b);

    if (p)
        return p;
    p = &t->pairs[t->npairs];
    *p = (struct dlr_net_pair){a, b, 0, t->seen + (size_t)t->npairs * 2 * t->rails};
    t->met[(size_t)a * t->most + t->nmet[a]++] = t->npairs;
    t->met[(size_t)b * t->most + t->nmet[b]++] = t->npairs++;
    return p;
}

static void keep_better(struct dlr_net_seen *kept, const struct dlr_net_seen *seen)
{
    if (seen->latency_us > 0 &&
        (kept->latency_us <= 0 || seen->latency_us < kept->latency_us))
        kept->latency_us = seen->latency_us;
    if (seen->mbps > kept->mbps)
        kept->mbps = seen->mbps;
    kept->wrong = kept->wrong || seen->wrong;
}

void dlr_tournament_record(struct dlr_tournament *t, const unsigned *partner,
                           const struct dlr_net_seen *seen)
{
    for (unsigned a = 0; a < t->n; a++) {
        unsigned b = partner[a];
        struct dlr_net_seen *kept;
        struct dlr_net_pair *p;

        if (b <= a)
            continue;
        p = pair_of(t, a, b);
        kept = t->seen + (p->seen - t->seen);
        p->tries++;
        for (unsigned r = 0; r < t->rails; r++) {
            keep_better(&kept[2 * r], &seen[(size_t)a * t->rails + r]);
            keep_better(&kept[2 * r + 1], &seen[(size_t)b * t->rails + r]);
        }
    }
}
