/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/copies/rejected_copies.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"

static struct dlr_plan_rejected *
strike(struct dlr_sup_copies *copies, const char *where, int rank, struct dlr_version v)
{
    struct dlr_plan_rejected *more =
        realloc(copies->rejected, (copies->nrejected + 1) * sizeof(*more));

    if (!more)
        return NULL;
    copies->rejected = more;
    more += copies->nrejected++;
    memset(more, 0, sizeof(*more));
    dlr_format(more->where, sizeof(more->where), "%s", where);
    more->rank = rank;
    more->version = v;
    return more;
}

void dlr_reject_copy(struct dlr_sup_copies *copies, const char *where, int rank,
                     struct dlr_version v)
{
    strike(copies, where, rank, v);
}

void dlr_sup_strike_version(struct dlr_sup_copies *copies, struct dlr_version v,
                            bool lasting, bool later)
{
    struct dlr_plan_rejected *mark = strike(copies, "*", -1, v);

    if (!mark)
        return;
    mark->lasting = lasting;
    mark->later = later;
}

const struct dlr_plan_rejected *dlr_sup_struck(const struct dlr_sup_copies *copies,
                                               unsigned *ret_n)
{
    *ret_n = copies->nrejected;
    return copies->rejected;
}

void dlr_sup_unstrike(struct dlr_sup_copies *copies, unsigned i)
{
    copies->nrejected--;
    memmove(&copies->rejected[i], &copies->rejected[i + 1],
            (copies->nrejected - i) * sizeof(*copies->rejected));
}
