/* SPDX-License-Identifier: Apache-2.0 */
/* One window of 65,536 places is dealt by a permutation and kept as a table. Each
 * further window is the same one begun at another of 256 places, so that no period of
 * 65,536 is left and the table serves them all.
 */
#include "feed/mixture.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "feed/permute.h"

#define TURNS 256
#define TURN (DLR_MIXTURE_PARTS / TURNS)

struct dlr_mixture {
    unsigned n;
    uint64_t key;
    uint32_t parts[DLR_MIXTURE_SOURCES];
    uint8_t source[DLR_MIXTURE_PARTS]; /* of each place of the window */
    uint16_t rank[DLR_MIXTURE_PARTS];  /* how many of the same come before it */
    uint32_t before[TURNS + 1][DLR_MIXTURE_SOURCES]; /* each TURN-th place */
};

static int check_weights(const double *weights, unsigned n, double *ret_sum,
                         struct dlr_err *err)
{
    double sum = 0;

    for (unsigned i = 0; i < n; i++) {
        if (!isfinite(weights[i]) || weights[i] < 0)
            return dlr_fail(err, -EINVAL, "weight %u is %g: it must be 0 or more", i,
                            weights[i]);
        sum += weights[i];
    }
    if (n == 0 || n > DLR_MIXTURE_SOURCES || !(sum > 0) || !isfinite(sum))
        return dlr_fail(err, -EINVAL, "weights of %u sources add up to %g", n, sum);
    *ret_sum = sum;
    return 0;
}

/* The one that has most above, or below, its due. Ties go to the first. */
static unsigned furthest(const double *weights, unsigned n, double sum,
                         const uint32_t *parts, int sign)
{
    unsigned found = n;
    double most = -INFINITY;

    for (unsigned i = 0; i < n; i++) {
        const double off = sign * (weights[i] / sum * DLR_MIXTURE_PARTS - parts[i]);

        if (weights[i] > 0 && (sign > 0 || parts[i] > 1) && off > most) {
            most = off;
            found = i;
        }
    }
    return found;
}

int dlr_mixture_parts(const double *weights, unsigned n, uint32_t *ret_parts,
                      struct dlr_err *err)
{
    double sum = 0;
    int64_t left = DLR_MIXTURE_PARTS;
    int rc = check_weights(weights, n, &sum, err);

    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < n; i++) {
        ret_parts[i] = (uint32_t)(weights[i] / sum * DLR_MIXTURE_PARTS);
        if (weights[i] > 0 && ret_parts[i] == 0)
            ret_parts[i] = 1;
        left -= ret_parts[i];
    }
    for (; left > 0; left--)
        ret_parts[furthest(weights, n, sum, ret_parts, 1)]++;
    for (; left < 0; left++)
        ret_parts[furthest(weights, n, sum, ret_parts, -1)]--;
    return 0;
}

static void fill(struct dlr_mixture *m)
{
    uint32_t seen[DLR_MIXTURE_SOURCES] = {0};
    struct dlr_permute deal;

    dlr_permute_init(&deal, DLR_MIXTURE_PARTS, m->key);
    for (uint32_t place = 0; place < DLR_MIXTURE_PARTS; place++) {
        uint64_t dealt = dlr_permute_at(&deal, place);
        unsigned source = 0;

        while (dealt >= m->parts[source])
            dealt -= m->parts[source++];
        if (place % TURN == 0)
            for (unsigned i = 0; i < m->n; i++)
                m->before[place / TURN][i] = seen[i];
        m->source[place] = (uint8_t)source;
        m->rank[place] = (uint16_t)seen[source]++;
    }
    for (unsigned i = 0; i < m->n; i++)
        m->before[TURNS][i] = seen[i];
}

int dlr_mixture_new(const uint32_t *parts, unsigned n, uint64_t key,
                    struct dlr_mixture **ret)
{
    struct dlr_mixture *m = calloc(1, sizeof(*m));

    if (!m)
        return -ENOMEM;
    m->n = n;
    m->key = key;
    for (unsigned i = 0; i < n; i++)
        m->parts[i] = parts[i];
    fill(m);
    *ret = m;
    return 0;
}

struct dlr_mixture *dlr_mixture_free(struct dlr_mixture *m)
{
    free(m);
    return NULL;
}

static unsigned turn_of(const struct dlr_mixture *m, uint64_t window)
{
    return dlr_permute_mix(m->key, window) % TURNS;
}

unsigned dlr_mixture_at(const struct dlr_mixture *m, uint64_t position,
                        uint64_t *ret_before)
{
    const uint64_t window = position / DLR_MIXTURE_PARTS;
    const unsigned turn = turn_of(m, window),
                   place = (position + turn * TURN) % DLR_MIXTURE_PARTS,
                   source = m->source[place];
    int64_t rank = (int64_t)m->rank[place] - m->before[turn][source];

    if (place < turn * TURN) /* it has come round */
        rank += m->parts[source];
    *ret_before = window * m->parts[source] + (uint64_t)rank;
    return source;
}

/* In the window as it is in the table. */
static uint64_t count_before(const struct dlr_mixture *m, unsigned place,
                             unsigned source)
{
    uint64_t n = m->before[place / TURN][source];

    for (unsigned i = place / TURN * TURN; i < place; i++)
        n += m->source[i] == source;
    return n;
}

uint64_t dlr_mixture_before(const struct dlr_mixture *m, uint64_t position,
                            unsigned source)
{
    const uint64_t window = position / DLR_MIXTURE_PARTS;
    const unsigned from = turn_of(m, window) * TURN,
                   to = from + position % DLR_MIXTURE_PARTS;
    uint64_t n = window * m->parts[source];

    if (to <= DLR_MIXTURE_PARTS)
        return n + count_before(m, to, source) - count_before(m, from, source);
    n += m->parts[source] - count_before(m, from, source);
    return n + count_before(m, to - DLR_MIXTURE_PARTS, source);
}
