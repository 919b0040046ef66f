/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's beginning and end, and what happens to all of its parts. */
#include "mpi_launcher/agent/snapshots/snapshots.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "mpi_launcher/agent/snapshots/parts.h"

void dlr_agent_snapshots_leave(struct dlr_agent_snapshots *s)
{
    dlr_agent_save_forget(s);
    dlr_agent_fetch_end(s, "another round has begun");
}

/* What was undecided is void; its ranks are elsewhere, or their workers are others. */
void dlr_agent_snapshots_turn(struct dlr_agent_snapshots *s)
{
    dlr_agent_save_forget(s);
    s->go_known = false;
    if (!s->round->has_restore ||
        dlr_version_cmp(s->torn.version, s->round->restore) > 0)
        s->torn.known = false; /* the step may come once more */
    dlr_agent_fetch_end(s, "the ranks are known anew");
    dlr_agent_ranks_turn(s);
}

void dlr_agent_ranks_go(struct dlr_agent_snapshots *s)
{
    struct dlr_local_msg m;

    dlr_agent_fetch_go(s, "every rank has restored");
    dlr_local_init(&m, DLR_LOCAL_GO);
    m.round = s->round->round;
    for (unsigned i = 0; i < s->nranks; i++) {
        m.rank = s->ranks[i]->rank;
        if (s->ranks[i]->worker)
            dlr_agent_local_send(s->ranks[i]->worker, &m, NULL, 0);
    }
}

void dlr_agent_ranks_resend(struct dlr_agent_snapshots *s)
{
    for (unsigned i = 0; i < s->nranks; i++) {
        struct dlr_agent_rank *r = s->ranks[i];

        if (r->bytes && !r->reserving)
            dlr_agent_rank_send_ready(s, r);
        if (r->restored)
            dlr_agent_rank_send_restored(s, r, "");
    }
    dlr_agent_bad_resend(s);
    dlr_agent_save_torn_resend(s);
    dlr_agent_save_wanted_resend(s);
    dlr_agent_fetch_resend(s);
}

void dlr_agent_snapshots_data_ready(struct dlr_agent_snapshots *s)
{
    dlr_agent_pace_start(s);
    if (!s->round->known)
        return;
    /* The one that died may not have heard what is void; once something was ordered it
     * did.
     */
    dlr_agent_data_round(s->data, s->save_step == 0);
    dlr_agent_ranks_reserve_again(s);
    dlr_agent_save_resend(s);
}

void dlr_agent_snapshots_data_gone(struct dlr_agent_snapshots *s, const char *why)
{
    s->devices.known = false;
    dlr_agent_fetch_fail(s, why);
}

void dlr_agent_snapshots_data_refused(struct dlr_agent_snapshots *s, const char *why)
{
    for (unsigned i = 0; i < s->nranks; i++)
        if (s->ranks[i]->reserving)
            dlr_agent_ranks_reserved(s, s->ranks[i]->rank, -EIO, why);
}

void dlr_agent_snapshots_reserved(struct dlr_agent_snapshots *s, int32_t rank,
                                  uint64_t slot, int rc, const char *why)
{
    if (slot == DLR_STORE_FETCHED)
        dlr_agent_fetch_reserved(s, rank, rc, why);
    else
        dlr_agent_ranks_reserved(s, rank, rc, why);
}

struct dlr_agent_snapshots *
dlr_agent_snapshots_new(struct dlr_agent_base *base, const struct dlr_agent_self *self,
                        const struct dlr_agent_round *round,
                        struct dlr_agent_data *data,
                        const struct dlr_agent_snapshots_ops *ops, void *arg)
{
    struct dlr_agent_snapshots *s = calloc(1, sizeof(*s));
    struct dlr_err err;

    if (!s)
        return NULL;
    s->base = base;
    s->self = self;
    s->round = round;
    s->data = data;
    s->ops = ops;
    s->arg = arg;
    if (dlr_topo_load_cpus(&s->topo, &err) < 0)
        dlr_debug("helper threads get no CPUs of their own: %s", err.text);
    return s;
}

struct dlr_agent_snapshots *dlr_agent_snapshots_free(struct dlr_agent_snapshots *s)
{
    if (!s)
        return NULL;
    dlr_agent_rebuild_stop(s);
    dlr_agent_ranks_stop(s);
    dlr_topo_free(s->topo);
    free(s);
    return NULL;
}
