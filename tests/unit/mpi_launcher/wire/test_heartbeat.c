/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/wire/heartbeat.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct dlr_heartbeat sample = {.kind = DLR_HEARTBEAT,
                                            .gen = 3,
                                            .seq = 0x01020304,
                                            .sent_ns = 0x1122334455667788,
                                            .round = 7,
                                            .step_min = 119,
                                            .step_max = 120};

static void a_beat_has_the_bytes_that_the_header_draws(void **state)
{
    static const unsigned char want[DLR_HEARTBEAT_BYTES] = {
        'D',  'L',  'R',  'B',  1,    0,    1,    0,    3,   0, 0, 0, 4, 3, 2, 1,
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 7,   0, 0, 0, 0, 0, 0, 0,
        119,  0,    0,    0,    0,    0,    0,    0,    120, 0, 0, 0, 0, 0, 0, 0};
    unsigned char buf[DLR_HEARTBEAT_BYTES];

    dlr_heartbeat_pack(&sample, buf);
    assert_memory_equal(buf, want, sizeof(want));
}

static void both_kinds_survive_the_way(void **state)
{
    struct dlr_heartbeat lease = {.kind = DLR_LEASE,
                                  .gen = 3,
                                  .seq = 9,
                                  .sent_ns = 12345,
                                  .round = 2,
                                  .lease_ms = 1000};
    struct dlr_heartbeat none = sample, got;
    unsigned char buf[DLR_HEARTBEAT_BYTES];

    none.step_min = none.step_max = DLR_HEARTBEAT_NO_STEP;
    for (int i = 0; i < 3; i++) {
        const struct dlr_heartbeat *in = i == 0 ? &sample : i == 1 ? &none : &lease;

        memset(&got, 0xff, sizeof(got));
        dlr_heartbeat_pack(in, buf);
        assert_int_equal(dlr_heartbeat_unpack(buf, sizeof(buf), &got), 0);
        assert_int_equal(got.kind, in->kind);
        assert_int_equal(got.gen, in->gen);
        assert_int_equal(got.seq, in->seq);
        assert_int_equal(got.sent_ns, in->sent_ns);
        assert_int_equal(got.round, in->round);
        assert_int_equal(got.lease_ms, in->lease_ms);
        assert_int_equal(got.step_min, in->step_min);
        assert_int_equal(got.step_max, in->step_max);
    }
}

static void what_is_no_beat_is_refused(void **state)
{
    static const struct {
        const char *what;
        size_t at;
        unsigned char value;
    } rows[] = {
        {"magic", 0, 'X'},
        {"magic's end", 3, 'b'},
        {"version 0", 4, 0},
        {"version 2", 4, 2},
        {"version 257", 5, 1},
        {"kind 0", 6, 0},
        {"kind 3", 6, 3},
        {"kind 257", 7, 1},
        {"a beat with a lease", 28, 1},
        {"steps swapped", 32, 200},
        {"a lease with steps", 6, 2},
    };
    unsigned char buf[DLR_HEARTBEAT_BYTES + 1];
    struct dlr_heartbeat got;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("row '%s'\n", rows[i].what);
        dlr_heartbeat_pack(&sample, buf);
        buf[rows[i].at] = rows[i].value;
        assert_int_equal(dlr_heartbeat_unpack(buf, DLR_HEARTBEAT_BYTES, &got),
                         -EBADMSG);
    }
    dlr_heartbeat_pack(&sample, buf);
    for (size_t size = 0; size <= sizeof(buf); size++)
        assert_int_equal(dlr_heartbeat_unpack(buf, size, &got),
                         size == DLR_HEARTBEAT_BYTES ? 0 : -EBADMSG);
}

static void json_is_never_taken_for_a_beat(void **state)
{
    assert_false(dlr_heartbeat_is("{\"v\":2}", 7));
    assert_false(dlr_heartbeat_is("DLR", 3));
    assert_true(dlr_heartbeat_is("DLRBxxxx", 8));
}

/* Intervals until the answer comes, of those that a node may miss: how many beats go in
 * 1,000 intervals.
 */
static unsigned gone_of_1000(unsigned answer, unsigned missed)
{
    uint32_t sent = 0, answered = 0, held = 0;
    unsigned at[1001];

    for (unsigned now = 0; now < 1000; now++) {
        while (answered < sent && at[answered + 1] + answer <= now)
            answered++;
        if (!dlr_heartbeat_goes(sent - answered, held, missed)) {
            held++;
            continue;
        }
        held = 0;
        at[++sent] = now;
    }
    return sent;
}

static void unanswered_beats_slow_down_and_never_stop(void **state)
{
    assert_int_equal(gone_of_1000(1, 5), 1000);
    assert_int_equal(gone_of_1000(5, 5), 1000); /* as long as a lease */
    assert_in_range(gone_of_1000(50, 5), 200, 300);
    assert_in_range(gone_of_1000(5000, 5), 200, 210);
    assert_int_equal(gone_of_1000(5000, 1), 1000);
}

static void a_term_is_held_as_long_as_slurm_leaves_the_tasks(void **state)
{
    static const struct {
        const char *kill_wait;
        int64_t ms;
    } rows[] = {{NULL, 120000},  {"30", 120000},      {"90", 120000},
                {"300", 330000}, {"0", 120000},       {"", 120000},
                {"-1", 120000},  {"65533", 65563000}, {"x", 120000}};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_int_equal(dlr_term_hold_ms(rows[i].kill_wait), rows[i].ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_beat_has_the_bytes_that_the_header_draws),
        cmocka_unit_test(both_kinds_survive_the_way),
        cmocka_unit_test(what_is_no_beat_is_refused),
        cmocka_unit_test(json_is_never_taken_for_a_beat),
        cmocka_unit_test(unanswered_beats_slow_down_and_never_stop),
        cmocka_unit_test(a_term_is_held_as_long_as_slurm_leaves_the_tasks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
