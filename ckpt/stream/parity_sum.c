/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/stream/parity_sum.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/redundancy/parity.h"
#include "ckpt/redundancy/parity_order.h"
#include "ckpt/slot/meta.h"
#include "ckpt/slot/store.h"
#include "ckpt/slot/write.h"
#include "common/base/clock.h"
#include "common/base/log.h"

struct dlr_parity_sum {
    struct dlr_parity_sum *next;
    struct dlr_data *d;
    struct dlr_parity_order order; /* as it was when the sum began */
    struct dlr_version version;
    struct dlr_slot_table_slot *held;
    struct dlr_slot_plan *plan; /* of a parity shard */
    unsigned char *image;
    uint64_t room;
    uint32_t joined, added; /* bit per term */
    unsigned inputs, jobs;
    int64_t begun_ns;
    bool bad, sealing;
};

struct sum_job {
    struct dlr_job job;
    struct dlr_parity_sum *sum;
};

static bool is_own(const struct dlr_data *d, int32_t rank)
{
    return dlr_rank_among(d->held.own, d->held.nown, rank);
}

/* --- orders ----------------------------------------------------------------------- */

/* A sum that a data process before this one had begun: nobody will finish it. An own
 * rank's slot that is OPEN its worker fills.
 */
static void discard_unfinished(struct dlr_data *d, int32_t target)
{
    if (is_own(d, target))
        return;
    for (struct dlr_slot_table_slot *held = d->held.first; held; held = held->next)
        if (held->rank == target && !held->writing &&
            dlr_slot_state(held->slot) == DLR_SLOT_OPEN)
            dlr_slot_set_state(held->slot, DLR_SLOT_DEAD);
}

void dlr_parity_sum_begin(struct dlr_data *d, const struct dlr_local_msg *msg)
{
    struct dlr_parity_order *o = calloc(1, sizeof(*o)), *old;

    if (!o || msg->round != d->round || !d->configured ||
        dlr_parity_order_read(msg, o) < 0) {
        d->dropped++;
        if (msg->arg[0] != UINT32_MAX)
            dlr_data_done(d, msg->rank,
                          (struct dlr_version){(uint32_t)msg->arg[0], msg->step},
                          msg->arg[1], -EBADMSG, "cannot make this slot here");
        free(o);
        return;
    }
    old = dlr_parity_order_of(d->parity_orders, o->target, o->any);
    if (old)
        dlr_parity_order_del(&d->parity_orders, old);
    o->next = d->parity_orders;
    d->parity_orders = o;
    discard_unfinished(d, o->target);
    if (!o->any && dlr_slot_table_version(&d->held, o->target, o->version)) {
        dlr_data_done(d, o->target, o->version, o->id, 0, "");
        dlr_parity_order_del(&d->parity_orders, o);
    }
}

void dlr_parity_sum_round(struct dlr_data *d)
{
    for (struct dlr_parity_sum *s = d->sums; s; s = s->next)
        s->bad = true;
    while (d->parity_orders) {
        struct dlr_parity_order *o = d->parity_orders;

        if (!o->any)
            dlr_data_done(d, o->target, o->version, o->id, -ECANCELED,
                          "a new round began");
        dlr_parity_order_del(&d->parity_orders, o);
    }
}

/* --- the end of a sum ------------------------------------------------------------- */

static void tell_rank(struct dlr_data *d, int32_t rank, struct dlr_version v,
                      uint64_t bytes, int64_t ns)
{
    struct dlr_local_msg msg;

    dlr_local_init(&msg, DLR_LOCAL_D_COPIED);
    msg.round = d->round;
    msg.rank = rank;
    msg.step = v.step;
    msg.arg[0] = v.round;
    msg.arg[1] = bytes;
    msg.arg[2] = (uint64_t)ns;
    dlr_stream_send_agent(d, &msg, NULL, 0);
}

