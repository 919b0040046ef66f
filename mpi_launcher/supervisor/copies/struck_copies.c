/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/copies/struck_copies.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"

static struct dlr_plan_struck *strike(struct dlr_sup_copies *copies, const char *where,
                                      int rank, struct dlr_version v)
{
    struct dlr_plan_struck *more =
        realloc(copies->struck, (copies->nstruck + 1) * sizeof(*more));

    if (!more)
        return NULL;
    copies->struck = more;
    more += copies->nstruck++;
    memset(more, 0, sizeof(*more));
    dlr_format(more->where, sizeof(more->where), "%s", where);
    more->rank = rank;
    more->version = v;
    return more;
}

void dlr_sup_strike(struct dlr_sup_copies *copies, const char *where, int rank,
                    struct dlr_version v)
{
    strike(copies, where, rank, v);
}

void dlr_sup_strike_version(struct dlr_sup_copies *copies, struct dlr_version v,
                            bool lasting, bool later)
{
    struct dlr_plan_struck *mark = strike(copies, "*", -1, v);

    if (!mark)
        return;
    mark->lasting = lasting;
    mark->later = later;
}

const struct dlr_plan_struck *dlr_sup_struck(const struct dlr_sup_copies *copies,
                                             unsigned *ret_n)
{
    *ret_n = copies->nstruck;
    return copies->struck;
}

void dlr_sup_unstrike(struct dlr_sup_copies *copies, unsigned i)
{
    copies->nstruck--;
    memmove(&copies->struck[i], &copies->struck[i + 1],
            (copies->nstruck - i) * sizeof(*copies->struck));
}
