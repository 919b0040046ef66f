/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/client/save_cost.h"

#include <string.h>

#define LEAST 3 /* steps without a save before there is something to compare with */
/* saves with no step between them are counted as one group at most */
#define TOGETHER 8

static unsigned smaller(uint64_t n, unsigned most)
{
    return n < most ? (unsigned)n : most;
}

/* At most DLR_SAVE_COST_PLAIN values. */
static int64_t midmean(const int64_t *values, unsigned n)
{
    int64_t sorted[DLR_SAVE_COST_PLAIN];
    unsigned drop = (n + 1) / 4;
    double sum = 0;

    for (unsigned i = 0; i < n; i++) {
        unsigned at = i;

        for (; at > 0 && sorted[at - 1] > values[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    for (unsigned i = drop; i < n - drop; i++)
        sum += (double)sorted[i];
    return n ? (int64_t)(sum / (n - 2 * drop)) : 0;
}

int64_t dlr_save_cost_plain_ns(const struct dlr_save_cost *c)
{
    return midmean(c->plain_ns, smaller(c->plains, DLR_SAVE_COST_PLAIN));
}

int64_t dlr_save_cost_extra_ns(const struct dlr_save_cost *c)
{
    return midmean(c->extra_ns, smaller(c->saves, DLR_SAVE_COST_SAVES));
}

static bool close_group(struct dlr_save_cost *c)
{
    bool known = c->under_saves > 0 && c->plains >= LEAST;

    if (known)
        c->extra_ns[c->saves++ % DLR_SAVE_COST_SAVES] =
            (c->under_ns - c->under_steps * dlr_save_cost_plain_ns(c)) / c->under_saves;
    c->under_ns = 0;
    c->under_steps = c->under_saves = 0;
    return known;
}

bool dlr_save_cost_step(struct dlr_save_cost *c, int64_t ns, bool saves, bool overlaps)
{
    bool known = false;

    if (!saves && !overlaps) {
        known = close_group(c);
        c->plain_ns[c->plains++ % DLR_SAVE_COST_PLAIN] = ns;
        return known;
    }
    if (saves && c->under_saves == TOGETHER)
        known = close_group(c);
    c->under_ns += ns;
    c->under_steps++;
    c->under_saves += saves;
    return known;
}
