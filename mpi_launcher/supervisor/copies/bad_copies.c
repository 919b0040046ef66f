/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/copies/bad_copies.h"

#include <limits.h>

void dlr_bad_copies_add(struct dlr_bad_copies *b, const struct dlr_bad_copy *copy)
{
    b->list[b->n++ % DLR_BAD_COPIES] = *copy;
}

/* DLR_BAD_COPIES: it is none of them. */
static unsigned find(const struct dlr_bad_copies *b, const struct dlr_bad_copy *copy)
{
    for (unsigned i = 0; i < b->n && i < DLR_BAD_COPIES; i++)
        if (b->list[i].rank == copy->rank && b->list[i].node == copy->node &&
            b->list[i].round == copy->round &&
            dlr_version_eq(b->list[i].version, copy->version))
            return i;
    return DLR_BAD_COPIES;
}

bool dlr_bad_copies_has(const struct dlr_bad_copies *b, const struct dlr_bad_copy *copy)
{
    return find(b, copy) < DLR_BAD_COPIES;
}

bool dlr_bad_copies_del(struct dlr_bad_copies *b, const struct dlr_bad_copy *copy)
{
    bool was = false;

    for (unsigned i; (i = find(b, copy)) < DLR_BAD_COPIES; was = true)
        b->list[i].node = UINT_MAX;
    return was;
}
