/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/slot,common/local needs=dlrover-data */
/* What a data process would never send: every length, place and identity of its
 * messages changed in turn. None may be obeyed, and the right ones still are
 * afterwards.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/transport/mac.h"
#include "ckpt/transport/net.h"
#include "ckpt/transport/wire.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "tests/support/data_rig.h"

#define DATA (UINT64_C(3) << 19) /* two blocks, the second half as long */
#define RANK 3
#define ROUND 5

static const struct dlr_version v7 = {ROUND, 7};

struct raw {
    struct rig_data to;
    struct dlr_slot *src, *dst[2];
    struct dlr_net *net;
    struct dlr_net_peer *peer;
    struct dlr_wire_begin begin;
    unsigned char payload[16384]; /* of begin */
    size_t payload_bytes;
    unsigned char key[DLR_MAC_KEY];
    struct dlr_mac mac;                 /* off where the stream seals */
    struct dlr_wire_answer answer, ack; /* error of the last; magic 0: none came */
};

static void raw_in(void *arg, unsigned kind, struct dlr_net_in *in)
{
    struct raw *r = arg;

    assert_int_equal(in->bytes, sizeof(r->answer));
    memcpy(kind == DLR_WIRE_ACK ? &r->ack : &r->answer, in->data, in->bytes);
}

static void raw_down(void *arg, struct dlr_net_peer *peer, int rc)
{
    fail_msg("the receiver closed the connection");
}

static void on_sent(void *arg, int rc)
{
    *(bool *)arg = true;
}

/* Sends head and data in one piece, or offers data; returns when UCX is done with it.
 */
static void raw_send(struct raw *r, unsigned kind, bool offer, struct dlr_net_part head,
                     struct dlr_net_part data)
{
    int64_t limit = dlr_now_ms() + RIG_ANSWER_MS;
    unsigned char whole[16384 + 128];
    struct dlr_net_part both = {whole, head.bytes + data.bytes};
    bool sent = false;
    int rc;

    if (offer) {
        rc = dlr_net_offer(r->peer, kind, head, data, on_sent, &sent);
    } else {
        memcpy(whole, head.at, head.bytes);
        if (data.bytes)
            memcpy(whole + head.bytes, data.at, data.bytes);
        rc = dlr_net_send(r->peer, kind, both, on_sent, &sent);
    }
    assert_int_equal(rc, 0);
    while (!sent) {
        dlr_net_progress(r->net);
        assert_true(dlr_now_ms() < limit);
    }
}

/* The first bytes of a BEGIN, with a tag of mac. */
static void send_begin_of(struct raw *r, const struct dlr_mac *mac,
                          const struct dlr_wire_begin *head, size_t head_bytes,
                          size_t payload_bytes)
{
    unsigned char rest[sizeof(r->payload) + sizeof(*head) + DLR_WIRE_TAG];
    size_t bytes = head_bytes + payload_bytes;

    memcpy(rest, head, head_bytes);
    memcpy(rest + head_bytes, r->payload, payload_bytes);
    assert_int_equal(dlr_mac_sign(mac, rest, bytes + DLR_WIRE_TAG), 0);
    raw_send(r, DLR_WIRE_BEGIN, false, (struct dlr_net_part){rest, bytes},
             (struct dlr_net_part){rest + bytes, DLR_WIRE_TAG});
}

static void send_begin(struct raw *r, const struct dlr_wire_begin *head,
                       size_t head_bytes, size_t payload_bytes)
{
    send_begin_of(r, &r->mac, head, head_bytes, payload_bytes);
}

static void await(struct raw *r, const struct dlr_wire_answer *answer)
{
    int64_t limit = dlr_now_ms() + RIG_ANSWER_MS;

    while (!answer->magic) {
        dlr_net_progress(r->net);
        assert_true(dlr_now_ms() < limit);
    }
}

static void connect_to(struct raw *r, const char *hex)
{
    unsigned char addr[DLR_WIRE_ADDRESS_MAX];
    size_t n = strlen(hex) / 2;

    for (size_t i = 0; i < n; i++) {
        unsigned byte;

        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        addr[i] = (unsigned char)byte;
    }
    assert_int_equal(dlr_net_peer(r->net, addr, n, &r->peer, NULL), 0);
}

