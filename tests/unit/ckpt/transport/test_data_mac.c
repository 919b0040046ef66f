/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/slot,common/local needs=dlrover-data */
/* What a sender believes of what somebody says in the receiver's place over UCX; and
 * the tags themselves.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/transport/mac.h"
#include "ckpt/transport/net.h"
#include "common/base/clock.h"
#include "tests/support/data_rig.h"

#define DATA (UINT64_C(1) << 16) /* one block */
#define RANK 3
#define ROUND 5

static const struct dlr_version v7 = {ROUND, 7};

/* A receiver, or who has taken its place. */
struct place {
    struct dlr_net *net;
    struct dlr_net_peer *peer;
    struct rig_data from;
    struct dlr_slot *src;
    unsigned char key[DLR_MAC_KEY];
    struct dlr_wire_begin begin;
    struct dlr_mac mac;
    unsigned char block[DATA];
    bool asked, there; /* BEGIN came; block did */
};

static void on_taken(void *arg, int rc)
{
    struct place *p = arg;

    assert_int_equal(rc, 0);
    p->there = true;
}

static void in(void *arg, unsigned kind, struct dlr_net_in *in)
{
    struct place *p = arg;
    const void *address, *meta;

    if (kind == DLR_WIRE_BLOCK) {
        struct dlr_wire_block head;

        assert_int_equal(dlr_wire_read_block(in->head, in->head_bytes, &head), 0);
        assert_int_equal(in->bytes, DATA);
        if (dlr_net_take(in, p->block, on_taken, p) == 1)
            p->there = true;
        return;
    }
    assert_int_equal(
        dlr_wire_read_begin(in->data, in->bytes, &p->begin, &address, &meta), 0);
    assert_int_equal(dlr_mac_join(&p->mac, p->key, p->begin.salt), 0);
    assert_int_equal(dlr_mac_check(&p->mac, in->data, in->bytes), 0);
    assert_int_equal(
        dlr_net_sender(in, address, p->begin.address_bytes, &p->peer, NULL), 0);
    p->asked = true;
}

static void down(void *arg, struct dlr_net_peer *peer, int rc)
{
}

static void order_copy(struct place *p)
{
    char hex[2 * DLR_WIRE_ADDRESS_MAX + 1];
    const unsigned char *address;
    size_t bytes;

    dlr_net_address(p->net, (const void **)&address, &bytes);
    for (size_t i = 0; i < bytes; i++)
        sprintf(hex + 2 * i, "%02x", address[i]);
    rig_order(&p->from, DLR_LOCAL_D_SEND, ROUND, RANK, v7, 1, hex);
}

static void drive(struct place *p, const bool *done)
{
    int64_t limit = dlr_now_ms() + RIG_ANSWER_MS;

    while (!*done) {
        dlr_net_progress(p->net);
        assert_true(dlr_now_ms() < limit);
    }
}

static int up(void **state)
{
    static const struct dlr_net_ops ops = {.in = in, .down = down};
    const struct dlr_net_conf conf = {
        .transport = DLR_TRANSPORT_UCX, .answer_ms = 5000, .devices = ""};
    struct place *p = calloc(1, sizeof(*p));
    unsigned char secret[DLR_WIRE_TOKEN], token[DLR_WIRE_TOKEN];

    *state = p;
    for (unsigned i = 0; i < DLR_WIRE_TOKEN; i++)
        secret[i] = (unsigned char)(i * 0x11); /* RIG_TOKEN */
    assert_int_equal(dlr_net_open(&conf, &ops, p, &p->net, NULL), 0);
    assert_int_equal(dlr_net_set_key(p->net, secret, sizeof(secret), token), 0);
    assert_int_equal(dlr_mac_round(secret, sizeof(secret), p->key), 0);
    rig_start(&p->from, NULL, NULL);
    rig_config(&p->from, ROUND, RIG_TOKEN, "[]");
    assert_int_equal(rig_reserve(&p->from, RANK, rig_slot_bytes(DATA)), 0);
    p->src = rig_slot(&p->from, RANK, 0);
    rig_snapshot(p->src, RANK, v7, DATA);
    order_copy(p);
    drive(p, &p->asked);
    return 0;
}