/* bytes of each member came in ns; both 0 when it was here already. */
static void tell_copied(struct dlr_data *d, const struct dlr_parity_order *o,
                        struct dlr_version v, uint64_t bytes, int64_t ns)
{
    for (unsigned i = 0; i < o->n; i++)
        tell_rank(d, o->term[i].rank, v, bytes, ns);
}

/* An own rank's slot: the agent decides what the version in it is worth by now. */
static void tell_made(const struct dlr_parity_sum *s)
{
    if (is_own(s->d, s->order.target) && s->held->k != DLR_STORE_FETCHED)
        tell_rank(s->d, s->order.target, s->version, s->room,
                  dlr_now_ns() - s->begun_ns);
}

bool dlr_parity_sum_known(struct dlr_data *d, int32_t rank, struct dlr_version v)
{
    const struct dlr_parity_order *o = dlr_data_parity_order(d, rank, v);

    if (!o || !o->any || !dlr_slot_table_version(&d->held, o->target, v))
        return false;
    tell_copied(d, o, v, 0, 0);
    return true;
}

static void close_sum(struct dlr_parity_sum *s, bool good)
{
    struct dlr_data *d = s->d;
    struct dlr_parity_sum **at = &d->sums;
    struct dlr_parity_order *o =
        dlr_parity_order_of(d->parity_orders, s->order.target, s->order.any);

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    good = dlr_slot_table_write_done(&s->d->held, s->held, good);
    if (s->order.any && good)
        tell_copied(d, &s->order, s->version, s->room, dlr_now_ns() - s->begun_ns);
    else if (good)
        tell_made(s);
    if (o && !o->any && dlr_version_eq(o->version, s->version)) {
        dlr_data_done(d, o->target, o->version, o->id, good ? 0 : -EIO,
                      "what is left of its set does not make it");
        dlr_parity_order_del(&d->parity_orders, o);
    }
    dlr_slot_plan_free(s->plan);
    free(s);
}

static void seal_parity(struct dlr_parity_sum *s)
{
    for (uint32_t i = 0; i < dlr_slot_plan_blocks(s->plan); i++) {
        uint64_t from = (uint64_t)i * DLR_SLOT_BLOCK, left = s->room - from;

        dlr_slot_set_crc(s->held->slot, s->plan, i,
                         dlr_crc32c(0, s->image + from,
                                    left < DLR_SLOT_BLOCK ? left : DLR_SLOT_BLOCK));
    }
    dlr_slot_seal(s->held->slot, s->plan);
}

/* What a rebuilt slot says of itself must be what was asked for; a parity shard gets
 * its sums.
 */
static int run_seal(struct dlr_job *job, struct dlr_err *err)
{
    struct dlr_parity_sum *s = ((struct sum_job *)job)->sum;
    struct dlr_slot *slot = s->held->slot;
    struct dlr_slot_info info;
    int rc;

    if (s->plan) {
        seal_parity(s);
        return 0;
    }
    rc = dlr_slot_verify(slot, err);
    if (rc == 0)
        rc = dlr_slot_info(slot, &info);
    if (rc == 0 && (info.key != s->d->key || info.rank != s->order.target ||
                    !dlr_version_eq(info.version, s->version)))
        rc = -EBADMSG;
    return rc;
}

static void job_done(struct dlr_job *job)
{
    struct dlr_parity_sum *s = ((struct sum_job *)job)->sum;
    struct dlr_data *d = s->d;

    s->jobs--;
    s->bad = s->bad || job->rc < 0;
    free(job);
    if (s->sealing)
        close_sum(s, !s->bad);
    dlr_slot_table_freed(&d->held);
}

static int queue_job(struct dlr_parity_sum *s,
                     int (*run)(struct dlr_job *, struct dlr_err *))
{
    struct sum_job *j = calloc(1, sizeof(*j));

    if (!j)
        return -ENOMEM;
    j->job = (struct dlr_job){.run = run, .done = job_done};
    j->sum = s;
    s->jobs++;
    dlr_work_add(s->d->sum, &j->job);
    return 0;
}

