/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/unit/watch/judge/look_rig.h"

#define WORLD DLR_LOOK_WORLD
#define GROUP 77
#define NONE DLR_VERDICT_NONE
#define STILL DLR_VERDICT_STILL
#define STUCK DLR_VERDICT_STUCK
#define UNKNOWN DLR_VERDICT_UNKNOWN

static struct rig rig;

static int stop(void **state)
{
    rig_stop(&rig);
    return 0;
}

/* All but one, or two, are in operation 812 of the world. */
static void start_without(uint32_t n, uint32_t a, uint32_t b)
{
    rig_start(&rig, n);
    for (uint32_t r = 0; r < n; r++)
        if (r != a && r != b)
            rig_enter(&rig, r, WORLD, RIG_ALLREDUCE);
}

static void who_has_not_come_is_named_with_the_operation(void **state)
{
    start_without(16, 5, 5);
    rig_expect(&rig, STILL, DLR_BLAME_NOT_ENTERED, "5");
    assert_int_equal(rig.verdict.waits, 15);
    assert_int_equal(rig.verdict.first, 5);
    assert_int_equal(rig.verdict.comm, WORLD);
    assert_int_equal(rig.verdict.number, 812);
    assert_int_equal(rig.verdict.call, RIG_ALLREDUCE);
    assert_int_equal(rig.verdict.bytes, 4096);
    assert_int_equal(rig.verdict.waited_ns, 60 * RIG_SECOND);
    assert_false(rig.verdict.first_step);
}

/* Rank 1 is at number 1 of a group and waits there for 0. Rank 7 has come to 812 of the
 * world and gone on; in the group it has begun number 1.
 */
static void numbers_of_other_communicators_are_not_compared(void **state)
{
    const uint32_t members[] = {0, 1, 7};

    start_without(8, 0, 1);
    rig.looks[7].ncalls = 0;
    rig.looks[7].comms[0].left++;
    rig_add_comm(&rig, GROUP, members, 3);
    rig_begin(&rig, 7, GROUP, RIG_ALLREDUCE);
    rig_enter(&rig, 1, GROUP, RIG_ALLREDUCE);
    rig_expect(&rig, STILL, DLR_BLAME_NOT_ENTERED, "0");
    assert_int_equal(rig.verdict.waits, 6);
    assert_int_equal(rig.verdict.busy, 1);
}

static void what_moves_between_two_looks_is_not_still(void **state)
{
    start_without(4, 2, 2);
    rig_before(&rig, 2)->moved_ns -= RIG_SECOND;
    rig_expect(&rig, NONE, DLR_BLAME_NOBODY, "");
    assert_int_equal(rig.verdict.moves, 1);
}

static void who_stands_no_longer_than_it_may_is_not_named(void **state)
{
    start_without(4, 2, 2);
    rig.ranks[2].limit_ns = 100 * RIG_SECOND;
    rig_expect(&rig, NONE, DLR_BLAME_NOBODY, "");
    rig.ranks[2].limit_ns = 75 * RIG_SECOND; /* named at four fifths */
    rig_expect(&rig, STILL, DLR_BLAME_NOT_ENTERED, "2");
    rig.looks[2].paused = true;
    rig_expect(&rig, NONE, DLR_BLAME_NOBODY, "");
}

static void no_data_is_unknown_and_never_hung(void **state)
{
    start_without(4, 2, 2);
    rig.looks[2].data = DLR_LOOK_NONE;
    rig_expect(&rig, UNKNOWN, DLR_BLAME_NO_DATA, "");
    assert_int_equal(rig.parts[2], DLR_PART_UNKNOWN);
    rig.looks[2].data = DLR_LOOK_TORN;
    rig_expect(&rig, UNKNOWN, DLR_BLAME_NO_DATA, "");
    rig.ranks[2].before = rig.ranks[2].after = NULL;
    rig_expect(&rig, UNKNOWN, DLR_BLAME_NO_DATA, "");
    assert_int_equal(rig.verdict.unknown, 1);
}

/* It may be in a call that found no line on its page. */
static void who_lost_calls_is_unknown(void **state)
{
    start_without(4, 2, 2);
    rig.looks[2].lost = 1;
    rig_expect(&rig, UNKNOWN, DLR_BLAME_NO_DATA, "");
}

static void who_lost_count_of_a_communicator_is_unknown_there(void **state)
{
    start_without(4, 2, 2);
    rig.looks[2].comms[0].lost = 3;
    rig_expect(&rig, UNKNOWN, DLR_BLAME_NO_DATA, "");
}