static void fill_begin(struct raw *r)
{
    unsigned char token[DLR_WIRE_TOKEN];
    struct dlr_slot_info info;
    const void *addr, *meta;
    size_t addr_bytes, meta_bytes;

    dlr_net_own_address(r->peer, &addr, &addr_bytes);
    dlr_slot_meta(r->src, &meta, &meta_bytes);
    assert_int_equal(dlr_slot_info(r->src, &info), 0);
    r->payload_bytes = addr_bytes + meta_bytes;
    assert_true(r->payload_bytes <= sizeof(r->payload));
    memcpy(r->payload, addr, addr_bytes);
    memcpy(r->payload + addr_bytes, meta, meta_bytes);
    memcpy(token, r->begin.token, sizeof(token));
    r->begin = (struct dlr_wire_begin){.magic = DLR_WIRE_MAGIC,
                                       .version = DLR_WIRE_VERSION,
                                       .address_bytes = (uint16_t)addr_bytes,
                                       .meta_bytes = (uint32_t)meta_bytes,
                                       .round = ROUND,
                                       .vround = ROUND,
                                       .rank = RANK,
                                       .step = 7,
                                       .data_bytes = info.data_bytes,
                                       .id = 42};
    memcpy(r->begin.token, token, sizeof(token));
}

static int raw_up(void **state)
{
    static const struct dlr_net_ops ops = {raw_in, raw_down};
    const struct dlr_net_conf conf = {
        .transport = dlr_streq(getenv(RIG_TRANSPORT), "ucx") ? DLR_TRANSPORT_UCX
                                                             : DLR_TRANSPORT_STREAM,
        .answer_ms = 5000,
        .devices = ""};
    struct raw *r = calloc(1, sizeof(*r));
    unsigned char secret[DLR_WIRE_TOKEN];
    struct dlr_slot *own;

    *state = r;
    rig_start(&r->to, NULL, NULL);
    rig_config(&r->to, ROUND, RIG_TOKEN, "[3]");
    assert_int_equal(rig_reserve(&r->to, RANK, rig_slot_bytes(DATA)), 0);
    assert_int_equal(rig_reserve(&r->to, 0, rig_slot_bytes(DATA)), 0);
    own = rig_slot(&r->to, 0, 0);
    rig_snapshot(own, RANK, v7, DATA); /* only to have its bytes */
    dlr_slot_set_state(own, DLR_SLOT_FREE);
    r->src = own;
    r->dst[0] = rig_slot(&r->to, RANK, 0);
    r->dst[1] = rig_slot(&r->to, RANK, 1);
    assert_int_equal(dlr_net_open(&conf, &ops, r, &r->net, NULL), 0);
    for (unsigned i = 0; i < DLR_WIRE_TOKEN; i++)
        secret[i] = (unsigned char)(i * 0x11); /* RIG_TOKEN */
    assert_int_equal(dlr_net_set_key(r->net, secret, sizeof(secret), r->begin.token),
                     0);
    assert_memory_not_equal(secret, r->begin.token, sizeof(secret)); /* seen by all */
    connect_to(r, r->to.address);
    fill_begin(r);
    assert_int_equal(dlr_mac_round(secret, sizeof(secret), r->key), 0);
    if (!dlr_net_sealed(r->peer))
        assert_int_equal(dlr_mac_begin(&r->mac, r->key, r->begin.salt), 0);
    return 0;
}

static int raw_down_all(void **state)
{
    struct raw *r = *state;

    dlr_net_peer_put(r->peer);
    dlr_net_close(r->net);
    dlr_slot_unmap(r->src);
    dlr_slot_unmap(r->dst[0]);
    dlr_slot_unmap(r->dst[1]);
    rig_end(&r->to);
    rig_remove(&r->to);
    free(r);
    return 0;
}

static unsigned count(const struct raw *r, enum dlr_slot_state state)
{
    return (dlr_slot_state(r->dst[0]) == state) + (dlr_slot_state(r->dst[1]) == state);
}