static int finish(void **state)
{
    struct place *p = *state;

    dlr_net_peer_put(p->peer);
    dlr_net_close(p->net);
    dlr_slot_unmap(p->src);
    rig_end(&p->from);
    rig_remove(&p->from);
    free(p);
    return 0;
}

/* kind: how it is sent. */
static void say(struct place *p, unsigned kind, struct dlr_wire_answer *answer)
{
    assert_int_equal(
        dlr_net_tell(p->peer, kind, (struct dlr_net_part){answer, sizeof(*answer)}), 0);
}

static struct dlr_wire_answer answer_of(const struct place *p, unsigned kind,
                                        unsigned error)
{
    struct dlr_wire_answer answer = {.magic = DLR_WIRE_MAGIC,
                                     .version = DLR_WIRE_VERSION,
                                     .kind = (uint16_t)kind,
                                     .error = error,
                                     .id = p->begin.id,
                                     .peer_id = 1};

    memcpy(answer.token, p->begin.token, sizeof(answer.token));
    return answer;
}

static void say_signed(struct place *p, unsigned kind, unsigned error)
{
    struct dlr_wire_answer answer = answer_of(p, kind, error);

    assert_int_equal(dlr_mac_sign(&p->mac, &answer, sizeof(answer)), 0);
    say(p, kind, &answer);
}

/* Each in turn, none with a tag that is right. */
static void say_forged(struct place *p, unsigned kind, unsigned error)
{
    struct dlr_wire_answer answer = answer_of(p, kind, error);
    struct dlr_mac other;
    unsigned char salt[DLR_WIRE_SALT];

    say(p, kind, &answer);
    assert_int_equal(dlr_mac_begin(&other, p->key, salt), 0);
    assert_int_equal(dlr_mac_sign(&other, &answer, sizeof(answer)), 0);
    say(p, kind, &answer);
    answer.kind = (uint16_t)(DLR_WIRE_ANSWER + DLR_WIRE_ACK - kind);
    assert_int_equal(dlr_mac_sign(&p->mac, &answer, sizeof(answer)), 0);
    say(p, kind, &answer); /* what was said as the other kind, once more as this */
}

/* It hears the true one in place of those. */
static void expect_end(struct place *p, int error)
{
    struct pollfd fd = {.fd = p->from.fd, .events = POLLIN};
    int64_t limit = dlr_now_ms() + RIG_ANSWER_MS;
    struct dlr_local_msg msg = {0};

    while (msg.type != DLR_LOCAL_D_DONE) {
        assert_true(dlr_now_ms() < limit);
        dlr_net_progress(p->net);
        if (poll(&fd, 1, 1) == 1)
            rig_next(&p->from, &msg);
    }
    assert_int_equal(msg.arg[2], error);
}

static void it_was_there_already_says_only_the_receiver(void **state)
{
    struct place *p = *state;

    say_forged(p, DLR_WIRE_ANSWER, EALREADY);
    say_signed(p, DLR_WIRE_ANSWER, EPERM);
    expect_end(p, EPERM);
}

static void nothing_is_sent_to_who_has_not_the_key(void **state)
{
    struct place *p = *state;

    say_forged(p, DLR_WIRE_ANSWER, 0);
    say_signed(p, DLR_WIRE_ANSWER, EPERM);
    expect_end(p, EPERM);
    assert_false(p->there);
}

static void it_is_whole_says_only_the_receiver(void **state)
{
    struct place *p = *state;

    say_signed(p, DLR_WIRE_ANSWER, 0);
    drive(p, &p->there);
    say_forged(p, DLR_WIRE_ACK, 0);
    say_signed(p, DLR_WIRE_ACK, EIO);
    expect_end(p, EIO);
}

/* A receiver of another round has not our key. */
static void a_refusal_needs_no_key(void **state)
{
    struct place *p = *state;
    struct dlr_wire_answer answer = answer_of(p, DLR_WIRE_ANSWER, ESTALE);

    say(p, DLR_WIRE_ANSWER, &answer);
    expect_end(p, ESTALE);
}

