/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers that end from outside: another round, a lost connection, a limit. */
#include <errno.h>

#include "ckpt/stream/recv.h"
#include "ckpt/stream/stopped_time.h"

/* Ending one transfer may open or end others: each search begins anew. */
static struct dlr_recv *of_another_round(struct dlr_data *d)
{
    struct dlr_recv *r = d->recvs;

    while (r && (r->ending ||
                 (r->round == d->round && dlr_data_same_token(r->token, d->token))))
        r = r->next;
    return r;
}

void dlr_data_recv_round(struct dlr_data *d)
{
    struct dlr_recv *r;

    while ((r = of_another_round(d)))
        dlr_recv_end(r, -ECANCELED);
}

static struct dlr_recv *waits_in_vain(struct dlr_data *d)
{
    struct dlr_recv *r = d->recvs;

    while (r && (r->ending || dlr_recv_is_open(r) || r->version.round != d->round ||
                 !dlr_slot_table_is_over(&d->held, r->version)))
        r = r->next;
    return r;
}

void dlr_data_recv_decided(struct dlr_data *d)
{
    struct dlr_recv *r;

    while ((r = waits_in_vain(d)))
        dlr_recv_end(r, -ECANCELED);
}

static struct dlr_recv *from(struct dlr_data *d, const struct dlr_net_peer *peer)
{
    struct dlr_recv *r = d->recvs;

    while (r && (r->ending || r->peer != peer))
        r = r->next;
    return r;
}

void dlr_data_recv_down(struct dlr_data *d, struct dlr_net_peer *peer, int rc)
{
    struct dlr_recv *r;

    while ((r = from(d, peer)))
        dlr_recv_end(r, rc);
}

bool dlr_data_recv_can_wait(const struct dlr_data *d, int64_t now_ms)
{
    const struct dlr_recv *r = d->recvs;

    while (r && !r->fetched && r->version.round == d->round &&
           now_ms < r->start_ms + d->conf.transfer_timeout_ms / DLR_DATA_HURRY)
        r = r->next;
    return r == NULL;
}

/* When something is due for r. */
static int64_t deadline(const struct dlr_recv *r)
{
    const struct dlr_data_conf *conf = &r->d->conf;
    int64_t at;

    if (r->ending)
        return r->end_ms + (r->cut ? DLR_DATA_STUCK_MS : DLR_DATA_FLUSH_MS);
    if (!dlr_recv_is_open(r))
        return r->start_ms + conf->answer_timeout_ms;
    at = r->start_ms + conf->transfer_timeout_ms;
    if (dlr_recv_is_rejected(r) && r->moved_ms + DLR_DATA_REJECTED_MS < at)
        at = r->moved_ms + DLR_DATA_REJECTED_MS;
    return at;
}

static void act(struct dlr_recv *r)
{
    if (!r->ending) {
        dlr_recv_end(r, dlr_recv_is_rejected(r) ? -ECANCELED
                        : dlr_recv_is_open(r)   ? -ETIMEDOUT
                                                : -EBUSY);
    } else if (!r->cut) {
        r->cut = true;
        dlr_net_drop(r->peer);
    } else {
        dlr_data_stuck();
    }
}

void dlr_data_recv_add_stopped_time(struct dlr_data *d, int64_t stopped_ms,
                                    int64_t now_ms)
{
    for (struct dlr_recv *r = d->recvs; r; r = r->next) {
        r->moved_ms = dlr_stopped_time_moved(r->moved_ms, stopped_ms, now_ms);
        r->start_ms = dlr_stopped_time_moved(r->start_ms, stopped_ms, now_ms);
        r->end_ms = dlr_stopped_time_moved(r->end_ms, stopped_ms, now_ms);
    }
}

int64_t dlr_data_recv_tick(struct dlr_data *d, int64_t now_ms)
{
    int64_t first = DLR_DATA_NEVER;
    struct dlr_recv *r = d->recvs;

    while (r) {
        if (deadline(r) <= now_ms) {
            act(r); /* others may end with it: begin anew */
            r = d->recvs;
            first = DLR_DATA_NEVER;
            continue;
        }
        if (deadline(r) < first)
            first = deadline(r);
        r = r->next;
    }
    return first;
}