static void culprit_is_named_beside_one_of_whom_nothing_is_known(void **state)
{
    start_without(8, 2, 3);
    rig.looks[3].data = DLR_LOOK_NONE;
    rig_expect(&rig, STILL, DLR_BLAME_NOT_ENTERED, "2");
    assert_int_equal(rig.verdict.unknown, 1);
}

static void receives_from_each_other_are_a_deadlock(void **state)
{
    start_without(4, 1, 2);
    rig_wait(&rig, 1, WORLD, RIG_RECV, 2, 5);
    rig_wait(&rig, 2, WORLD, RIG_RECV, 1, 5);
    rig_expect(&rig, STILL, DLR_BLAME_DEADLOCK, "1 2");
}

static void sends_to_each_other_are_a_deadlock(void **state)
{
    rig_start(&rig, 2);
    rig_wait(&rig, 0, WORLD, RIG_SEND, 1, 5);
    rig_wait(&rig, 1, WORLD, RIG_SEND, 0, 5);
    rig_expect(&rig, STILL, DLR_BLAME_DEADLOCK, "0 1");
}

static void message_with_another_tag_is_a_deadlock(void **state)
{
    rig_start(&rig, 2);
    rig_wait(&rig, 0, WORLD, RIG_SEND, 1, 5);
    rig_wait(&rig, 1, WORLD, RIG_RECV, 0, 6);
    rig_expect(&rig, STILL, DLR_BLAME_DEADLOCK, "0 1");
}

/* Irecv, Send and Wait on both, or Isend, Barrier and Wait against Recv and Barrier: the
 * requests are on no page.
 */
static void requests_begun_before_may_end_a_circle(void **state)
{
    rig_start(&rig, 2);
    rig_wait(&rig, 0, WORLD, RIG_SEND, 1, 5);
    rig_wait(&rig, 1, WORLD, RIG_SEND, 0, 5);
    rig.ranks[1].limit_ns = 100 * RIG_SECOND;
    rig_expect(&rig, NONE, DLR_BLAME_NOBODY, "");
    rig_stop(&rig);
    start_without(4, 2, 2);
    rig_wait(&rig, 2, WORLD, RIG_RECV, 0, 5);
    rig_expect(&rig, STILL, DLR_BLAME_DEADLOCK, "0 2");
    rig.ranks[2].limit_ns = 100 * RIG_SECOND;
    rig_expect(&rig, NONE, DLR_BLAME_NOBODY, "");
}

static void message_that_does_not_arrive_is_the_network(void **state)
{
    rig_start(&rig, 2);
    rig_wait(&rig, 0, WORLD, RIG_SEND, 1, 5);
    rig_wait(&rig, 1, WORLD, RIG_RECV, 0, 5);
    rig_expect(&rig, STILL, DLR_BLAME_NETWORK, "0 1");
    rig.looks[1].in[0].peer = DLR_LOOK_ANY;
    rig_expect(&rig, STILL, DLR_BLAME_NETWORK, "0 1");
}

/* The lines of MPI_Sendrecv have one tag, whichever way the message goes. */
static void exchange_that_does_not_end_is_the_network(void **state)
{
    rig_start(&rig, 2);
    for (uint32_t r = 0; r < 2; r++) {
        rig_wait(&rig, r, WORLD, RIG_EXCHANGE, 1 - (int)r, 5 + (int)r);
        rig_wait(&rig, r, WORLD, RIG_EXCHANGE, 1 - (int)r, 5 + (int)r);
    }
    rig_expect(&rig, STILL, DLR_BLAME_NETWORK, "0 1");
}

/* A ring of MPI_Sendrecv: 1 has what 0 sends it and has gone on, 3 is held by 2. */
static void half_of_a_call_may_have_ended(void **state)
{
    const uint32_t members[] = {2, 3};

    rig_start(&rig, 4);
    rig_add_comm(&rig, GROUP, members, 2);
    rig_wait(&rig, 0, WORLD, RIG_EXCHANGE, 3, 7);
    rig_wait(&rig, 0, WORLD, RIG_EXCHANGE, 1, 7);
    rig_enter(&rig, 1, WORLD, RIG_ALLREDUCE);
    rig_enter(&rig, 3, GROUP, RIG_ALLREDUCE);
    rig_expect(&rig, STILL, DLR_BLAME_NOT_ENTERED, "2");
}

