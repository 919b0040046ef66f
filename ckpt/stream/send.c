/* SPDX-License-Identifier: Apache-2.0 */
/* The sending side of a transfer: BEGIN, wait for ACCEPT, blocks, wait for ACK. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/stream/send.h"
#include "ckpt/transport/nic.h"
#include "common/base/clock.h"
#include "common/base/hex.h"
#include "common/base/log.h"
#include "common/base/str.h"

#define WINDOW 8    /* blocks in flight */
#define RETRY_MS 20 /* a receiver that is not in our round yet is asked again */

static void free_send(struct dlr_send *s)
{
    dlr_mac_wipe(&s->mac);
    free(s->begin);
    free(s);
}

static void release(struct dlr_send *s)
{
    struct dlr_data *d = s->d;
    struct dlr_send **at = &d->sends;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    dlr_slot_table_read_done(s->held);
    dlr_net_peer_put(s->peer);
    dlr_data_done(d, s->rank, s->version, s->agent_id, s->rc, s->why);
    free_send(s);
    dlr_slot_table_freed(&d->held);
}

void dlr_send_end(struct dlr_send *s, int rc, const char *why)
{
    if (s->state == DLR_SEND_ENDING)
        return;
    s->state = DLR_SEND_ENDING;
    s->rc = rc;
    s->why = why;
    s->end_ms = dlr_now_ms();
    if (!s->inflight)
        release(s);
}

static void pump(struct dlr_send *s);

/* True when the next piece must wait for a slot that is filled, or its turn
 * (--dlrover-set=pace).
 */
static bool hold_back(struct dlr_send *s, size_t bytes)
{
    struct dlr_data *d = s->d;
    int64_t now_ns = dlr_now_ns(), now_ms = now_ns / 1000000, wait_ms = 0, wait_ns = 0;

    if (s->paced)
        wait_ms = dlr_fill_wait_ms(&d->fill, dlr_slot_table_fills(&d->held),
                                   d->conf.fill_limit_ms, now_ms);
    if (s->paced && !wait_ms)
        wait_ns = dlr_bucket_take(&d->bucket, bytes, now_ns);
    if (wait_ns > 0)
        wait_ms = wait_ns / 1000000 + 1;
    s->pace_ms = wait_ms ? now_ms + wait_ms : 0;
    return wait_ms > 0;
}

/* A request of s ended; while it was counted, dlr_send_end() could not release s. */
static void landed(struct dlr_send *s, int rc, const char *why)
{
    s->moved_ms = dlr_now_ms();
    if (rc < 0)
        dlr_send_end(s, rc, why);
    else if (s->rejected && s->inflight == 1)
        dlr_send_end(s, -ECANCELED, DLR_SEND_DECIDED);
    s->inflight--;
    if (s->state == DLR_SEND_STREAMING)
        pump(s);
    else if (s->state == DLR_SEND_ENDING && !s->inflight)
        release(s);
}

static void on_block_sent(void *arg, int rc)
{
    landed(arg, rc, "the connection to the receiver failed");
}

static void on_begin_sent(void *arg, int rc)
{
    landed(arg, rc, "cannot reach the receiver");
}

static void pump(struct dlr_send *s)
{
    struct dlr_wire_block head = {
        .magic = DLR_WIRE_MAGIC, .version = DLR_WIRE_VERSION, .id = s->peer_id};

    memcpy(head.token, s->token, sizeof(head.token));
    while (!s->rejected && s->inflight < WINDOW && s->sent < s->nblocks) {
        size_t bytes;
        uint32_t crc;
        void *data;
        int rc = dlr_slot_block(s->held->slot, s->sent, &data, &bytes, &crc);

        head.index = s->sent;
        if (rc == 0 && hold_back(s, bytes))
            return;
        if (rc == 0)
            rc = dlr_mac_sign_block(&s->mac, &head, data, bytes);
        if (rc == 0)
            rc = dlr_net_offer(s->peer, DLR_WIRE_BLOCK,
                               (struct dlr_net_part){&head, sizeof(head)},
                               (struct dlr_net_part){data, bytes}, on_block_sent, s);
        if (rc < 0) {
            dlr_send_end(s, rc, "cannot send to the receiver");
            return;
        }
        s->moved_ms = dlr_now_ms();
        s->inflight++;
        s->sent++;
    }
    if (s->sent == s->nblocks)
        s->state = DLR_SEND_SENT;
}

