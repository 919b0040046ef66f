/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between two ends without a connection: what a peer may say, and what it may
 * not.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/transport/tls_frame.h"
#include "ckpt/transport/wire.h"

struct end {
    struct dlr_frames *f;
    unsigned messages, offers, ended;
    int rc;
    bool takes;
    char heard[128];
    unsigned char to[64];
};

static void on_end(void *arg, int rc)
{
    struct end *e = arg;

    e->ended++;
    e->rc = rc;
}

static void on_message(void *arg, unsigned kind, const void *data, size_t bytes)
{
    struct end *e = arg;

    e->messages++;
    assert_true(bytes < sizeof(e->heard));
    memcpy(e->heard, data, bytes);
    e->heard[bytes] = '\0';
}

static void on_offered(void *arg, unsigned kind, struct dlr_net_part head,
                       uint64_t bytes, uint32_t seq)
{
    struct end *e = arg;

    e->offers++;
    memcpy(e->heard, head.at, head.bytes);
    e->heard[head.bytes] = '\0';
    if (e->takes && bytes <= sizeof(e->to))
        assert_int_equal(dlr_frames_take(e->f, seq, e->to, bytes, on_end, e), 0);
}

static void open_end(struct end *e)
{
    static const struct dlr_frames_ops ops = {on_message, on_offered};

    *e = (struct end){.takes = true};
    e->f = dlr_frames_new(&ops, e);
    assert_non_null(e->f);
}

static void close_end(struct end *e)
{
    dlr_frames_cancel(e->f, -ECANCELED);
    dlr_frames_free(e->f);
}

/* Puts bytes in, so many at a time. */
static int feed(struct end *e, const void *from, size_t bytes, size_t step)
{
    const unsigned char *at = from;
    int rc = 0;

    while (bytes > 0 && rc == 0) {
        size_t room;
        void *to;

        dlr_frames_room(e->f, &to, &room);
        assert_true(room > 0);
        if (room > step)
            room = step;
        if (room > bytes)
            room = bytes;
        memcpy(to, at, room);
        at += room;
        bytes -= room;
        rc = dlr_frames_came(e->f, room);
    }
    return rc;
}

/* All that from has to say goes to to, and back, until both are silent. */
static void talk(struct end *a, struct end *b, size_t step)
{
    struct end *ends[] = {a, b};

    for (unsigned silent = 0, i = 0; silent < 2; i ^= 1) {
        const void *from;
        size_t bytes;

        if (!dlr_frames_next(ends[i]->f, &from, &bytes)) {
            silent++;
            continue;
        }
        silent = 0;
        bytes = bytes > step ? step : bytes;
        assert_int_equal(feed(ends[!i], from, bytes, step), 0);
        dlr_frames_went(ends[i]->f, bytes);
    }
}

static void pieces_of_any_size_make_the_same_frames(void **state)
{
    for (size_t step = 1; step < 100; step += 7) {
        struct end a, b;

        open_end(&a);
        open_end(&b);
        dlr_frames_send(a.f, 1, (struct dlr_net_part){"hello", 5}, on_end, &a);
        dlr_frames_tell(a.f, 2, (struct dlr_net_part){"told", 4});
        dlr_frames_offer(a.f, 3, (struct dlr_net_part){"head", 4},
                         (struct dlr_net_part){"the data", 8}, on_end, &a);
        dlr_frames_offer(a.f, 3, (struct dlr_net_part){"none", 4},
                         (struct dlr_net_part){NULL, 0}, on_end, &a);
        talk(&a, &b, step);
        assert_int_equal(b.messages, 2);
        assert_int_equal(b.offers, 2);
        assert_int_equal(b.ended, 2);
        assert_int_equal(a.ended, 3);
        assert_int_equal(a.rc, 0);
        assert_memory_equal(b.to, "the data", 8);
        assert_int_equal(dlr_frames_inflight(a.f) + dlr_frames_inflight(b.f), 0);
        close_end(&a);
        close_end(&b);
    }
}

static void what_is_not_taken_is_refused(void **state)
{
    struct end a, b;

    open_end(&a);
    open_end(&b);
    b.takes = false;
    dlr_frames_offer(a.f, 3, (struct dlr_net_part){"h", 1},
                     (struct dlr_net_part){"d", 1}, on_end, &a);
    talk(&a, &b, 1000);
    assert_int_equal(a.rc, -ECONNREFUSED);
    close_end(&a);
    close_end(&b);
}