/* What was sent before was dealt with when the answer to this id comes. */
static void await_answer(struct raw *r, uint64_t id)
{
    do {
        r->answer.magic = 0;
        await(r, &r->answer);
    } while (r->answer.id != id);
}

/* The true BEGIN. */
static void begin_well(struct raw *r)
{
    struct dlr_wire_begin head = r->begin;

    head.id = 1000;
    send_begin(r, &head, sizeof(head), r->payload_bytes);
    await_answer(r, head.id);
    assert_int_equal(r->answer.error, 0);
    if (r->mac.on)
        assert_int_equal(dlr_mac_check(&r->mac, &r->answer, sizeof(r->answer)), 0);
    assert_int_equal(count(r, DLR_SLOT_OPEN), 1);
    assert_int_equal(count(r, DLR_SLOT_FREE), 1);
}

static struct dlr_wire_block block_head(const struct raw *r, uint32_t index)
{
    struct dlr_wire_block head = {.magic = DLR_WIRE_MAGIC,
                                  .version = DLR_WIRE_VERSION,
                                  .id = r->answer.peer_id,
                                  .index = index};

    memcpy(head.token, r->begin.token, sizeof(head.token));
    return head;
}

static void block_of(const struct raw *r, uint32_t index, void **ret_data,
                     size_t *ret_bytes)
{
    uint32_t crc;

    assert_int_equal(dlr_slot_block(r->src, index & 1, ret_data, ret_bytes, &crc), 0);
}

static void offer_block(struct raw *r, const struct dlr_wire_block *head,
                        const void *data, size_t bytes)
{
    raw_send(r, DLR_WIRE_BLOCK, true, (struct dlr_net_part){head, sizeof(*head)},
             (struct dlr_net_part){data, bytes});
}

static void send_block(struct raw *r, const struct dlr_wire_block *given, int more)
{
    struct dlr_wire_block head = *given;
    size_t bytes;
    void *data;

    block_of(r, head.index, &data, &bytes);
    bytes += (size_t)more;
    assert_int_equal(dlr_mac_sign_block(&r->mac, &head, data, bytes), 0);
    offer_block(r, &head, data, bytes);
}

/* Both blocks, and the slot is whole. */
static void finish_well(struct raw *r)
{
    struct dlr_wire_block first = block_head(r, 0), second = block_head(r, 1);

    send_block(r, &second, 0);
    assert_int_equal(count(r, DLR_SLOT_SEALED), 0);
    send_block(r, &first, 0);
    await(r, &r->ack);
    assert_int_equal(r->ack.error, 0);
    assert_int_equal(count(r, DLR_SLOT_SEALED), 1);
    assert_int_equal(count(r, DLR_SLOT_OPEN), 0);
}

static void a_changed_begin_opens_nothing(void **state)
{
    struct raw *r = *state;

    for (size_t i = 0; i < offsetof(struct dlr_wire_begin, id); i++) {
        struct dlr_wire_begin bad = r->begin;

        ((unsigned char *)&bad)[i] ^= 0x41;
        send_begin(r, &bad, sizeof(bad), r->payload_bytes);
    }
    for (size_t i = 0; i < sizeof(r->begin); i += 5)
        send_begin(r, &r->begin, i, r->payload_bytes);
    for (size_t i = 0; i < r->payload_bytes; i += 3)
        send_begin(r, &r->begin, sizeof(r->begin), i);
    begin_well(r);
    finish_well(r);
}

static void a_changed_meta_block_opens_nothing(void **state)
{
    struct raw *r = *state;

    for (size_t i = r->begin.address_bytes; i < r->payload_bytes; i++) {
        r->payload[i] ^= 0x80;
        send_begin(r, &r->begin, sizeof(r->begin), r->payload_bytes);
        r->payload[i] ^= 0x80;
    }
    begin_well(r);
    finish_well(r);
}

