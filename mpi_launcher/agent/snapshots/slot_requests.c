/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdlib.h>

#include "mpi_launcher/agent/snapshots/parts.h"

struct reader {
    struct dlr_agent_snapshots *s;
    struct dlr_agent_request q;
    struct dlr_agent_origin from;
    dlr_agent_ended_fn *ended;
    int slot;       /* of the rank's that it reads; -1: not one of ours */
    uint32_t round; /* in which it began: entries of ranks last one round */
};

static int reads_slot(struct dlr_agent_snapshots *s, const struct dlr_agent_request *q)
{
    const struct dlr_agent_rank *r = dlr_agent_rank(s, q->rank, false);

    if (!r || !dlr_agent_data_runs(s->data) || q->type == DLR_LOCAL_D_LOAD ||
        q->type == DLR_LOCAL_D_ADOPT || q->type == DLR_LOCAL_D_PARITY)
        return -1;
    return dlr_agent_rank_holding(r, q->version);
}

static void release(const struct reader *d)
{
    struct dlr_agent_snapshots *s = d->s;
    struct dlr_agent_rank *r = dlr_agent_rank(s, d->q.rank, false);

    if (r && d->slot >= 0 && dlr_agent_round_is(s->round, d->round) &&
        r->reading[d->slot] > 0 && --r->reading[d->slot] == 0)
        dlr_agent_save_settle(s, r);
}

static void done(void *arg, int rc, const char *why)
{
    struct reader *d = arg;

    release(d);
    d->ended(d->s, &d->q, &d->from, rc, why);
    free(d);
}

void dlr_agent_request(struct dlr_agent_snapshots *s, const struct dlr_agent_request *q,
                       const struct dlr_agent_origin *from, dlr_agent_ended_fn *ended)
{
    struct reader *d = calloc(1, sizeof(*d));
    struct dlr_agent_request asked = *q;

    if (!d) {
        ended(s, q, from, -ENOMEM, "out of memory");
        return;
    }
    *d = (struct reader){.s = s,
                         .q = *q,
                         .from = *from,
                         .ended = ended,
                         .slot = reads_slot(s, q),
                         .round = s->round->round};
    d->q.text = d->q.node = NULL;
    if (d->slot >= 0)
        dlr_agent_rank(s, q->rank, false)->reading[d->slot]++;
    asked.done = done;
    asked.arg = d;
    dlr_agent_data_request(s->data, &asked);
}