/* The page has four lines for a call: of a fifth request nothing is known. */
static void call_with_all_lines_is_no_proof(void **state)
{
    rig_start(&rig, 2);
    for (int i = 0; i < DLR_LOOK_CALLS; i++)
        rig_wait(&rig, 0, WORLD, RIG_RECV, 1, 5);
    rig_wait(&rig, 1, WORLD, RIG_RECV, 0, 5);
    rig_judge(&rig);
    assert_int_not_equal(rig.verdict.kind, STUCK);
}

static void poll_for_anything_is_no_deadlock(void **state)
{
    start_without(3, 1, 1);
    rig_wait(&rig, 1, 0, RIG_WAIT, DLR_LOOK_ANY, 0);
    rig_expect(&rig, UNKNOWN, DLR_BLAME_NO_DATA, "");
    rig.looks[1].in[0].peer = DLR_LOOK_NOBODY; /* a wait for a window, or a file */
    rig_expect(&rig, UNKNOWN, DLR_BLAME_NO_DATA, "");
}

static void who_reads_a_file_waits_for_nobody(void **state)
{
    start_without(3, 1, 1);
    rig_wait(&rig, 1, 0, RIG_FILE, DLR_LOOK_NOBODY, 0);
    rig_expect(&rig, STILL, DLR_BLAME_NOT_ENTERED, "1");
}

static void nobody_waits_for_no_process(void **state)
{
    start_without(3, 1, 1);
    rig_wait(&rig, 1, WORLD, RIG_EXCHANGE, DLR_LOOK_NOBODY, 0);
    rig_wait(&rig, 1, WORLD, RIG_EXCHANGE, 2, 0);
    rig_expect(&rig, STILL, DLR_BLAME_DEADLOCK, "1 2"); /* 2 is in the allreduce */
}

/* Of the members that have not come only some are waited for. */
static void collective_of_neighbors_proves_nothing(void **state)
{
    rig_start(&rig, 3);
    rig_enter(&rig, 0, WORLD, RIG_NEIGHBORS);
    rig_wait(&rig, 2, WORLD, RIG_RECV, 0, 5);
    rig_before(&rig, 1)->moved_ns--;
    rig_expect(&rig, NONE, DLR_BLAME_NOBODY, "");
}

static void groups_in_another_order_are_a_deadlock(void **state)
{
    const uint32_t members[] = {0, 1, 2, 3};

    start_without(5, 2, 3);
    rig_add_comm(&rig, GROUP, members, 4);
    rig_enter(&rig, 2, GROUP, RIG_BCAST);
    rig_enter(&rig, 3, GROUP, RIG_BCAST);
    rig_expect(&rig, STUCK, DLR_BLAME_DEADLOCK, "0 1 2 3"); /* nobody waits for 4 */
}

static void receive_from_oneself_is_a_deadlock(void **state)
{
    start_without(3, 1, 1);
    rig_wait(&rig, 1, WORLD, RIG_RECV, 1, 5);
    rig_expect(&rig, STILL, DLR_BLAME_DEADLOCK, "1");
}

/* The first thread may be at work: it is told, and not proven. */
static void deadlock_of_other_threads_is_not_proven(void **state)
{
    const uint32_t members[] = {0, 1, 2, 3};

    start_without(4, 1, 2);
    rig_add_comm(&rig, GROUP, members, 4);
    rig_enter(&rig, 1, GROUP, RIG_BCAST);
    rig_enter(&rig, 2, GROUP, RIG_BCAST);
    rig_expect(&rig, STUCK, DLR_BLAME_DEADLOCK, "0 1 2 3");
    rig.looks[1].in[0].tid = 9;
    rig_expect(&rig, STILL, DLR_BLAME_DEADLOCK, "0 1 2 3");
}

/* Between two polls it may compute. */
static void one_that_polls_is_in_no_deadlock(void **state)
{
    static const struct {
        uint64_t comm;
        int32_t peer;
    } rows[] = {{GROUP, DLR_LOOK_NOBODY}, {WORLD, 0}, {WORLD, DLR_LOOK_ANY}};
    const uint32_t members[] = {0, 1};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        start_without(2, 1, 1);
        rig_add_comm(&rig, GROUP, members, 2);
        rig_begin(&rig, 1, GROUP, RIG_BCAST);
        rig_wait(&rig, 1, rows[i].comm, RIG_TEST, rows[i].peer, 5);
        rig_judge(&rig);
        assert_int_not_equal(rig.verdict.blame, DLR_BLAME_DEADLOCK);
        rig.looks[1].in[0].call = RIG_WAIT;
        rig_expect(&rig, rows[i].comm == GROUP ? STUCK : STILL, DLR_BLAME_DEADLOCK,
                   "0 1");
        stop(state);
    }
    rig_start(&rig, 1);
}

