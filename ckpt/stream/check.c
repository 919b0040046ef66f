/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a transfer that somebody wants to begin is one of ours. */
#include <errno.h>

#include "ckpt/redundancy/parity_order.h"
#include "ckpt/slot/store.h"
#include "ckpt/stream/state.h"
#include "common/base/log.h"

#define RECVS_MAX 4096 /* at once */

bool dlr_data_same_token(const unsigned char *a, const unsigned char *b)
{
    unsigned char differ = 0;

    for (unsigned i = 0; i < DLR_WIRE_TOKEN; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}

static bool accepted(const struct dlr_data *d, int32_t rank)
{
    return dlr_rank_among(d->accept, d->naccept, rank);
}

/* What another number of ranks has made is no part of a sum of this round. */
const struct dlr_parity_order *dlr_data_parity_order(const struct dlr_data *d,
                                                     int32_t rank, struct dlr_version v)
{
    return dlr_parity_order_for(d->parity_orders, rank, v,
                                !d->resized || v.round == d->round);
}

/* What this round makes of the rank is not meant. */
bool dlr_data_fetches(const struct dlr_data *d, int32_t rank, struct dlr_version v)
{
    if (!d->resized && accepted(d, rank)) /* what is owed here comes for good */
        return false;
    return dlr_rank_among(d->fetch, d->nfetch, rank) &&
           (v.round < d->round ||
            (d->held.has_newest && dlr_version_eq(v, d->held.newest)));
}

int dlr_data_check_sender(const struct dlr_data *d, const struct dlr_wire_begin *head)
{
    struct dlr_version v = {head->vround, head->step};

    if (!d->configured || head->round > d->round)
        return -EAGAIN; /* our agent has not told us yet */
    if (head->round < d->round || head->vround > head->round)
        return -ESTALE;
    if (!dlr_data_same_token(head->token, d->token))
        return -EACCES;
    if (!accepted(d, head->rank) && !dlr_data_fetches(d, head->rank, v) &&
        !dlr_data_parity_order(d, head->rank, v))
        /* the order for it may be on its way, later than the sender's */
        return -EAGAIN;
    return d->nrecvs < RECVS_MAX ? 0 : -EBUSY;
}

int dlr_data_check_key(struct dlr_data *d, const struct dlr_net_in *in,
                       const struct dlr_wire_begin *head, struct dlr_mac *ret)
{
    int rc = 0;

    if (in->sealed)
        return 0;
    rc = dlr_mac_join(ret, d->mac_key, head->salt);
    if (rc == 0)
        rc = dlr_mac_check(ret, in->data, in->bytes);
    if (rc < 0)
        dlr_mac_wipe(ret);
    if (rc < 0 && !d->forged)
        dlr_warn("somebody who has not the key of round %u wants to send rank %d here: "
                 "refused, as are others after it without a word",
                 d->round, head->rank);
    d->forged |= rc < 0;
    return rc;
}

static uint64_t room_for(const struct dlr_data *d, int32_t rank, struct dlr_version v)
{
    const struct dlr_slot_table_slot *held;

    if (!dlr_data_fetches(d, rank, v))
        return dlr_slot_table_room(&d->held, rank);
    held = dlr_slot_table_find(&d->held, rank, DLR_STORE_FETCHED);
    return held ? dlr_slot_bytes(held->slot) : 0;
}

int dlr_data_check_meta(struct dlr_data *d, const struct dlr_wire_begin *head,
                        const void *meta, struct dlr_slot_info *ret)
{
    struct dlr_version v = {head->vround, head->step};
    uint64_t room =
        dlr_data_parity_order(d, head->rank, v) ? 0 : room_for(d, head->rank, v);
    struct dlr_err err;
    int rc = dlr_slot_check_meta(meta, head->meta_bytes, room ? room : UINT64_MAX, ret,
                                 &err);

    if (rc < 0) {
        dlr_debug("copy of rank %d refused: %s", head->rank, err.text);
        return rc;
    }
    if (ret->rank != head->rank || ret->version.round != head->vround ||
        ret->version.step != head->step || ret->data_bytes != head->data_bytes)
        return -EBADMSG;
    return ret->key == d->key ? 0 : -EACCES;
}