void dlr_send_ask(struct dlr_send *s)
{
    int rc =
        dlr_net_send(s->peer, DLR_WIRE_BEGIN,
                     (struct dlr_net_part){s->begin, s->begin_bytes}, on_begin_sent, s);

    s->state = DLR_SEND_ASKING;
    s->moved_ms = dlr_now_ms();
    if (rc < 0)
        dlr_send_end(s, rc, "cannot send to the receiver");
    else
        s->inflight++;
}

int64_t dlr_send_resume(struct dlr_send *s, int64_t at)
{
    s->inflight++; /* pump() may end it */
    pump(s);
    s->inflight--;
    if (s->state == DLR_SEND_STREAMING && s->pace_ms)
        return s->pace_ms;
    if (s->state == DLR_SEND_ENDING && !s->inflight)
        release(s);
    return at;
}

static int load_begin(struct dlr_send *s)
{
    struct dlr_wire_begin head = {.magic = DLR_WIRE_MAGIC,
                                  .version = DLR_WIRE_VERSION,
                                  .round = s->round,
                                  .rank = s->rank,
                                  .vround = s->version.round,
                                  .step = s->version.step,
                                  .id = s->id};
    struct dlr_slot_info info;
    const void *addr, *meta;
    size_t addr_bytes, meta_bytes;
    int rc = 0;

    dlr_net_own_address(s->peer, &addr, &addr_bytes);
    dlr_slot_meta(s->held->slot, &meta, &meta_bytes);
    if (!meta_bytes || dlr_slot_info(s->held->slot, &info) < 0)
        return -EBADMSG;
    memcpy(head.token, s->token, sizeof(head.token));
    head.address_bytes = (uint16_t)addr_bytes;
    head.meta_bytes = (uint32_t)meta_bytes;
    head.data_bytes = info.data_bytes;
    s->nblocks = info.nblocks;
    s->begin_bytes = sizeof(head) + addr_bytes + meta_bytes + DLR_WIRE_TAG;
    s->begin = malloc(s->begin_bytes);
    if (!s->begin)
        return -ENOMEM;
    if (!dlr_net_sealed(s->peer))
        rc = dlr_mac_begin(&s->mac, s->d->mac_key, head.salt);
    if (rc < 0)
        return rc;
    memcpy(s->begin, &head, sizeof(head));
    memcpy(s->begin + sizeof(head), addr, addr_bytes);
    memcpy(s->begin + sizeof(head) + addr_bytes, meta, meta_bytes);
    return dlr_mac_sign(&s->mac, s->begin, s->begin_bytes);
}

static int connect_to(struct dlr_send *s, const char *hex, struct dlr_err *err)
{
    unsigned char addr[DLR_WIRE_ADDRESS_MAX];
    size_t bytes;

    if (dlr_hex_read(hex, addr, sizeof(addr), &bytes) < 0)
        return dlr_fail(err, -EINVAL, "the receiver's address is malformed");
    return dlr_net_peer(s->d->net, addr, bytes, &s->peer, err);
}

/* The agent hears which devices copies go over, whenever they are others. */
static void tell_devices(struct dlr_send *s)
{
    char devices[sizeof(s->d->uses) - 8], uses[sizeof(s->d->uses)], report[1024];
    const char *transport = dlr_net_transport(s->peer);
    struct dlr_local_msg msg;

    dlr_net_devices(s->peer, devices, sizeof(devices));
    snprintf(uses, sizeof(uses), "%s:%s", transport, devices);
    if (!devices[0] || dlr_streq(uses, s->d->uses))
        return;
    snprintf(s->d->uses, sizeof(s->d->uses), "%s", uses);
    dlr_nic_report("", devices, report, sizeof(report));
    dlr_local_init(&msg, DLR_LOCAL_D_USES);
    dlr_local_text(&msg, "{\"transport\":\"%s\",%s", transport, report + 1);
    dlr_stream_send_agent(s->d, &msg, NULL, 0);
}

/* A supervisor that took over asks again for what its former one had asked for: to
 * begin anew would move the same bytes twice. NULL: it is not under way. A save's copy
 * is not such a request.
 */
static struct dlr_send *under_way(const struct dlr_send *s)
{
    struct dlr_send *o = s->paced ? NULL : s->d->sends;

    while (o && (o->paced || o->rejected || o->state == DLR_SEND_ENDING ||
                 o->peer != s->peer || o->rank != s->rank ||
                 !dlr_version_eq(o->version, s->version) || o->round != s->round ||
                 !dlr_data_same_token(o->token, s->token)))
        o = o->next;
    return o;
}