static void listener_does_not_hide_who_computes(void **state)
{
    start_without(4, 2, 2);
    rig_wait(&rig, 2, WORLD, RIG_RECV, DLR_LOOK_ANY, 99);
    rig.looks[2].in[0].entered_ns = RIG_SECOND;
    rig_expect(&rig, STILL, DLR_BLAME_NOT_ENTERED, "2");
    rig.looks[2].step = UINT64_MAX;
    rig.looks[2].in[0].tid = 9;
    rig_expect(&rig, STILL, DLR_BLAME_NOT_ENTERED, "2");
    assert_true(rig.verdict.first_step);
}

static void mismatch_names_those_that_differ(void **state)
{
    start_without(5, 3, 3);
    rig_enter(&rig, 3, WORLD, RIG_BCAST);
    rig_expect(&rig, STUCK, DLR_BLAME_MISMATCH, "3");
    assert_int_equal(rig.verdict.number, 812);
    rig.looks[3].comms[0].op = RIG_ALLREDUCE;
    rig.looks[3].comms[0].bytes = 8;
    rig_expect(&rig, STUCK, DLR_BLAME_MISMATCH, "3");
}

static void mismatch_of_two_names_both(void **state)
{
    rig_start(&rig, 2);
    rig_enter(&rig, 0, WORLD, RIG_BCAST);
    rig_enter(&rig, 1, WORLD, RIG_BCAST);
    rig.looks[1].comms[0].root = 1;
    rig_expect(&rig, STUCK, DLR_BLAME_MISMATCH, "0 1");
}

static void one_whose_call_is_not_known_is_no_mismatch(void **state)
{
    start_without(4, 4, 4);
    rig_enter(&rig, 3, WORLD, RIG_BCAST);
    rig.looks[3].comms[0].entered = rig.looks[0].comms[0].entered;
    rig_expect(&rig, STUCK, DLR_BLAME_MISMATCH, "3");
    rig.looks[2].comms[0].op = 0;
    rig_expect(&rig, STILL, DLR_BLAME_NETWORK, "0 1 2 3");
}

static void what_not_all_say_is_not_compared(void **state)
{
    start_without(3, 3, 3);
    for (uint32_t r = 0; r < 3; r++)
        rig.looks[r].comms[0].bytes = r;
    rig.looks[1].comms[0].type = 0; /* its sizes are its own */
    rig.looks[2].comms[0].root = UINT32_MAX;
    rig_expect(&rig, STILL, DLR_BLAME_NETWORK, "0 1 2");
}

static void state_of_the_process_says_what_it_is(void **state)
{
    static const struct {
        enum dlr_look_state state;
        enum dlr_verdict_kind kind;
        enum dlr_blame blame;
    } rows[] = {
        {DLR_LOOK_ALIVE, STILL, DLR_BLAME_NOT_ENTERED},
        {DLR_LOOK_STOPPED, STUCK, DLR_BLAME_STOPPED},
        {DLR_LOOK_TRACED, STILL, DLR_BLAME_TRACED},
        {DLR_LOOK_DISK, STILL, DLR_BLAME_DISK},
        {DLR_LOOK_DEAD, STUCK, DLR_BLAME_LEFT},
    };

    start_without(4, 2, 2);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rig.looks[2].state = rows[i].state;
        rig_expect(&rig, rows[i].kind, rows[i].blame, "2");
    }
}

static void one_stopped_inside_a_collective_is_named(void **state)
{
    start_without(4, 4, 4);
    rig.looks[1].state = DLR_LOOK_STOPPED;
    rig_expect(&rig, STUCK, DLR_BLAME_STOPPED, "1");
}

static void stopped_or_suspended_job_is_not_hung(void **state)
{
    start_without(4, 2, 2);
    rig.suspended = true;
    rig_expect(&rig, NONE, DLR_BLAME_NOBODY, "");
    rig.suspended = false;
    for (uint32_t r = 0; r < 4; r++)
        rig.looks[r].state = DLR_LOOK_STOPPED;
    rig_expect(&rig, NONE, DLR_BLAME_NOBODY, "");
}