bool dlr_parity_sum_is_rejected(const struct dlr_parity_sum *sum)
{
    return sum->bad || sum->held->rejected;
}

/* True when s was closed, and is gone. */
static bool settle(struct dlr_parity_sum *s)
{
    uint32_t all = s->order.n == 32 ? UINT32_MAX : (1u << s->order.n) - 1;

    if (s->inputs || s->jobs || s->sealing)
        return false;
    if (!dlr_parity_sum_is_rejected(s) && s->added != all)
        return false;
    if (!dlr_parity_sum_is_rejected(s)) {
        s->sealing = true;
        if (queue_job(s, run_seal) == 0)
            return false;
    }
    close_sum(s, false);
    return true;
}

void dlr_parity_sum_settle(struct dlr_data *d)
{
    struct dlr_parity_sum *s = d->sums;

    while (s)
        s = settle(s) ? d->sums : s->next;
}

/* --- the beginning ---------------------------------------------------------------- */

/* The largest region that fits into a slot of this size. */
static int plan_parity(struct dlr_parity_sum *s)
{
    uint64_t file = dlr_slot_bytes(s->held->slot), data = file;
    struct dlr_slot_owner owner = {s->d->key, s->order.target, s->order.world};
    struct dlr_ckpt_region region = {.name = "parity",
                                     .kind = DLR_CKPT_LOCAL,
                                     .dtype = "u8",
                                     .item_size = 1,
                                     .ndim = 1};
    uint64_t need = 0;

    for (unsigned i = 0; i < 3 && (i == 0 || need > file); i++) {
        data -= i == 0 ? 2 * DLR_SLOT_PAGE : need - file;
        region.global_shape[0] = region.local_shape[0] = data;
        need = dlr_slot_size(&region, 1);
    }
    if (data > file || need > file || need == 0)
        return -ENOSPC;
    return dlr_slot_plan_new(&region, 1, &owner, &s->plan, NULL);
}

static int run_clear(struct dlr_job *job, struct dlr_err *err)
{
    struct dlr_parity_sum *s = ((struct sum_job *)job)->sum;

    memset(s->image, 0, s->room);
    return 0;
}

static int open_slot(struct dlr_parity_sum *s)
{
    int rc;

    if (s->order.any) {
        rc = plan_parity(s);
        if (rc == 0)
            rc = dlr_slot_begin(s->held->slot, s->plan, s->version, NULL);
        if (rc < 0)
            return rc;
        s->image = dlr_slot_data(s->held->slot, s->plan, 0);
        s->room = dlr_slot_plan_data(s->plan);
    } else {
        dlr_slot_set_state(s->held->slot, DLR_SLOT_OPEN);
        s->image = (unsigned char *)dlr_slot_base(s->held->slot) + DLR_SLOT_PAGE;
        s->room = dlr_slot_bytes(s->held->slot) - DLR_SLOT_PAGE;
    }
    return queue_job(s, run_clear);
}

/* Of a rank that is no more it is one for what is only read. */
static struct dlr_slot_table_slot *free_slot(const struct dlr_data *d,
                                             const struct dlr_parity_order *o,
                                             struct dlr_version v)
{
    return !o->any && dlr_data_fetches(d, o->target, v)
               ? dlr_slot_table_choose_brought(&d->held, o->target)
               : dlr_slot_table_choose(&d->held, o->target);
}

static int new_sum(struct dlr_data *d, const struct dlr_parity_order *o,
                   struct dlr_version v, struct dlr_parity_sum **ret)
{
    struct dlr_slot_table_slot *held = free_slot(d, o, v);
    struct dlr_parity_sum *s;
    int rc;

    if (!held || !dlr_slot_table_claim(&d->held, held))
        return -EAGAIN;
    s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    *s = (struct dlr_parity_sum){
        .d = d, .order = *o, .version = v, .held = held, .begun_ns = dlr_now_ns()};
    rc = open_slot(s);
    if (rc < 0) {
        dlr_slot_plan_free(s->plan);
        dlr_slot_set_state(held->slot, DLR_SLOT_DEAD);
        free(s);
        return rc;
    }
    dlr_slot_table_write(&d->held, held, v);
    s->next = d->sums;
    d->sums = s;
    *ret = s;
    return 0;
}

