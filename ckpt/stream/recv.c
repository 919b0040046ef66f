/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving side of a transfer. The receiver chooses the slot and checks
 * everything: no length or place that comes from outside is used before it was compared
 * with the slot's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/stream/recv.h"
#include "common/base/clock.h"
#include "common/base/log.h"

struct piece { /* a block that is being fetched, then checked */
    struct dlr_job job;
    struct dlr_recv *r;
    void *to;
    size_t bytes;
    uint32_t crc;
    struct dlr_wire_block head;
    uint64_t off; /* of a block that is added to a sum; its memory is the piece's */
    bool meta;    /* not a block: the meta block, checked before */
};

static struct dlr_wire_answer answer_to(const unsigned char *token, uint64_t peer_id,
                                        unsigned kind, int rc)
{
    struct dlr_wire_answer answer = {.magic = DLR_WIRE_MAGIC,
                                     .version = DLR_WIRE_VERSION,
                                     .kind = (uint16_t)kind,
                                     .error = (uint32_t)-rc,
                                     .id = peer_id};

    memcpy(answer.token, token, sizeof(answer.token));
    return answer;
}

static void say(const struct dlr_recv *r, unsigned kind, int rc)
{
    struct dlr_wire_answer answer = answer_to(r->token, r->peer_id, kind, rc);

    answer.peer_id = r->id;
    if (dlr_mac_sign(&r->mac, &answer, sizeof(answer)) < 0 ||
        dlr_net_tell(r->peer, kind, (struct dlr_net_part){&answer, sizeof(answer)}) < 0)
        dlr_debug("cannot answer the sender of rank %d", r->rank);
}

static void tell_agent(struct dlr_data *d, const struct dlr_recv *r, int64_t ns)
{
    struct dlr_local_msg msg;

    dlr_local_init(&msg, DLR_LOCAL_D_COPIED);
    msg.round = d->round;
    msg.rank = r->rank;
    msg.step = r->version.step;
    msg.arg[0] = r->version.round;
    msg.arg[1] = r->data_bytes;
    msg.arg[2] = (uint64_t)ns;
    dlr_stream_send_agent(d, &msg, NULL, 0);
}

static void forget(struct dlr_recv *r)
{
    struct dlr_data *d = r->d;
    struct dlr_recv **at = &d->recvs;

    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    d->nrecvs--;
    dlr_net_peer_put(r->peer);
    dlr_mac_wipe(&r->mac);
    free(r->meta);
    free(r->got);
    free(r);
}

/* The head lay in the slot for as long as the copy took: what is sealed is what was
 * checked.
 */
static bool head_is_as_it_came(const struct dlr_recv *r)
{
    const void *meta;
    size_t bytes;

    dlr_slot_meta(r->held->slot, &meta, &bytes);
    return bytes == r->meta_bytes && memcmp(meta, r->meta, bytes) == 0;
}

/* Nothing is fetched into the slot any more: it is whole, or DEAD and free for others.
 */
static void release(struct dlr_recv *r)
{
    struct dlr_data *d = r->d;
    bool opened = dlr_recv_is_open(r);
    int rc = r->rc;

    if (r->sum)
        dlr_parity_sum_leave(r->sum, r->rank, rc);
    if (rc == 0 && r->held && !head_is_as_it_came(r))
        rc = -EBADMSG;
    if (r->held && !dlr_slot_table_write_done(&d->held, r->held, rc == 0) && rc == 0)
        rc = -ECANCELED; /* aborted while the last blocks came */
    say(r, opened ? DLR_WIRE_ACK : DLR_WIRE_ANSWER, rc);
    if (rc == 0 && !r->summed && !r->fetched)
        tell_agent(d, r, dlr_now_ns() - r->start_ns);
    if (rc < 0)
        dlr_debug("copy of rank %d step %llu given up: %s", r->rank,
                  (unsigned long long)r->version.step, strerror(-rc));
    forget(r);
    if (opened)
        dlr_slot_table_freed(&d->held);
}

void dlr_recv_end(struct dlr_recv *r, int rc)
{
    if (r->ending)
        return;
    r->ending = true;
    r->rc = rc;
    r->end_ms = dlr_now_ms();
    if (!r->inflight)
        release(r);
}

static int run_check(struct dlr_job *job, struct dlr_err *err);
static void check_done(struct dlr_job *job);