static void what_is_never_said_ends_it(void **state)
{
    const struct {
        const char *what;
        struct dlr_frame frame;
    } rows[] = {
        {"no such type", {.type = 6}},
        {"type 0", {.type = 0}},
        {"a message of no kind", {.type = DLR_FRAME_MESSAGE, .bytes = 1}},
        {"a block that was not offered",
         {.type = DLR_FRAME_MESSAGE, .kind = DLR_WIRE_BLOCK, .bytes = 40}},
        {"an answer too long",
         {.type = DLR_FRAME_MESSAGE,
          .kind = DLR_WIRE_ANSWER,
          .bytes = sizeof(struct dlr_wire_answer) + 1}},
        {"an end too long",
         {.type = DLR_FRAME_MESSAGE,
          .kind = DLR_WIRE_ACK,
          .bytes = sizeof(struct dlr_wire_answer) + 1}},
        {"a beginning too long",
         {.type = DLR_FRAME_MESSAGE,
          .kind = DLR_WIRE_BEGIN,
          .bytes = dlr_wire_most(DLR_WIRE_BEGIN) + 1}},
        {"a message with a head", {.type = DLR_FRAME_MESSAGE, .head_bytes = 1}},
        {"a message with a number", {.type = DLR_FRAME_MESSAGE, .seq = 1}},
        {"a head too long",
         {.type = DLR_FRAME_OFFER, .head_bytes = DLR_NET_HEAD_MAX + 1}},
        {"more than memory", {.type = DLR_FRAME_OFFER, .bytes = UINT64_MAX}},
        {"a take of what was not offered", {.type = DLR_FRAME_TAKE, .seq = 1}},
        {"a take with bytes", {.type = DLR_FRAME_TAKE, .bytes = 1}},
        {"a refusal of what was not offered", {.type = DLR_FRAME_REFUSE, .seq = 9}},
        {"data that was not taken", {.type = DLR_FRAME_DATA, .seq = 1, .bytes = 8}},
        {"data of nobody", {.type = DLR_FRAME_DATA}},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct end e;

        print_message("row '%s'\n", rows[i].what);
        open_end(&e);
        assert_int_equal(feed(&e, &rows[i].frame, sizeof(rows[i].frame), 16), -EBADMSG);
        assert_int_equal(e.messages + e.offers + e.ended, 0);
        close_end(&e);
    }
}

/* A gigabyte that is said to come costs what has come of it. */
static void a_long_message_is_given_room_as_it_comes(void **state)
{
    static unsigned char bytes[8 * DLR_FRAME_FIRST];
    struct dlr_frame frame = {
        .type = DLR_FRAME_MESSAGE, .kind = DLR_WIRE_BEGIN, .bytes = UINT64_C(1) << 30};
    size_t room, came = 0;
    struct end e;
    void *to;

    open_end(&e);
    assert_int_equal(feed(&e, &frame, sizeof(frame), 16), 0);
    do {
        dlr_frames_room(e.f, &to, &room);
        assert_true(room > 0 && room <= (came ? came : DLR_FRAME_FIRST));
        assert_int_equal(feed(&e, bytes, room, room), 0);
        came += room;
    } while (came < sizeof(bytes));
    assert_int_equal(e.messages, 0);
    close_end(&e);
}

/* Data of another length than was offered is not written. */
static void data_longer_than_offered_is_not_written(void **state)
{
    struct dlr_frame offer = {.type = DLR_FRAME_OFFER, .seq = 5, .bytes = 8};
    struct dlr_frame data = {.type = DLR_FRAME_DATA, .seq = 5, .bytes = 9};
    struct end e;

    open_end(&e);
    assert_int_equal(feed(&e, &offer, sizeof(offer), 16), 0);
    assert_int_equal(feed(&e, &data, sizeof(data), 16), -EBADMSG);
    assert_int_equal(e.ended, 0);
    close_end(&e);
    assert_int_equal(e.ended, 1);
    assert_int_equal(e.rc, -ECANCELED);
}

/* Who asks and never reads the answers is read no more. */
static void answers_do_not_pile_up(void **state)
{
    struct dlr_frame offer = {.type = DLR_FRAME_OFFER};
    struct end e;

    open_end(&e);
    e.takes = false;
    for (unsigned i = 0; i <= DLR_FRAME_OWED_MAX; i++) {
        assert_false(dlr_frames_full(e.f));
        offer.seq = i;
        assert_int_equal(feed(&e, &offer, sizeof(offer), 16), 0);
    }
    assert_true(dlr_frames_full(e.f));
    close_end(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_any_size_make_the_same_frames),
        cmocka_unit_test(what_is_not_taken_is_refused),
        cmocka_unit_test(what_is_never_said_ends_it),
        cmocka_unit_test(a_long_message_is_given_room_as_it_comes),
        cmocka_unit_test(data_longer_than_offered_is_not_written),
        cmocka_unit_test(answers_do_not_pile_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