/* --- the tags --------------------------------------------------------------------- */

/* Each bit of a head and of its data counts, and of where it belongs. */
static void a_changed_bit_is_found(void **state)
{
    unsigned char round[DLR_MAC_KEY] = "round", salt[DLR_WIRE_SALT], data[64] = "data";
    struct dlr_wire_block head = {.magic = DLR_WIRE_MAGIC, .id = 7, .index = 5};
    struct dlr_mac mac, again;

    assert_int_equal(dlr_mac_begin(&mac, round, salt), 0);
    assert_int_equal(dlr_mac_join(&again, round, salt), 0);
    assert_int_equal(dlr_mac_sign_block(&mac, &head, data, sizeof(data)), 0);
    assert_int_equal(dlr_mac_check_block(&again, &head, data, sizeof(data)), 0);
    for (unsigned bit = 0; bit < 8 * sizeof(head); bit++) {
        ((unsigned char *)&head)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_equal(dlr_mac_check_block(&mac, &head, data, sizeof(data)),
                         -EKEYREJECTED);
        ((unsigned char *)&head)[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    for (unsigned bit = 0; bit < 8 * sizeof(data); bit++) {
        data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_equal(dlr_mac_check_block(&mac, &head, data, sizeof(data)),
                         -EKEYREJECTED);
        assert_int_equal(dlr_mac_sign(&mac, data, sizeof(data)), 0);
        assert_int_equal(dlr_mac_check(&mac, data, sizeof(data)), 0);
        data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_equal(dlr_mac_check(&mac, data, sizeof(data)), -EKEYREJECTED);
        memset(data + sizeof(data) - DLR_WIRE_TAG, 0, DLR_WIRE_TAG);
    }
    assert_int_equal(dlr_mac_check_block(&mac, &head, data, sizeof(data)), 0);
    assert_int_equal(dlr_mac_check_block(&mac, &head, data, sizeof(data) - 1),
                     -EKEYREJECTED);
}

/* Nothing that is seen on the wire, and nothing that another purpose has, is a key of a
 * transfer.
 */
static void keys_are_apart(void **state)
{
    unsigned char secret[DLR_WIRE_TOKEN] = "secret", a[DLR_MAC_KEY], b[DLR_MAC_KEY];
    unsigned char salt[DLR_WIRE_SALT], more[DLR_WIRE_SALT];
    struct dlr_mac one, two, off = {0};

    assert_int_equal(dlr_mac_round(secret, sizeof(secret), a), 0);
    secret[0] ^= 1;
    assert_int_equal(dlr_mac_round(secret, sizeof(secret), b), 0);
    assert_memory_not_equal(a, b, sizeof(a));
    assert_int_equal(dlr_mac_begin(&one, a, salt), 0);
    assert_int_equal(dlr_mac_begin(&two, a, more), 0);
    assert_memory_not_equal(salt, more, sizeof(salt));
    assert_memory_not_equal(one.block, two.block, sizeof(a));
    assert_memory_not_equal(one.message, two.message, sizeof(a));
    assert_memory_not_equal(one.message, one.block, sizeof(a));
    assert_int_equal(dlr_mac_sign(&off, more, sizeof(more)), 0);
    assert_int_equal(dlr_mac_check(&off, more, sizeof(more)), -EKEYREJECTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_bit_is_found),
        cmocka_unit_test(keys_are_apart),
        cmocka_unit_test_setup_teardown(it_was_there_already_says_only_the_receiver, up,
                                        finish),
        cmocka_unit_test_setup_teardown(nothing_is_sent_to_who_has_not_the_key, up,
                                        finish),
        cmocka_unit_test_setup_teardown(it_is_whole_says_only_the_receiver, up, finish),
        cmocka_unit_test_setup_teardown(a_refusal_needs_no_key, up, finish),
    };

    setenv("UCX_TLS", "tcp,self", 1);
    setenv(RIG_TRANSPORT, "ucx", 1);
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
