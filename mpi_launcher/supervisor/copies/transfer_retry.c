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
#include "mpi_launcher/supervisor/copies/rejected_copies.h"

static struct dlr_retried_copy *find(const struct dlr_sup_copies *copies,
                                     const char *where, int rank, struct dlr_version v)
{
    for (unsigned i = 0; i < copies->nretried; i++) {
        const struct dlr_plan_rejected *copy = &copies->retried[i].copy;

        if (copy->rank == rank && dlr_version_eq(copy->version, v) &&
            dlr_streq(copy->where, where))
            return &copies->retried[i];
    }
    return NULL;
}

static int keep_for_retry(struct dlr_sup_copies *copies, const char *where, int rank,
                          struct dlr_version v)
{
    struct dlr_retried_copy *more =
        realloc(copies->retried, (copies->nretried + 1) * sizeof(*more));

    if (!more)
        return -ENOMEM;
    copies->retried = more;
    more += copies->nretried++;
    *more = (struct dlr_retried_copy){.copy = {.rank = rank, .version = v},
                                      .round = dlr_policy_round(copies->policy)};
    dlr_format(more->copy.where, sizeof(more->copy.where), "%s", where);
    return 0;
}

/* Plans end all the same: each that fails for the network has a copy that is spared
 * here for the first time, or one that was in an earlier round and is struck off; a
 * copy is each only once.
 */
bool dlr_transfer_is_rejected(struct dlr_sup_copies *copies, const char *where,
                              int rank, struct dlr_version v, int rc)
{
    const struct dlr_retried_copy *before;

    if (!dlr_err_is_network(rc))
        return true;
    before = find(copies, where, rank, v);
    if (before) /* one plan may send a shard to several nodes */
        return before->round != dlr_policy_round(copies->policy);
    return keep_for_retry(copies, where, rank, v) < 0;
}