static void a_changed_block_is_not_written(void **state)
{
    static const uint32_t indexes[] = {2, 3, 1u << 16, UINT32_MAX - 1, UINT32_MAX};
    struct raw *r = *state;
    struct dlr_wire_block head;
    unsigned char *data;
    size_t bytes;
    uint32_t crc;

    begin_well(r);
    assert_int_equal(dlr_slot_block(r->src, 0, (void **)&data, &bytes, &crc), 0);
    data[0] ^= 1; /* taken, it would end the copy */
    for (size_t i = 0; i < offsetof(struct dlr_wire_block, index); i++) {
        if (i == offsetof(struct dlr_wire_block, zero))
            i += sizeof(head.zero);
        head = block_head(r, 0);
        ((unsigned char *)&head)[i] ^= 0x41;
        send_block(r, &head, 0);
    }
    data[0] ^= 1;
    for (unsigned i = 0; i < sizeof(indexes) / sizeof(indexes[0]); i++) {
        head = block_head(r, indexes[i]);
        send_block(r, &head, 0);
    }
    head = block_head(r, 1);
    send_block(r, &head, -1); /* too short, too long */
    send_block(r, &head, 1);
    for (unsigned i = 0; i < 4; i++) /* again and again */
        send_block(r, &head, 0);
    head = block_head(r, 0);
    send_block(r, &head, 0);
    await(r, &r->ack);
    assert_int_equal(r->ack.error, 0);
    assert_int_equal(count(r, DLR_SLOT_SEALED), 1);
}

static void answers_nobody_asked_for_are_dropped(void **state)
{
    struct raw *r = *state;
    struct dlr_wire_answer answer = {.magic = DLR_WIRE_MAGIC,
                                     .version = DLR_WIRE_VERSION,
                                     .kind = DLR_WIRE_ACK,
                                     .id = 1};
    struct dlr_net_part none = {0};

    raw_send(r, DLR_WIRE_ANSWER, false, (struct dlr_net_part){&answer, sizeof(answer)},
             none);
    raw_send(r, DLR_WIRE_ACK, false, (struct dlr_net_part){&answer, sizeof(answer)},
             none);
    raw_send(r, DLR_WIRE_ACK, false, (struct dlr_net_part){&answer, 3}, none);
    raw_send(r, DLR_WIRE_ACK, true, (struct dlr_net_part){&answer, 3},
             (struct dlr_net_part){r->payload, 100});
    if (r->mac.on) /* a stream ends with it (test_data_tls_frame.c) */
        raw_send(r, DLR_WIRE_BLOCK, false,
                 (struct dlr_net_part){&answer, sizeof(answer)}, none);
    raw_send(r, DLR_WIRE_BEGIN, true,
             (struct dlr_net_part){&r->begin, DLR_NET_HEAD_MAX},
             (struct dlr_net_part){r->payload, r->payload_bytes});
    begin_well(r);
    finish_well(r);
}

static bool is_sealed(const struct raw *r)
{
    if (!r->mac.on)
        print_message("the stream seals: no tags\n");
    return !r->mac.on;
}

/* Whoever listens has seen the token and every field but the key's tags. */
static void who_has_not_the_key_begins_nothing(void **state)
{
    struct raw *r = *state;
    struct dlr_mac none = {0}, others;
    struct dlr_wire_begin head = r->begin;
    unsigned char key[DLR_MAC_KEY], salt[DLR_WIRE_SALT];

    if (is_sealed(r))
        return;
    assert_int_equal(dlr_mac_round(head.token, sizeof(head.token), key), 0);
    assert_int_equal(dlr_mac_join(&others, key, head.salt), 0); /* of the token */
    send_begin_of(r, &none, &head, sizeof(head), r->payload_bytes);
    await_answer(r, head.id);
    assert_int_equal(r->answer.error, EKEYREJECTED);
    assert_memory_equal(r->answer.tag, none.message, sizeof(r->answer.tag));
    head.id++;
    send_begin_of(r, &others, &head, sizeof(head), r->payload_bytes);
    await_answer(r, head.id);
    assert_int_equal(r->answer.error, EKEYREJECTED);
    assert_int_equal(dlr_mac_begin(&others, r->key, salt), 0); /* another salt's */
    head.id++;
    send_begin_of(r, &others, &head, sizeof(head), r->payload_bytes);
    await_answer(r, head.id);
    assert_int_equal(r->answer.error, EKEYREJECTED);
    assert_int_equal(count(r, DLR_SLOT_FREE), 2);
    begin_well(r);
    finish_well(r);
}