static void who_has_finished_is_named_by_those_that_wait(void **state)
{
    start_without(4, 2, 2);
    rig.looks[2].finished = true;
    rig_expect(&rig, STUCK, DLR_BLAME_LEFT, "2");
}

static void who_has_just_left_proves_nothing(void **state)
{
    start_without(4, 2, 2);
    rig.looks[2].state = DLR_LOOK_DEAD;
    rig.ranks[2].limit_ns = 100 * RIG_SECOND;
    rig_expect(&rig, STILL, DLR_BLAME_LEFT, "2");
    rig.looks[2].state = DLR_LOOK_ALIVE;
    rig.looks[2].finished = true;
    rig_expect(&rig, STILL, DLR_BLAME_LEFT, "2");
    rig.ranks[2].limit_ns = 75 * RIG_SECOND;
    rig_expect(&rig, STUCK, DLR_BLAME_LEFT, "2");
}

/* Its page is gone: the others have waited for as long. */
static void who_has_left_without_a_time_is_proven_by_the_others(void **state)
{
    start_without(4, 2, 2);
    rig.looks[2].state = DLR_LOOK_DEAD;
    rig.looks[2].moved_ns = 0;
    rig.ranks[2].still_ns = 0;
    rig_expect(&rig, STUCK, DLR_BLAME_LEFT, "2");
}

/* It may have sent before, and that is on its way. */
static void receive_from_one_that_has_finished_proves_nothing(void **state)
{
    rig_start(&rig, 2);
    rig_wait(&rig, 0, WORLD, RIG_RECV, 1, 1);
    rig.looks[1].finished = true;
    rig_expect(&rig, STILL, DLR_BLAME_LEFT, "1");
}

/* Rank 0 is stopped before it sends to 1, which receives from anybody. Rank 2 exchanges
 * with 1 and 3: whether its half of that is a send to 1 cannot be seen.
 */
static void exchange_that_may_send_is_not_taken_for_one_that_does(void **state)
{
    rig_start(&rig, 4);
    rig.looks[0].state = DLR_LOOK_STOPPED;
    rig_wait(&rig, 1, WORLD, RIG_RECV, DLR_LOOK_ANY, 1);
    rig_wait(&rig, 2, WORLD, RIG_EXCHANGE, 1, 1);
    rig_wait(&rig, 2, WORLD, RIG_EXCHANGE, 3, 1);
    rig.looks[3].finished = true;
    rig_expect(&rig, STUCK, DLR_BLAME_STOPPED, "0");
}

static void who_does_not_finish_is_named(void **state)
{
    rig_start(&rig, 4);
    for (uint32_t r = 0; r < 3; r++)
        rig.looks[r].finished = true;
    rig_expect(&rig, STILL, DLR_BLAME_UNFINISHED, "3");
    rig.looks[3].finished = true;
    rig_expect(&rig, NONE, DLR_BLAME_NOBODY, "");
}

static void who_begins_an_operation_and_does_not_wait_is_named(void **state)
{
    rig_start(&rig, 3);
    for (uint32_t r = 0; r < 3; r++)
        rig_begin(&rig, r, WORLD, RIG_ALLREDUCE);
    rig_wait(&rig, 0, WORLD, RIG_WAIT, DLR_LOOK_NOBODY, 0);
    rig_wait(&rig, 2, WORLD, RIG_WAIT, DLR_LOOK_NOBODY, 0);
    rig_expect(&rig, STILL, DLR_BLAME_NOT_WAITED, "1");
}

static void manager_of_workers_waits_for_the_one_that_works(void **state)
{
    rig_start(&rig, 4);
    rig_wait(&rig, 0, WORLD, RIG_RECV, DLR_LOOK_ANY, 1);
    rig_wait(&rig, 1, WORLD, RIG_RECV, 0, 2);
    rig_wait(&rig, 2, WORLD, RIG_RECV, 0, 2);
    rig_expect(&rig, STILL, DLR_BLAME_ANY_PEER, "3");
    rig.looks[2].finished = true;
    rig_expect(&rig, STILL, DLR_BLAME_ANY_PEER, "3");
    rig_before(&rig, 3)->moved_ns--;
    rig_expect(&rig, NONE, DLR_BLAME_NOBODY, "");
}

static void one_of_two_requests_is_enough(void **state)
{
    rig_start(&rig, 3);
    rig_wait(&rig, 0, WORLD, RIG_RECV_ONE_OF, 1, 1);
    rig_wait(&rig, 0, WORLD, RIG_RECV_ONE_OF, 2, 1);
    rig_before(&rig, 2)->moved_ns--;
    rig_expect(&rig, NONE, DLR_BLAME_NOBODY, "");
}

