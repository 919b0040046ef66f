/* SPDX-License-Identifier: Apache-2.0 */
#include "chunk/policy.h"

#include <stddef.h>

#include "common/base/str.h"

static int order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int furthest(const struct dlr_chunk_candidate *a,
                    const struct dlr_chunk_candidate *b)
{
    return order(a->next, b->next);
}

/* Distance / (1 + dirty): who is written back costs two copies instead of one. */
static int weighted(const struct dlr_chunk_candidate *a,
                    const struct dlr_chunk_candidate *b)
{
    return order(a->next * (1 + b->dirty), b->next * (1 + a->dirty));
}

static int lru(const struct dlr_chunk_candidate *a, const struct dlr_chunk_candidate *b)
{
    return order(b->used, a->used);
}

static int fifo(const struct dlr_chunk_candidate *a,
                const struct dlr_chunk_candidate *b)
{
    return order(b->loaded, a->loaded);
}

/* clang-format off */
static const struct dlr_chunk_policy policies[] = {
    {"weighted", "furthest next use, a chunk that must be written back half as far",
     .compare = weighted},
    {"furthest", "furthest next use", .compare = furthest},
    {"lru", "used longest ago", .compare = lru},
    {"fifo", "loaded longest ago", .compare = fifo},
    {"static", "as many as fit stay, the others pass through", .fixed = true},
    {"patrickstar", "furthest next use, each move a copy", .exclusive = true,
     .compare = furthest},
};
/* clang-format on */
#define POLICIES (sizeof(policies) / sizeof(*policies))

const struct dlr_chunk_policy *dlr_chunk_policy_at(unsigned i)
{
    return i < POLICIES ? &policies[i] : NULL;
}

const struct dlr_chunk_policy *dlr_chunk_policy_find(const char *name)
{
    if (!name)
        return &policies[0];
    for (unsigned i = 0; i < POLICIES; i++)
        if (dlr_streq(policies[i].name, name))
            return &policies[i];
    return NULL;
}

bool dlr_chunk_policy_before(const struct dlr_chunk_policy *policy,
                             const struct dlr_chunk_candidate *a,
                             const struct dlr_chunk_candidate *b)
{
    const int by = policy->compare ? policy->compare(a, b) : 0;

    return by != 0 ? by > 0 : a->chunk < b->chunk;
}