/* The meta block is the first part of what is added to a sum. */
static int add_meta(struct dlr_recv *r)
{
    struct piece *p = calloc(1, sizeof(*p));

    if (!p)
        return -ENOMEM;
    *p = (struct piece){.job = {.run = run_check, .done = check_done},
                        .r = r,
                        .meta = true,
                        .to = r->meta,
                        .bytes = dlr_parity_sum_meta(r->sum, r->meta)};
    r->want++;
    r->inflight++;
    dlr_work_add(r->d->sum, &p->job);
    return 0;
}

/* Has r join its sum when that has a slot. False: it goes on waiting. */
static bool join_sum(struct dlr_recv *r)
{
    int rc = dlr_parity_sum_join(r->d, r->rank, r->version, r->meta, &r->sum);

    if (rc == -EAGAIN)
        return false;
    if (rc == 0)
        rc = add_meta(r);
    if (rc == 0) {
        r->start_ns = dlr_now_ns();
        r->moved_ms = dlr_now_ms();
        say(r, DLR_WIRE_ANSWER, 0);
    } else {
        dlr_recv_end(r, rc);
    }
    return true;
}

/* Before UCX is asked for anything again, and so before a stranger could write there.
 */
static void guard_meta(const struct dlr_recv *r)
{
    const void *meta;
    size_t bytes;

    dlr_slot_meta(r->held->slot, &meta, &bytes);
    dlr_slot_table_guard(&r->d->held, r->held, meta, bytes);
}

static struct dlr_slot_table_slot *free_slot(const struct dlr_recv *r)
{
    return r->fetched ? dlr_slot_table_choose_brought(&r->d->held, r->rank)
                      : dlr_slot_table_choose(&r->d->held, r->rank);
}

/* Gives r a slot when one is free. */
static void open_slot(struct dlr_recv *r)
{
    struct dlr_slot_table_slot *held;
    struct dlr_err err;
    int rc;

    if (r->summed) {
        join_sum(r);
        return;
    }
    held = free_slot(r);
    if (!held || !dlr_slot_table_claim(&r->d->held, held))
        return;
    rc = dlr_slot_put_meta(held->slot, r->meta, r->meta_bytes, &err);
    if (rc < 0) {
        dlr_debug("copy of rank %d refused: %s", r->rank, err.text);
        dlr_slot_set_state(held->slot, DLR_SLOT_DEAD);
        dlr_recv_end(r, rc);
        return;
    }
    r->held = held;
    dlr_slot_table_write(&r->d->held, held, r->version);
    guard_meta(r);
    r->start_ns = dlr_now_ns();
    r->moved_ms = dlr_now_ms();
    say(r, DLR_WIRE_ANSWER, 0);
    if (!r->nblocks)
        dlr_recv_end(r, 0);
}

/* The same rank's version again: its sender has begun anew, the older transfer is void.
 */
static void end_older(struct dlr_data *d, const struct dlr_wire_begin *head)
{
    for (struct dlr_recv *r = d->recvs; r; r = r->next) {
        if (!r->ending && r->rank == head->rank && r->version.round == head->vround &&
            r->version.step == head->step) {
            dlr_recv_end(r, -ECANCELED);
            return;
        }
    }
}

static int new_recv(struct dlr_data *d, struct dlr_net_in *in,
                    const struct dlr_wire_begin *head, const void *address,
                    const void *meta, const struct dlr_slot_info *info,
                    struct dlr_recv **ret)
{
    struct dlr_recv *r = calloc(1, sizeof(*r)), **last = &d->recvs;
    int rc = -ENOMEM;

    if (!r)
        return rc;
    *r = (struct dlr_recv){.d = d, .id = ++d->last_id, .peer_id = head->id};
    r->rank = head->rank;
    r->version = info->version;
    r->round = head->round;
    r->meta_bytes = head->meta_bytes;
    r->data_bytes = info->data_bytes;
    r->nblocks = r->want = info->nblocks;
    r->summed = dlr_data_parity_order(d, r->rank, r->version) != NULL;
    r->fetched = dlr_data_fetches(d, r->rank, r->version);
    r->start_ms = dlr_now_ms();
    memcpy(r->token, head->token, sizeof(r->token));
    r->meta = malloc(r->meta_bytes);
    r->got = calloc(1, info->nblocks / 8 + 1);
    if (r->meta && r->got)
        rc = dlr_net_sender(in, address, head->address_bytes, &r->peer, NULL);
    if (rc < 0) {
        free(r->meta);
        free(r->got);
        free(r);
        return rc;
    }
    memcpy(r->meta, meta, r->meta_bytes);
    while (*last)
        last = &(*last)->next;
    *last = r; /* who waits longest is an older version, and has the first slot */
    d->nrecvs++;
    *ret = r;
    return 0;
}