static void without_calls_who_is_a_step_behind_is_named(void **state)
{
    rig_start(&rig, 4);
    for (uint32_t r = 0; r < 4; r++)
        rig.looks[r].data = DLR_LOOK_STEPS;
    rig_expect(&rig, STILL, DLR_BLAME_ALL, "");
    assert_int_equal(rig.verdict.busy, 4);
    rig.looks[1].step--;
    rig_expect(&rig, STILL, DLR_BLAME_BEHIND, "1");
}

static void tables_that_contradict_each_other_are_unknown(void **state)
{
    start_without(4, 2, 2);
    rig.looks[2].comms[0].size = 5;
    rig_expect(&rig, UNKNOWN, DLR_BLAME_NO_DATA, "");
    rig.looks[2].comms[0].size = 4;
    rig.looks[2].comms[0].my_rank = 1;
    rig_judge(&rig);
    assert_int_not_equal(rig.verdict.kind, STUCK);
    rig.looks[2].rank = 7;
    rig_expect(&rig, UNKNOWN, DLR_BLAME_NO_DATA, "");
}

static void many_ranks_take_little_time(void **state)
{
    const uint32_t n = getenv("DLROVER_NIGHTLY") ? 131072 : 16384;
    struct timespec a, b;

    start_without(n, 4711, 4711);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    rig_expect(&rig, STILL, DLR_BLAME_NOT_ENTERED, "4711");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    print_message("%u ranks: %.0f ms of CPU\n", n,
                  (double)(b.tv_sec - a.tv_sec) * 1e3 +
                      (double)(b.tv_nsec - a.tv_nsec) / 1e6);
}

#define TEST(f) cmocka_unit_test_teardown(f, stop)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(who_has_not_come_is_named_with_the_operation),
        TEST(numbers_of_other_communicators_are_not_compared),
        TEST(what_moves_between_two_looks_is_not_still),
        TEST(who_stands_no_longer_than_it_may_is_not_named),
        TEST(no_data_is_unknown_and_never_hung),
        TEST(who_lost_calls_is_unknown),
        TEST(who_lost_count_of_a_communicator_is_unknown_there),
        TEST(culprit_is_named_beside_one_of_whom_nothing_is_known),
        TEST(receives_from_each_other_are_a_deadlock),
        TEST(sends_to_each_other_are_a_deadlock),
        TEST(message_with_another_tag_is_a_deadlock),
        TEST(requests_begun_before_may_end_a_circle),
        TEST(message_that_does_not_arrive_is_the_network),
        TEST(exchange_that_does_not_end_is_the_network),
        TEST(half_of_a_call_may_have_ended),
        TEST(call_with_all_lines_is_no_proof),
        TEST(poll_for_anything_is_no_deadlock),
        TEST(who_reads_a_file_waits_for_nobody),
        TEST(nobody_waits_for_no_process),
        TEST(collective_of_neighbors_proves_nothing),
        TEST(groups_in_another_order_are_a_deadlock),
        TEST(receive_from_oneself_is_a_deadlock),
        TEST(deadlock_of_other_threads_is_not_proven),
        TEST(one_that_polls_is_in_no_deadlock),
        TEST(listener_does_not_hide_who_computes),
        TEST(mismatch_names_those_that_differ),
        TEST(mismatch_of_two_names_both),
        TEST(what_not_all_say_is_not_compared),
        TEST(one_whose_call_is_not_known_is_no_mismatch),
        TEST(state_of_the_process_says_what_it_is),
        TEST(one_stopped_inside_a_collective_is_named),
        TEST(stopped_or_suspended_job_is_not_hung),
        TEST(who_has_finished_is_named_by_those_that_wait),
        TEST(who_has_just_left_proves_nothing),
        TEST(who_has_left_without_a_time_is_proven_by_the_others),
        TEST(receive_from_one_that_has_finished_proves_nothing),
        TEST(exchange_that_may_send_is_not_taken_for_one_that_does),
        TEST(who_does_not_finish_is_named),
        TEST(who_begins_an_operation_and_does_not_wait_is_named),
        TEST(manager_of_workers_waits_for_the_one_that_works),
        TEST(one_of_two_requests_is_enough),
        TEST(without_calls_who_is_a_step_behind_is_named),
        TEST(tables_that_contradict_each_other_are_unknown),
        TEST(many_ranks_take_little_time),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
