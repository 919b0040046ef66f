/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a copy that did not arrive is to blame for it. The network fails for a moment
 * now and then, most of all between processes that have just started: the copy is good
 * and is asked for once more.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/err.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/copies/struck_copies.h"

static struct dlr_sup_spared *find(const struct dlr_sup_copies *copies,
                                   const char *where, int rank, struct dlr_version v)
{
    for (unsigned i = 0; i < copies->nspared; i++) {
        const struct dlr_plan_struck *copy = &copies->spared[i].copy;

        if (copy->rank == rank && dlr_version_eq(copy->version, v) &&
            dlr_streq(copy->where, where))
            return &copies->spared[i];
    }
    return NULL;
}

static int spare(struct dlr_sup_copies *copies, const char *where, int rank,
                 struct dlr_version v)
{
    struct dlr_sup_spared *more =
        realloc(copies->spared, (copies->nspared + 1) * sizeof(*more));

    if (!more)
        return -ENOMEM;
    copies->spared = more;
    more += copies->nspared++;
    *more = (struct dlr_sup_spared){.copy = {.rank = rank, .version = v},
                                    .round = dlr_policy_round(copies->policy)};
    dlr_format(more->copy.where, sizeof(more->copy.where), "%s", where);
    return 0;
}

/* Plans end all the same: each that fails for the network has a copy that is spared
 * here for the first time, or one that was in an earlier round and is struck off; a
 * copy is each only once.
 */
bool dlr_sup_blames(struct dlr_sup_copies *copies, const char *where, int rank,
                    struct dlr_version v, int rc)
{
    const struct dlr_sup_spared *before;

    if (!dlr_err_is_network(rc))
        return true;
    before = find(copies, where, rank, v);
    if (before) /* one plan may send a shard to several nodes */
        return before->round != dlr_policy_round(copies->policy);
    return spare(copies, where, rank, v) < 0;
}