/* *ret_mac: what its answers are proved with. */
static int begin(struct dlr_data *d, struct dlr_net_in *in,
                 const struct dlr_wire_begin *head, const void *address,
                 const void *meta, struct dlr_mac *ret_mac)
{
    struct dlr_slot_info info;
    struct dlr_recv *r;
    int rc = dlr_data_check_sender(d, head);

    if (rc == 0)
        rc = dlr_data_check_key(d, in, head, ret_mac);
    if (rc < 0)
        return rc;
    rc = dlr_data_check_meta(d, head, meta, &info);
    if (rc < 0)
        return rc;
    if (dlr_data_parity_order(d, head->rank, info.version)) {
        if (dlr_parity_sum_known(d, head->rank, info.version))
            return -EALREADY;
    } else if (dlr_slot_table_version(&d->held, head->rank, info.version)) {
        struct dlr_recv known = {
            .rank = head->rank, .version = info.version, .data_bytes = info.data_bytes};

        tell_agent(d, &known, 0);
        return -EALREADY;
    }
    if (head->vround == d->round && dlr_slot_table_is_over(&d->held, info.version))
        return -ECANCELED;
    end_older(d, head);
    rc = new_recv(d, in, head, address, meta, &info, &r);
    if (rc < 0)
        return rc;
    r->mac = *ret_mac;
    open_slot(r);
    return 0;
}

void dlr_data_recv_begin(struct dlr_data *d, struct dlr_net_in *in)
{
    struct dlr_wire_answer answer;
    struct dlr_wire_begin head;
    struct dlr_mac mac = {0};
    const void *address, *meta;
    int rc;

    if (in->offered ||
        dlr_wire_read_begin(in->data, in->bytes, &head, &address, &meta) < 0) {
        d->dropped++;
        return;
    }
    rc = begin(d, in, &head, address, meta, &mac);
    if (rc != 0 && rc != -EAGAIN && rc != -EALREADY && rc != -ECANCELED)
        d->dropped++;
    /* Whoever that is learns nothing but its own token. */
    answer = answer_to(head.token, head.id, DLR_WIRE_ANSWER, rc);
    if (rc < 0 && dlr_mac_sign(&mac, &answer, sizeof(answer)) == 0)
        dlr_net_reply(in, DLR_WIRE_ANSWER,
                      (struct dlr_net_part){&answer, sizeof(answer)});
    dlr_mac_wipe(&mac);
}

/* Of what began over a stream nothing comes over UCX, where it would not be proved. */
static struct dlr_recv *find(struct dlr_data *d, const struct dlr_net_in *in,
                             const struct dlr_wire_block *head)
{
    struct dlr_recv *r = d->recvs;

    while (r && r->id != head->id)
        r = r->next;
    return r && dlr_recv_is_open(r) && !r->ending && r->mac.on != in->sealed &&
                   dlr_data_same_token(head->token, r->token)
               ? r
               : NULL;
}

static int place_block(struct dlr_recv *r, uint32_t i, struct piece *ret)
{
    return r->sum ? dlr_parity_sum_block(r->sum, r->meta, i, &ret->off, &ret->bytes,
                                         &ret->crc)
                  : dlr_slot_block(r->held->slot, i, &ret->to, &ret->bytes, &ret->crc);
}

/* The transfer that wants this block, and where it goes; NULL: nobody asked for it. */
static struct dlr_recv *expected(struct dlr_data *d, const struct dlr_net_in *in,
                                 struct piece *ret)
{
    struct dlr_wire_block head;
    struct dlr_recv *r;
    unsigned char bit, *got;