static struct dlr_meta_head head_of(const void *meta)
{
    struct dlr_meta_head head;

    memcpy(&head, meta, sizeof(head));
    return head;
}

/* Bytes of an image that can be anything but zero. A parity shard's end may be padding.
 */
static bool fits(const struct dlr_parity_sum *s, int32_t rank,
                 const struct dlr_meta_head *head)
{
    return dlr_parity_order_is_shard(&s->order, rank) ||
           head->data_off - DLR_SLOT_PAGE + head->data_bytes <= s->room;
}

int dlr_parity_sum_join(struct dlr_data *d, int32_t rank, struct dlr_version v,
                        const void *meta, struct dlr_parity_sum **ret)
{
    const struct dlr_parity_order *o = dlr_data_parity_order(d, rank, v);
    struct dlr_meta_head head = head_of(meta);
    struct dlr_parity_sum *s = d->sums;
    uint32_t bit;
    int rc;

    if (!o)
        return -ESTALE;
    while (s && (s->order.target != o->target || !dlr_version_eq(s->version, v)))
        s = s->next;
    rc = s ? 0 : new_sum(d, o, v, &s);
    if (rc < 0)
        return rc;
    bit = 1u << dlr_parity_order_term(&s->order, rank);
    if (dlr_parity_sum_is_rejected(s))
        return -ECANCELED;
    if ((s->joined & bit) || !fits(s, rank, &head)) {
        s->bad = true; /* what it added the first time cannot be told apart */
        return s->joined & bit ? -ECANCELED : -ENOSPC;
    }
    s->joined |= bit;
    s->inputs++;
    *ret = s;
    return 0;
}

void dlr_parity_sum_leave(struct dlr_parity_sum *sum, int32_t rank, int rc)
{
    sum->inputs--;
    if (rc < 0)
        sum->bad = true;
    else
        sum->added |= 1u << dlr_parity_order_term(&sum->order, rank);
}

/* --- blocks ----------------------------------------------------------------------- */

void dlr_parity_sum_add(struct dlr_parity_sum *sum, int32_t rank, uint64_t off,
                        const void *data, size_t bytes)
{
    if (off >= sum->room)
        return;
    if (bytes > sum->room - off)
        bytes = sum->room - off; /* the padding of a parity shard */
    dlr_parity_add(sum->order.term[dlr_parity_order_term(&sum->order, rank)].coef, data,
                   sum->image + off, bytes);
}

int dlr_parity_sum_block(const struct dlr_parity_sum *sum, const void *meta, uint32_t i,
                         uint64_t *ret_off, size_t *ret_bytes, uint32_t *ret_crc)
{
    struct dlr_meta_head head = head_of(meta);
    uint64_t from = (uint64_t)i * DLR_SLOT_BLOCK, left;
    size_t crcs = head.meta_bytes - ((size_t)head.nblocks + 1) * sizeof(uint32_t);

    if (i >= head.nblocks)
        return -ERANGE;
    left = head.data_bytes - from;
    *ret_off = from;
    if (!dlr_parity_order_is_shard(&sum->order, head.rank))
        *ret_off += head.data_off - DLR_SLOT_PAGE;
    *ret_bytes = left < DLR_SLOT_BLOCK ? left : DLR_SLOT_BLOCK;
    memcpy(ret_crc, (const char *)meta + crcs + i * sizeof(uint32_t), sizeof(*ret_crc));
    return 0;
}

size_t dlr_parity_sum_meta(const struct dlr_parity_sum *sum, const void *meta)
{
    struct dlr_meta_head head = head_of(meta);

    return dlr_parity_order_is_shard(&sum->order, head.rank) ? 0 : head.meta_bytes;
}