/* CRC32C of five bytes that are XORed in does not change: they are its polynomial. */
static const unsigned char same_crc[] = {0xf1, 0x76, 0xec, 0x05, 0x01};

static void other_data(const struct raw *r, struct dlr_wire_block *head,
                       unsigned char *data, size_t bytes)
{
    uint32_t crc = dlr_crc32c(0, data, bytes);

    assert_int_equal(dlr_mac_sign_block(&r->mac, head, data, bytes), 0);
    for (unsigned i = 0; i < sizeof(same_crc); i++)
        data[1000 + i] ^= same_crc[i];
    assert_int_equal(dlr_crc32c(0, data, bytes), crc);
}

static void no_tag(const struct raw *r, struct dlr_wire_block *head,
                   unsigned char *data, size_t bytes)
{
}

static void tag_of_another_transfer(const struct raw *r, struct dlr_wire_block *head,
                                    unsigned char *data, size_t bytes)
{
    unsigned char salt[DLR_WIRE_SALT];
    struct dlr_mac other;

    assert_int_equal(dlr_mac_begin(&other, r->key, salt), 0);
    assert_int_equal(dlr_mac_sign_block(&other, head, data, bytes), 0);
}

static void tag_of_another_block(const struct raw *r, struct dlr_wire_block *head,
                                 unsigned char *data, size_t bytes)
{
    head->index++;
    assert_int_equal(dlr_mac_sign_block(&r->mac, head, data, bytes), 0);
    head->index--;
}

static void tag_of_another_id(const struct raw *r, struct dlr_wire_block *head,
                              unsigned char *data, size_t bytes)
{
    head->id++;
    assert_int_equal(dlr_mac_sign_block(&r->mac, head, data, bytes), 0);
    head->id--;
}

/* Their sums are right: nothing but the tag tells them from what the sender has sent.
 */
static void a_block_that_its_sender_has_not_made_is_refused(void **state)
{
    static const struct {
        const char *name;
        void (*make)(const struct raw *r, struct dlr_wire_block *head,
                     unsigned char *data, size_t bytes);
    } rows[] = {
        {"other data", other_data},
        {"no tag", no_tag},
        {"of another transfer", tag_of_another_transfer},
        {"of another block", tag_of_another_block},
        {"of another id", tag_of_another_id},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        static unsigned char data[DLR_SLOT_BLOCK];
        struct dlr_wire_block head;
        struct raw *r;
        size_t bytes;
        void *from;

        raw_up((void **)&r);
        if (r->mac.on) {
            print_message("%s\n", rows[i].name);
            begin_well(r);
            head = block_head(r, 1);
            send_block(r, &head, 0);
            head = block_head(r, 0);
            block_of(r, 0, &from, &bytes);
            memcpy(data, from, bytes);
            rows[i].make(r, &head, data, bytes);
            offer_block(r, &head, data, bytes);
            await(r, &r->ack);
            assert_int_equal(r->ack.error, EKEYREJECTED);
            assert_int_equal(count(r, DLR_SLOT_SEALED), 0);
            assert_int_equal(count(r, DLR_SLOT_DEAD), 1);
        }
        raw_down_all((void **)&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_changed_begin_opens_nothing, raw_up,
                                        raw_down_all),
        cmocka_unit_test_setup_teardown(a_changed_meta_block_opens_nothing, raw_up,
                                        raw_down_all),
        cmocka_unit_test_setup_teardown(a_changed_block_is_not_written, raw_up,
                                        raw_down_all),
        cmocka_unit_test_setup_teardown(answers_nobody_asked_for_are_dropped, raw_up,
                                        raw_down_all),
        cmocka_unit_test_setup_teardown(who_has_not_the_key_begins_nothing, raw_up,
                                        raw_down_all),
        cmocka_unit_test(a_block_that_its_sender_has_not_made_is_refused),
    };

    setenv("UCX_TLS", "tcp,self", 1);
    signal(SIGPIPE, SIG_IGN);
    return RIG_RUN(tests);
}