    if (!in->offered || dlr_wire_read_block(in->head, in->head_bytes, &head) < 0)
        return NULL;
    r = find(d, in, &head);
    if (!r || head.index >= r->nblocks)
        return NULL;
    if (place_block(r, head.index, ret) < 0) {
        dlr_recv_end(r, -EBADMSG); /* the head in the slot is not what it was */
        return NULL;
    }
    if (in->bytes != ret->bytes)
        return NULL;
    got = &r->got[head.index / 8];
    bit = (unsigned char)(1u << head.index % 8);
    if (*got & bit)
        return NULL;
    if (r->sum)
        ret->to = malloc(ret->bytes);
    if (!ret->to)
        return NULL;
    *got |= bit;
    ret->head = head;
    ret->r = r;
    return r;
}

/* A block is whole in its place, or is not and will not be. */
static void landed(struct piece *p, int rc)
{
    struct dlr_recv *r = p->r;

    if (r->sum && !p->meta)
        free(p->to);
    free(p);
    r->moved_ms = dlr_now_ms();
    if (rc == 0 && dlr_recv_is_rejected(r))
        rc = -ECANCELED;
    if (rc < 0)
        dlr_recv_end(r, rc);
    r->inflight--;
    if (!r->ending && ++r->ngot == r->want)
        dlr_recv_end(r, 0);
    else if (r->ending && !r->inflight)
        release(r);
}

static int run_check(struct dlr_job *job, struct dlr_err *err)
{
    struct piece *p = (struct piece *)job;
    int rc = 0;

    /* As it lies where it is to stay, and nothing changes it between this look and the
     * next.
     */
    if (p->r->held)
        dlr_slot_table_guard(&p->r->d->held, p->r->held, p->to, p->bytes);
    if (!p->meta && p->r->mac.on)
        rc = dlr_mac_check_block(&p->r->mac, &p->head, p->to, p->bytes);
    if (rc < 0)
        return rc;
    if (!p->meta && dlr_crc32c(0, p->to, p->bytes) != p->crc)
        return -EBADMSG;
    if (p->r->sum)
        dlr_parity_sum_add(p->r->sum, p->r->rank, p->off, p->to, p->bytes);
    return 0;
}

static void check_done(struct dlr_job *job)
{
    struct piece *p = (struct piece *)job;

    if (job->rc < 0)
        dlr_warn("a block of rank %d step %llu %s: the copy is given up", p->r->rank,
                 (unsigned long long)p->r->version.step,
                 job->rc == -EKEYREJECTED ? "is not as its sender has sent it"
                                          : "came damaged");
    landed(p, job->rc);
}

/* It is in the cache still: this thread sums it, while it has time for that; where it
 * uses all of its core, others do, so that it can go on with the network.
 */
static void check(struct dlr_data *d, struct piece *p)
{
    if (dlr_core_full(&d->core, d->conf.full_core, dlr_thread_ns(), dlr_now_ns())) {
        dlr_work_add(d->check, &p->job);
        return;
    }
    p->job.rc = p->job.run(&p->job, &p->job.err);
    p->job.done(&p->job);
}

static void on_fetched(void *arg, int rc)
{
    struct piece *p = arg;

    if (rc < 0 || p->r->ending)
        landed(p, rc);
    else if (p->r->sum)
        dlr_work_add(p->r->d->sum, &p->job);
    else
        check(p->r->d, p);
}

void dlr_data_recv_block(struct dlr_data *d, struct dlr_net_in *in)
{
    struct piece *p = calloc(1, sizeof(*p));
    struct dlr_recv *r = p ? expected(d, in, p) : NULL;
    int rc;

    if (!r) {
        d->dropped++;
        free(p);
        return;
    }
    p->job.run = run_check;
    p->job.done = check_done;
    r->inflight++;
    rc = dlr_net_take(in, p->to, on_fetched, p);
    if (rc != 0)
        on_fetched(p, rc < 0 ? rc : 0);
}

void dlr_data_recv_retry(struct dlr_data *d)
{
    struct dlr_recv *r;

    dlr_parity_sum_settle(d);
    do {
        r = d->recvs;
        while (r && (dlr_recv_is_open(r) || r->ending || r->summed || !free_slot(r)))
            r = r->next;
        if (r)
            open_slot(r);
    } while (r);
    do {
        r = d->recvs;
        while (r && (!r->summed || dlr_recv_is_open(r) || r->ending || !join_sum(r)))
            r = r->next;
    } while (r);
}