/* s is a copy that o fetches already: the newer request is answered with its end. */
static void join(struct dlr_send *o, struct dlr_send *s)
{
    dlr_data_done(s->d, o->rank, o->version, o->agent_id, -ECANCELED,
                  "it was asked for again");
    o->agent_id = s->agent_id;
    o->start_ms = s->start_ms;
    o->refused_ms = 0;
    dlr_net_peer_put(s->peer);
    free(s);
}

static int start(struct dlr_data *d, const struct dlr_local_msg *msg,
                 struct dlr_err *err)
{
    struct dlr_version v = {(uint32_t)msg->arg[0], msg->step};
    struct dlr_slot_table_slot *held = dlr_slot_table_version(&d->held, msg->rank, v);
    struct dlr_send *s, *o;
    int rc;

    if (!d->configured || msg->round != d->round)
        return dlr_fail(err, -ESTALE, "not in round %u", msg->round);
    if (!held)
        return dlr_fail(err, -ENOENT, "this version is not held here");
    s = calloc(1, sizeof(*s));
    if (!s)
        return dlr_fail(err, -ENOMEM, "out of memory");
    *s = (struct dlr_send){.d = d, .id = ++d->last_id, .agent_id = msg->arg[1]};
    s->paced = msg->arg[2] == 1;
    s->rank = msg->rank;
    s->version = v;
    s->round = msg->round;
    s->held = held;
    s->start_ms = dlr_now_ms();
    memcpy(s->token, d->token, sizeof(s->token));
    rc = connect_to(s, msg->text, err);
    o = rc == 0 ? under_way(s) : NULL;
    if (o) {
        join(o, s);
        return 0;
    }
    if (rc == 0) {
        rc = load_begin(s);
        if (rc < 0)
            dlr_fail(err, rc, "the slot's meta block is not sound");
    }
    if (rc < 0) {
        dlr_net_peer_put(s->peer);
        free_send(s);
        return rc;
    }
    dlr_slot_table_read(held);
    s->next = d->sends;
    d->sends = s;
    tell_devices(s);
    dlr_send_ask(s);
    return 0;
}

void dlr_data_send(struct dlr_data *d, const struct dlr_local_msg *msg)
{
    struct dlr_version v = {(uint32_t)msg->arg[0], msg->step};
    struct dlr_err err;
    int rc = start(d, msg, &err);

    if (rc < 0)
        dlr_data_done(d, msg->rank, v, msg->arg[1], rc, err.text);
}

static void on_answer(struct dlr_send *s, const struct dlr_wire_answer *answer)
{
    switch (answer->error) {
    case 0:
        s->peer_id = answer->peer_id;
        s->state = DLR_SEND_STREAMING;
        pump(s);
        return;
    case EAGAIN:
        s->state = DLR_SEND_RETRY;
        s->retry_ms = dlr_now_ms() + RETRY_MS;
        if (!s->refused_ms)
            s->refused_ms = dlr_now_ms();
        return;
    case EALREADY:
        dlr_send_end(s, 0, "it was there already");
        return;
    default:
        dlr_send_end(s, -(int)answer->error, "the receiver refused it");
    }
}

/* A refusal need not be proved: a receiver of another round has not our key, and who
 * can say it in its place can cut the connection as well. That it is wanted, is whole
 * or was there already must be.
 */
static bool is_believed(const struct dlr_send *s, const struct dlr_net_in *in,
                        const struct dlr_wire_answer *answer)
{
    bool refused =
        answer->kind == DLR_WIRE_ANSWER && answer->error && answer->error != EALREADY;

    return dlr_data_same_token(answer->token, s->token) && s->mac.on != in->sealed &&
           (in->sealed || refused ||
            dlr_mac_check(&s->mac, answer, sizeof(*answer)) == 0);
}

void dlr_data_send_answer(struct dlr_data *d, const struct dlr_net_in *in,
                          const struct dlr_wire_answer *answer)
{
    unsigned kind = answer->kind;
    struct dlr_send *s = d->sends;

    while (s && s->id != answer->id)
        s = s->next;
    if (!s || !is_believed(s, in, answer) || answer->error > INT16_MAX) {
        d->dropped++;
        return;
    }
    if (kind == DLR_WIRE_ANSWER && s->state == DLR_SEND_ASKING)
        on_answer(s, answer);
    else if (kind == DLR_WIRE_ACK && answer->error)
        dlr_send_end(s, -(int)answer->error, "the receiver gave it up");
    else if (kind == DLR_WIRE_ACK && s->state == DLR_SEND_SENT)
        dlr_send_end(s, 0, "");
    else
        d->dropped++;
}
