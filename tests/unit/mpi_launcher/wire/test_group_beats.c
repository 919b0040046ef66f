/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/wire/group_beats.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mpi_launcher/wire/heartbeat.h"

static void frames_have_the_bytes_that_the_header_draws(void **state)
{
    static const unsigned char beats_want[] = {
        'D', 'L',  'R',  'G',  1,    0,    1,    0,    3,    0,  0, 0, 4, 3, 2,
        1,   0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 65, 0, 0, 0, 9, 0,
        0,   0,    7,    0,    0,    0,    120,  0,    0,    0,  0, 0, 0, 0};
    static const unsigned char leases_want[DLR_GROUP_LEASES_BYTES] = {
        'D', 'L', 'R',  'A', 1, 0, 0, 0, 3, 0, 0, 0, 4, 3,
        2,   1,   0xe8, 3,   0, 0, 5, 0, 0, 0, 0, 0, 0, 0x80};
    const struct dlr_group_beats beats = {.gen = 3,
                                          .seq = 0x01020304,
                                          .sent_ns = 0x1122334455667788,
                                          .n = 1,
                                          .all[0] = {65, 9, 7, 120}};
    const struct dlr_group_leases leases = {
        .gen = 3, .seq = 0x01020304, .lease_ms = 1000, .taken = 0x8000000000000005};
    unsigned char buf[DLR_GROUP_BEATS_BYTES];

    assert_int_equal(dlr_group_beats_pack(&beats, buf), sizeof(beats_want));
    assert_memory_equal(buf, beats_want, sizeof(beats_want));
    dlr_group_leases_pack(&leases, buf);
    assert_memory_equal(buf, leases_want, sizeof(leases_want));
}

static void a_whole_group_survives_the_way(void **state)
{
    struct dlr_group_beats in = {.gen = 1,
                                 .seq = 2,
                                 .sent_ns = 3,
                                 .n = DLR_GROUP_NODES},
                           got;
    unsigned char buf[DLR_GROUP_BEATS_BYTES];

    for (unsigned i = 0; i < DLR_GROUP_NODES; i++)
        in.all[i] = (struct dlr_group_beat){i, 2 * i, 3 * i, DLR_HEARTBEAT_NO_STEP - i};
    assert_int_equal(dlr_group_beats_pack(&in, buf), sizeof(buf));
    assert_int_equal(dlr_group_beats_unpack(buf, sizeof(buf), &got), 0);
    assert_int_equal(got.n, DLR_GROUP_NODES);
    for (unsigned i = 0; i < DLR_GROUP_NODES; i++) {
        assert_int_equal(got.all[i].node, in.all[i].node);
        assert_int_equal(got.all[i].ticket, in.all[i].ticket);
        assert_int_equal(got.all[i].round, in.all[i].round);
        assert_true(got.all[i].step_max == in.all[i].step_max);
    }
}

static void what_is_no_such_frame_is_refused(void **state)
{
    static const struct {
        const char *what;
        size_t at;
        unsigned char value;
    } rows[] = {
        {"magic", 0, 'X'},   {"a beat's magic", 3, 'B'},
        {"version 0", 4, 0}, {"version 257", 5, 1},
        {"none", 6, 0},      {"more than there are", 6, 3},
        {"65", 6, 65},       {"257", 7, 1},
    };
    const struct dlr_group_beats in = {.n = 2};
    const struct dlr_group_leases none = {.gen = 1};
    unsigned char buf[DLR_GROUP_BEATS_BYTES + 1], good[DLR_GROUP_BEATS_BYTES];
    struct dlr_group_leases leases;
    struct dlr_group_beats got;
    size_t size = dlr_group_beats_pack(&in, good);

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        memcpy(buf, good, size);
        buf[rows[i].at] = rows[i].value;
        if (dlr_group_beats_unpack(buf, size, &got) != -EBADMSG)
            fail_msg("taken: %s", rows[i].what);
    }
    for (size_t n = 0; n < size; n++)
        assert_int_equal(dlr_group_beats_unpack(good, n, &got), -EBADMSG);
    dlr_group_leases_pack(&none, buf);
    assert_int_equal(dlr_group_leases_unpack(buf, DLR_GROUP_LEASES_BYTES, &leases), 0);
    assert_int_equal(dlr_group_leases_unpack(buf, DLR_GROUP_LEASES_BYTES - 1, &leases),
                     -EBADMSG);
    assert_int_equal(dlr_group_leases_unpack(buf, DLR_GROUP_LEASES_BYTES + 1, &leases),
                     -EBADMSG);
    buf[6] = 1;
    assert_int_equal(dlr_group_leases_unpack(buf, DLR_GROUP_LEASES_BYTES, &leases),
                     -EBADMSG);
    assert_false(dlr_group_beats_is(buf, DLR_GROUP_LEASES_BYTES));
    assert_false(dlr_group_leases_is(good, size));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_have_the_bytes_that_the_header_draws),
        cmocka_unit_test(a_whole_group_survives_the_way),
        cmocka_unit_test(what_is_no_such_frame_is_refused),
    };

    return cmocka_run_group_tests_name("group_beats", tests, NULL, NULL);
}
