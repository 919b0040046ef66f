/* SPDX-License-Identifier: Apache-2.0 */
/* Slots are asked of the data process, for a worker or before it comes, and are there
 * or are not.
 */
#include <errno.h>

#include "common/json/message.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/budget.h"
#include "mpi_launcher/agent/snapshots/parts.h"

static void say_no_slots(struct dlr_agent_snapshots *s, const struct dlr_agent_rank *r,
                         const char *why)
{
    s->ops->reserved(s->arg, r->rank, -ENOSPC, why);
    dlr_agent_send_supervisor(s->base, json_pack("{s:i, s:s, s:I, s:i, s:s}", "v",
                                                 DLR_MSG_VERSION, "t", "no_slots",
                                                 "round", (json_int_t)s->round->round,
                                                 "rank", r->rank, "why", why));
}

static void tell_slots(struct dlr_agent_snapshots *s, struct dlr_agent_rank *r,
                       const char *why)
{
    struct dlr_local_msg m;
    int fds[DLR_STORE_SLOTS_MAX];
    unsigned n = 0;

    dlr_local_init(&m, DLR_LOCAL_SLOTS);
    m.round = s->round->round;
    m.rank = r->rank;
    /* One that was left from smaller states is none. */
    for (unsigned k = 0; !why && k < DLR_STORE_SLOTS_MAX; k++)
        if (r->slot_fds[k] >= 0 && dlr_slot_bytes(r->slots[k]) >= r->bytes)
            fds[n++] = r->slot_fds[k];
    m.arg[0] = n;
    if (n == 0)
        dlr_local_text(&m, "%s", why ? why : "the slots have gone");
    if (r->worker)
        dlr_agent_local_send(r->worker, &m, fds, n);
}

void dlr_agent_rank_send_ready(struct dlr_agent_snapshots *s,
                               const struct dlr_agent_rank *r)
{
    struct dlr_budget budget;
    unsigned n;
    uint64_t taken = dlr_space_taken(s, -1, &n), limit;

    dlr_budget_look("", &budget);
    limit = dlr_opt_share(s->self->job.ckpt_mem, budget.node);
    s->ops->reserved(s->arg, r->rank, 0, "");
    dlr_agent_send_supervisor(
        s->base,
        json_pack("{s:i, s:s, s:I, s:i, s:I, s:I, s:I, s:I, s:b}", "v", DLR_MSG_VERSION,
                  "t", "ready", "round", (json_int_t)s->round->round, "rank", r->rank,
                  "bytes", (json_int_t)r->bytes, "taken",
                  (json_int_t)(taken & INT64_MAX), "least",
                  (json_int_t)(dlr_space_least(s) & INT64_MAX), "limit",
                  (json_int_t)(limit & INT64_MAX), "tight", dlr_agent_is_tight(s, r)));
}

static void ask_slots(struct dlr_agent_snapshots *s, const struct dlr_agent_rank *r)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, DLR_LOCAL_D_RESERVE);
    m.round = s->round->round;
    m.rank = r->rank;
    m.arg[0] = r->bytes;
    m.arg[1] = dlr_agent_slots_of(s, r);
    dlr_agent_data_send(s->data, &m);
}

void dlr_agent_ranks_reserve(struct dlr_agent_snapshots *s, int32_t rank,
                             uint64_t bytes, bool worker)
{
    struct dlr_agent_rank *r = dlr_agent_rank(s, rank, !worker);
    struct dlr_err err;
    int rc;

    if (!r || bytes == 0)
        return;
    if (!worker && r->bytes == bytes && !r->reserving) {
        dlr_agent_rank_send_ready(
            s, r); /* said again to a new supervisor; a copy may be on its way there */
        return;
    }
    r->asked = r->asked || worker;
    if (!s->self->job.checkpoint) {
        dlr_agent_ranks_reserved(s, rank, -ENOTSUP, "checkpoint=off");
        return;
    }
    dlr_agent_reserve_extra_slots(s, r, bytes);
    do
        rc = dlr_space_check(s, rank, dlr_agent_slots_of(s, r), bytes, &err);
    while (rc < 0 && (dlr_agent_release_extra_slots(s, r, rc, err.text) ||
                      dlr_agent_fetch_give_way(s, rc, err.text)));
    if (rc < 0) {
        dlr_agent_ranks_reserved(s, rank, err.code, err.text);
        return;
    }
    if (!dlr_agent_data_comes(s->data)) {
        dlr_agent_ranks_reserved(s, rank, -ENOTCONN, "no data process on this node");
        return;
    }
    r->reserving = true;
    r->bytes = bytes;
    if (dlr_agent_data_address(s->data)[0]) /* else it is asked when it says hello */
        ask_slots(s, r);
}

void dlr_agent_ranks_reserve_again(struct dlr_agent_snapshots *s)
{
    for (unsigned i = 0; i < s->nranks; i++)
        if (s->ranks[i]->reserving)
            ask_slots(s, s->ranks[i]);
}

void dlr_agent_ranks_reserved(struct dlr_agent_snapshots *s, int32_t rank, int rc,
                              const char *why)
{
    struct dlr_agent_rank *r = dlr_agent_rank(s, rank, false);
    bool asked;

    if (!r)
        return;
    if (rc < 0 && r->reserving &&
        (dlr_agent_release_extra_slots(s, r, rc, why) ||
         dlr_agent_fetch_give_way(s, rc, why))) {
        ask_slots(s, r);
        return;
    }
    dlr_agent_changed(s->base);
    asked = r->asked;
    r->reserving = r->asked = false;
    if (rc == 0 && r->own &&
        dlr_agent_rank_open_slots(s, r) < (int)dlr_agent_slots_of(s, r)) {
        rc = -EIO;
        why = "the slots have gone";
    }
    if (rc == 0 && asked)
        dlr_agent_rank_discard_open(
            r); /* this worker has none yet, and the last one is gone */
    if (rc < 0)
        r->bytes = 0;
    if (asked)
        tell_slots(s, r, rc < 0 ? why : NULL);
    if (rc == 0)
        dlr_agent_rank_send_ready(s, r);
    else if (rc != -ENOTSUP) /* checkpoint=off: nobody wants them */
        say_no_slots(s, r, why);
}
