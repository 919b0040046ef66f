/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes are kept warm, when a job begins. A set of switches that get no place is
 * a knapsack: its size is the number of spares, its worth the switches that the ring
 * does not have to enter.
 */
#include "hwloc_topo/spares.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "hwloc_topo/rank_order.h"

#define WORTH_MAX (UINT64_MAX / 4)
#define LEVELS_MAX 255 /* a choice is a byte */

struct sack {
    const struct dlr_topo_row *row;
    size_t room;         /* spares that are weighed */
    unsigned lowest;     /* levels above this one have no weight */
    uint64_t base;       /* more than there can be of one level */
    uint64_t *starts;    /* [n + 1] worth of all switches that begin before i */
    uint64_t *worth;     /* [n + 1][room + 1] the best of those from i on */
    unsigned char *take; /* [n][room + 1] level of the switch that goes whole, 0 none */
};

static void sack_done(struct sack *s)
{
    free(s->starts);
    free(s->worth);
    free(s->take);
}

static uint64_t weight(const struct sack *s, unsigned level)
{
    uint64_t w = level >= s->lowest;

    for (; w && level > s->lowest; level--)
        w *= s->base;
    return w;
}

/* Of the switches that begin at one place, from this level down. */
static uint64_t weights_from(const struct sack *s, unsigned level)
{
    uint64_t sum = 0;

    for (; level <= s->row->depth; level++)
        sum += weight(s, level);
    return sum;
}

static int sack_init(struct sack *s, const struct dlr_topo_row *row, size_t spares)
{
    size_t most = DLR_TOPO_CHOOSE_CELLS / (row->n + 1);
    uint64_t top = 1;

    *s = (struct sack){.row = row, .room = spares < most ? spares : most};
    s->base = (s->room < row->n ? s->room : row->n) + 1;
    s->lowest = row->depth;
    while (s->lowest > 1 && top < WORTH_MAX / s->base / s->base) {
        top *= s->base;
        s->lowest--;
    }
    s->starts = calloc(row->n + 1, sizeof(*s->starts));
    s->worth = calloc((row->n + 1) * (s->room + 1), sizeof(*s->worth));
    s->take = calloc(row->n * (s->room + 1), 1);
    if (!s->starts || !s->worth || !s->take)
        return -ENOMEM;
    for (size_t i = 0; i < row->n; i++)
        s->starts[i + 1] = s->starts[i] + weights_from(s, row->shared[i] + 1);
    return 0;
}

static uint64_t *cell(const struct sack *s, size_t i, size_t x)
{
    return &s->worth[i * (s->room + 1) + x];
}

/* The end of the switch of that level that begins at i; units is what it has up to
 * there. Stops when that is more than there is room for.
 */
static size_t end_of(const struct sack *s, size_t from, unsigned level, size_t *units)
{
    size_t j = from;

    while (j < s->row->n && *units <= s->room && s->row->shared[j] >= level)
        *units += s->row->units[j++];
    return j;
}

static void weigh_at(struct sack *s, size_t i)
{
    size_t units = s->row->units[i], j = i + 1;

    memcpy(cell(s, i, 0), cell(s, i + 1, 0), (s->room + 1) * sizeof(*s->worth));
    for (unsigned level = s->row->depth; level > s->row->shared[i]; level--) {
        uint64_t worth;

        j = end_of(s, j, level, &units);
        if (units > s->room)
            return;
        worth = weights_from(s, level) + s->starts[j] - s->starts[i + 1];
        for (size_t x = units; x <= s->room; x++)
            if (*cell(s, j, x - units) + worth > *cell(s, i, x)) {
                *cell(s, i, x) = *cell(s, j, x - units) + worth;
                s->take[i * (s->room + 1) + x] = (unsigned char)level;
            }
    }
}

/* Empties the switches of the best choice, of equals the smallest; units taken. */
static size_t empty_whole(struct sack *s)
{
    size_t x = 0, taken = 0, i;

    for (i = s->row->n; i-- > 0;)
        weigh_at(s, i);
    while (*cell(s, 0, x) < *cell(s, 0, s->room))
        x++;
    for (i = 0; i < s->row->n;) {
        unsigned level = s->take[i * (s->room + 1) + x];
        size_t j = i + 1, units = s->row->units[i];

        if (!level) {
            i++;
            continue;
        }
        j = end_of(s, j, level, &units);
        memset(s->row->units + i, 0, (j - i) * sizeof(*s->row->units));
        taken += units;
        x -= units;
        i = j;
    }
    return taken;
}

static size_t above(const struct dlr_topo_row *row, unsigned limit)
{
    size_t sum = 0;

    for (size_t i = 0; i < row->n; i++)
        sum += row->units[i] > limit ? row->units[i] - limit : 0;
    return sum;
}

/* As if taken one by one from the fullest: none keeps more than limit, and the last of
 * those that have as many keep one less.
 */
static void level_off(const struct dlr_topo_row *row, size_t spares)
{
    unsigned low = 0, limit = UINT32_MAX;

    while (low < limit) {
        unsigned mid = low + (limit - low) / 2;

        if (above(row, mid) <= spares)
            limit = mid;
        else
            low = mid + 1;
    }
    spares -= above(row, limit);
    for (size_t i = row->n; i-- > 0;) {
        bool full = row->units[i] >= limit && limit > 0;

        if (row->units[i] > limit)
            row->units[i] = limit;
        if (full && spares > 0) {
            row->units[i]--;
            spares--;
        }
    }
}

int dlr_topo_hold_back(const struct dlr_topo_row *row, size_t spares)
{
    DLR_CLEANUP(sack_done) struct sack s = {0};
    unsigned least = UINT32_MAX;

    for (size_t i = 0; i < row->n; i++)
        least = row->units[i] < least ? row->units[i] : least;
    if (row->n > 1 && least <= spares && spares > 0 && row->depth <= LEVELS_MAX) {
        if (sack_init(&s, row, spares) < 0)
            return -ENOMEM;
        spares -= empty_whole(&s);
    }
    if (spares > 0)
        level_off(row, spares);
    return 0;
}
