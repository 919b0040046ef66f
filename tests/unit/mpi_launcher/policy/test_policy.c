/* SPDX-License-Identifier: Apache-2.0 */
/* The policy engine: events in, actions out. Each action is a word in a log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/mpi_launcher/policy/policy_rig.h"

static void run_that_ends_well_finishes_with_zero(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_started(p, 0);
    dlr_policy_step_ended(p, 0, 0, 100);
    assert_string_equal(l.text, "finish0 ");
    assert_string_equal(l.why, "");
    dlr_policy_free(p);
}

/* A short program's end may be known before its beginning. */
static void word_of_tasks_that_comes_after_the_end_counts(void **state)
{
    for (unsigned late = 0; late < 2; late++) {
        struct policy_log l;
        struct dlr_policy *p = policy_running(&l);

        dlr_policy_step_ended(p, 0, 0, 100);
        assert_string_equal(l.text, "");
        if (late) {
            dlr_policy_tick(p, 600);
            assert_string_equal(l.text, "end0 program ");
        }
        dlr_policy_started(p, 0);
        if (late)
            policy_all_clean(p, 0, 700);
        assert_string_equal(l.text, late ? "end0 program finish0 " : "finish0 ");
        dlr_policy_free(p);
    }
}

/* Slurm ended a step that it could not start on one node, and srun says 0. */
static void a_step_that_ended_before_it_was_whole_is_no_success_by_itself(void **state)
{
    static const struct {
        bool fails, all_start;
        const char *text;
    } rows[] = {
        {false, false, "finish0 "}, /* an agent's word was lost */
        {false, true, "finish0 "},
        {true, false, "end0 program "},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct policy_log l;
        struct dlr_policy *p = policy_running(&l);

        dlr_policy_started(p, 0);
        dlr_policy_step_ended_early(p, 0, 100);
        dlr_policy_started(p, 0); /* another task of it */
        assert_string_equal(l.text, "");
        if (rows[i].fails)
            dlr_policy_worker_exit(p, 0, 2, SIGKILL, 150);
        if (rows[i].all_start)
            dlr_policy_step_ended(p, 0, 0, 150);
        else
            dlr_policy_tick(p, 600);
        assert_string_equal(l.text, rows[i].text);
        dlr_policy_free(p);
    }
}

static void dead_node_is_replaced_and_costs_no_restart(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_node_dead(p, 1, "node n2 was silent", 100);
    assert_string_equal(l.text, "end0 node ");
    policy_all_clean(p, 0, 120);
    policy_plan(p, "x.xxx", 130);
    dlr_policy_prepared(p, 0, NULL, 140);
    assert_string_equal(l.text, "end0 node meet prepare1 launch1 ");
    assert_int_equal(dlr_policy_restarts(p), 0);
    dlr_policy_free(p);
}

static void dead_spare_ends_nothing(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_node_dead(p, 4, "silent", 100);
    assert_string_equal(l.text, "");
    dlr_policy_free(p);
}

static void second_death_without_spare_writes_and_requeues(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_node_dead(p, 4, "silent", 100);
    dlr_policy_node_dead(p, 2, "silent", 200);
    policy_all_clean(p, 0, 220);
    assert_string_equal(l.text, "end0 node persist ");
    dlr_policy_persisted(p, 300);
    assert_string_equal(l.text, "end0 node persist requeue ");
    assert_string_equal(l.why, "3 nodes are left and 4 are needed");
    dlr_policy_requeue_failed(p, "not a batch job");
    assert_string_equal(l.why,
                        "3 nodes are left and 4 are needed, and the job could not be "
                        "requeued: not a batch job");
    assert_int_equal(l.code, 1);
    dlr_policy_free(p);
}

static void a_start_that_fails_in_the_same_way_is_tried_again_once(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_worker_exit(p, 0, 2, 1 << 8, 100);
    policy_all_clean(p, 0, 110);
    policy_plan(p, "xxxx.", 120);
    dlr_policy_prepared(p, 0, NULL, 130);
    dlr_policy_worker_exit(p, 1, 3, 1 << 8, 200);
    policy_all_clean(p, 1, 210);
    assert_string_equal(l.text,
                        "end0 program meet prepare1 launch1 end1 program finish1 ");
    assert_string_equal(l.why,
                        "rank 3 exited with code 1, as before at its start: not tried "
                        "again");
    dlr_policy_free(p);
}

static void progress_gives_restarts_back(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    for (unsigned round = 0; round < 20; round++) {
        dlr_policy_stepped(p, round);
        dlr_policy_committed(p, 10 * round);
        dlr_policy_worker_exit(p, round, 2, 7 << 8, 100);
        policy_all_clean(p, round, 110);
        assert_int_equal(dlr_policy_restarts(p), 1);
        l.text[0] = '\0';
        policy_plan(p, "xxxx.", 120);
        dlr_policy_prepared(p, 0, NULL, 130);
    }
    dlr_policy_free(p);
}

/* A restore takes them back before the first beat of the round: no failure of the
 * start.
 */
static void a_run_that_has_saved_steps_is_past_its_start(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_committed(p, 10);
    for (unsigned round = 0; round < 2; round++) {
        dlr_policy_worker_exit(p, round, 2, 7 << 8, 100);
        policy_all_clean(p, round, 110);
        policy_plan(p, "xxxx.", 120);
        dlr_policy_prepared(p, 0, NULL, 130);
    }
    assert_string_equal(l.text, "end0 program meet prepare1 launch1 end1 program meet "
                                "prepare2 launch2 ");
    dlr_policy_free(p);
}

/* A supervisor to come is told what counts then. */
static void restarts_of_long_ago_are_not_told(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_worker_exit(p, 0, 2, 7 << 8, 100);
    policy_all_clean(p, 0, 110);
    policy_plan(p, "xxxx.", 120);
    dlr_policy_prepared(p, 0, NULL, 130);
    assert_int_equal(dlr_policy_restarts(p), 1);
    dlr_policy_node_dead(p, 1, "n2 is silent", 3600 * 1000 + 200);
    assert_int_equal(dlr_policy_restarts(p), 0);
    dlr_policy_free(p);
}

/* --kill-on-bad-exit=0 says: go on. */
static void a_task_that_fails_ends_nothing_where_the_user_said_so(void **state)
{
    struct dlr_policy_conf conf = policy_conf;
    struct policy_log l;
    struct dlr_policy *p;

    conf.tolerant = true;
    p = policy_running_by(&l, &conf);
    dlr_policy_started(p, 0);
    dlr_policy_worker_exit(p, 0, 2, 7 << 8, 100);
    dlr_policy_step_ended(p, 0, 7, 5000);
    dlr_policy_tick(p, 5500);
    assert_string_equal(l.text, "finish7 ");
    dlr_policy_free(p);
}

static void crash_loop_ends_with_the_workers_code(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    for (unsigned round = 0; round < 3; round++) {
        dlr_policy_stepped(p, round);
        dlr_policy_worker_exit(p, round, 2, 7 << 8, 100);
        policy_all_clean(p, round, 110);
        if (round == 2)
            break;
        policy_plan(p, "xxxx.", 120);
        dlr_policy_prepared(p, 0, NULL, 130);
    }
    assert_string_equal(l.text, "end0 program meet prepare1 launch1 end1 program meet "
                                "prepare2 launch2 end2 program finish7 ");
    assert_string_equal(l.why, "given up after 2 restarts (--dlrover-max-restarts): "
                               "rank 2 exited with code 7");
    dlr_policy_free(p);
}

static void death_found_while_ending_explains_the_crash(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_worker_exit(p, 0, 2, SIGABRT, 100); /* its peer's connection broke */
    for (unsigned i = 0; i < 3; i++)
        dlr_policy_clean(p, i, 0, 110);
    dlr_policy_node_dead(p, 3, "silent", 1000);
    assert_string_equal(l.text, "end0 program explain0 node meet ");
    assert_int_equal(dlr_policy_restarts(p), 0);
    dlr_policy_free(p);
}

static void sruns_own_failure_waits_for_its_reason(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_step_ended(p, 0, 137, 100);
    assert_string_equal(l.text, "");
    assert_int_equal(dlr_policy_deadline_ms(p), 600);
    dlr_policy_node_dead(p, 0, "silent", 400);
    assert_string_equal(l.text, "end0 node ");
    dlr_policy_free(p);

    p = policy_running(&l);
    dlr_policy_step_ended(p, 0, 137, 100);
    dlr_policy_tick(p, 600);
    assert_string_equal(l.text, "end0 program ");
    dlr_policy_free(p);
}

static void node_that_does_not_become_clean_is_lost(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_worker_exit(p, 0, 0, SIGSEGV, 100);
    for (unsigned i = 0; i < 3; i++)
        dlr_policy_clean(p, i, 0, 110);
    dlr_policy_tick(p, 1100);
    assert_string_equal(l.text, "end0 program meet ");
    assert_false(dlr_policy_is_alive(p, 3));
    dlr_policy_free(p);
}

static void node_lost_in_a_rendezvous_starts_it_again(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_begin(&l);

    for (unsigned i = 0; i < 5; i++)
        dlr_policy_node_up(p, i, 10);
    dlr_policy_node_dead(p, 2, "silent", 20);
    assert_string_equal(l.text, "agents meet stop meet ");
    dlr_policy_free(p);
}

static void rendezvous_goes_without_mpi_after_two_failures(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_begin(&l);

    for (unsigned i = 0; i < 5; i++)
        dlr_policy_node_up(p, i, 10);
    dlr_policy_planned(p, -EPROTO, NULL, "no plan", 20);
    dlr_policy_tick(p, 1020);
    assert_string_equal(l.text, "agents meet meet stop report ");
    dlr_policy_planned(p, -EPROTO, NULL, "no plan", 1030);
    assert_string_equal(l.text, "agents meet meet stop report finish1 ");
    assert_string_equal(l.why, "no rendezvous: no plan");
    dlr_policy_free(p);
}

static void bad_copy_costs_no_restart_but_not_for_ever(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);
    uint32_t round = 0;

    while (l.code == 0 && round < 100) {
        dlr_policy_restore_failed(p, round, "rank 1: bad CRC", 100);
        policy_all_clean(p, round++, 110);
        if (dlr_policy_phase(p) == DLR_PHASE_DONE)
            break;
        policy_plan(p, "xxxx.", 120);
        dlr_policy_prepared(p, 0, NULL, 130);
    }
    assert_int_equal(round, 17);
    assert_int_equal(dlr_policy_restarts(p), 0);
    assert_string_equal(
        l.why, "no copy could be used 17 times in a row, last: rank 1: bad CRC");
    dlr_policy_free(p);
}

static void a_program_that_wants_another_state_ends_the_run(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_restore_refused(p, 0, "rank 1: the version lacks 'w'", 100);
    assert_int_equal(dlr_policy_phase(p), DLR_PHASE_END);
    policy_all_clean(p, 0, 110);
    assert_int_equal(dlr_policy_phase(p), DLR_PHASE_DONE);
    assert_string_equal(l.why, "rank 1: the version lacks 'w'");
    dlr_policy_free(p);
}

static void missing_agents_are_done_without_when_enough_came(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_begin(&l);

    for (unsigned i = 0; i < 4; i++)
        dlr_policy_node_up(p, i, 10);
    assert_string_equal(l.text, "agents ");
    dlr_policy_tick(p, 1000);
    assert_string_equal(l.text, "agents meet ");
    dlr_policy_free(p);
}

/* The supervisor was stopped, not the program: its restarts are not used up. */
static void lapsed_lease_costs_no_restart(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_lease_expired(p, 0, "not heard", 100);
    dlr_policy_worker_exit(p, 0, 1, SIGKILL, 110);
    policy_all_clean(p, 0, 120);
    assert_int_equal(dlr_policy_restarts(p), 0);
    assert_string_equal(l.text, "end0 control meet ");
    dlr_policy_free(p);
}

static void hang_ends_the_round_and_costs_a_restart(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_hang(p, 9, "of another round", "", 100);
    dlr_policy_hang(p, 0, "ranks 0 and 1 wait for each other", "", 110);
    dlr_policy_hang(p, 0, "once more", "", 115);
    policy_all_clean(p, 0, 120);
    assert_int_equal(dlr_policy_restarts(p), 1);
    assert_string_equal(l.text, "end0 hang meet ");
    dlr_policy_free(p);
}

/* Rounds of 40 s that end so; how many were begun before the run did. */
static unsigned hang_at(struct policy_log *l, const char *const places[], unsigned n)
{
    struct dlr_policy_conf conf = policy_conf;
    struct dlr_policy *p;
    int64_t now = 30;
    uint32_t round = 0;

    conf.max_restarts = 10;
    *l = (struct policy_log){0};
    p = policy_running_by(l, &conf);
    while (dlr_policy_phase(p) != DLR_PHASE_DONE && round < 8) {
        char why[64];

        snprintf(why, sizeof(why), "rank 2 (n2) stands; 3 ranks wait since 1%u", round);
        now += 40000;
        dlr_policy_hang(p, round, why, places[round % n], now);
        policy_all_clean(p, round, now + 10);
        if (dlr_policy_phase(p) != DLR_PHASE_RENDEZVOUS)
            break;
        policy_plan(p, "xxxx.", now + 20);
        dlr_policy_prepared(p, 0, NULL, now + 30);
        round = dlr_policy_round(p);
        now += 30;
    }
    dlr_policy_free(p);
    return round + 1;
}

/* The words have the time in them, the place has not. */
static void the_same_hang_again_and_again_ends_the_run(void **state)
{
    struct policy_log l;

    assert_int_equal(hang_at(&l, (const char *const[]){"hang: rank 2 stands"}, 1), 3);
    assert_int_equal(l.code, 124);
    assert_string_equal(l.why, "rank 2 (n2) stands; 3 ranks wait since 12, as before, "
                               "after as long a time: not tried again");
    assert_int_equal(
        hang_at(&l, (const char *const[]){"hang: rank 2 stands", "hang: rank 1 stands"},
                2),
        9);
}

static void lapse_told_late_explains_the_kills(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_worker_exit(p, 0, 1, SIGKILL, 100);
    dlr_policy_lease_expired(p, 9, "of another round", 105);
    dlr_policy_lease_expired(p, 0, "not heard", 110);
    dlr_policy_lease_expired(p, 0, "not heard, either", 115);
    policy_all_clean(p, 0, 120);
    assert_int_equal(dlr_policy_restarts(p), 0);
    assert_string_equal(l.text, "end0 program explain0 control meet ");
    dlr_policy_free(p);
}

static void signal_ends_the_round_and_the_run(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_signal(p, SIGTERM, 100);
    policy_all_clean(p, 0, 110);
    assert_string_equal(l.text, "end0 signal finish143 ");
    dlr_policy_free(p);
}

static void restarts_used_before_a_requeue_count(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = NULL;
    struct dlr_err err;

    memset(&l, 0, sizeof(l));
    assert_int_equal(dlr_policy_new(&policy_conf, &policy_ops, &l, &p, &err), 0);
    dlr_policy_resume(p, 7, 2, 0);
    dlr_policy_start(p, 0);
    for (unsigned i = 0; i < 5; i++)
        dlr_policy_node_up(p, i, 10);
    policy_plan(p, "xxxx.", 20);
    dlr_policy_prepared(p, 0, NULL, 30);
    dlr_policy_worker_exit(p, 7, 0, 1 << 8, 40);
    policy_all_clean(p, 7, 50);
    assert_string_equal(l.text, "agents meet prepare7 launch7 end7 program finish1 ");
    dlr_policy_free(p);
}

static void words_of_an_older_round_are_ignored(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_worker_exit(p, 9, 0, SIGSEGV, 100);
    dlr_policy_step_ended(p, 9, 1, 100);
    dlr_policy_restore_failed(p, 9, "x", 100);
    assert_string_equal(l.text, "");
    dlr_policy_free(p);
}

static void next_round(struct dlr_policy *p, uint32_t round, int64_t now)
{
    policy_all_clean(p, round - 1, now);
    policy_plan(p, "xxxx.", now + 10);
    dlr_policy_prepared(p, 0, NULL, now + 20);
}

static void srun_that_is_refused_twice_ends_the_run(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_step_ended(p, 0, 1, 100);
    dlr_policy_tick(p, 600);
    next_round(p, 1, 700);
    dlr_policy_step_ended(p, 1, 1, 800);
    dlr_policy_tick(p, 1300);
    policy_all_clean(p, 1, 1400);
    assert_int_equal(dlr_policy_phase(p), DLR_PHASE_DONE);
    assert_int_equal(l.code, 1);
    assert_string_equal(l.why,
                        "srun has ended 2 times in a row with code 1 and started no "
                        "task; its own message above says why");
    dlr_policy_free(p);
}

/* "timeout waiting for task launch", and code 0. */
static void srun_that_starts_nothing_and_ends_well_is_tried_once_more(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_step_ended(p, 0, 0, 100);
    dlr_policy_tick(p, 600);
    assert_string_equal(l.text, "end0 program ");
    next_round(p, 1, 700);
    assert_int_equal(dlr_policy_restarts(p), 1);
    dlr_policy_step_ended(p, 1, 0, 800);
    dlr_policy_tick(p, 1300);
    policy_all_clean(p, 1, 1400);
    assert_int_equal(dlr_policy_phase(p), DLR_PHASE_DONE);
    assert_int_equal(l.code, 1);
    assert_string_equal(l.why,
                        "srun has ended 2 times in a row with code 0 and started no "
                        "task; its own message above says why");
    dlr_policy_free(p);
}

static void srun_that_starts_tasks_in_between_is_not_refused(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_step_ended(p, 0, 1, 100);
    dlr_policy_tick(p, 600);
    next_round(p, 1, 700);
    dlr_policy_started(p, 1);
    dlr_policy_step_ended(p, 1, 3, 800);
    dlr_policy_tick(p, 1300);
    policy_all_clean(p, 1, 1400);
    assert_int_equal(dlr_policy_phase(p), DLR_PHASE_RENDEZVOUS);
    dlr_policy_free(p);
}

/* Four places that two may do for, in round 0 without a spare. */
static struct dlr_policy *elastic_by(struct policy_log *l, unsigned group)
{
    struct dlr_policy_conf conf = policy_conf;
    struct dlr_policy *p;

    conf.min_places = 2;
    conf.group = group;
    p = policy_new(l, &conf);
    dlr_policy_lost_before(p, 4);
    dlr_policy_start(p, 0);
    for (unsigned i = 0; i < 4; i++)
        dlr_policy_node_up(p, i, 10);
    policy_plan(p, "xxxx.", 20);
    dlr_policy_prepared(p, 0, NULL, 30);
    l->text[0] = '\0';
    return p;
}

static struct dlr_policy *elastic(struct policy_log *l)
{
    return elastic_by(l, 0);
}

static void
fewer_nodes_go_on_down_to_the_least_and_more_when_they_are_back(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = elastic(&l);

    dlr_policy_node_dead(p, 1, "silent", 100);
    dlr_policy_node_dead(p, 2, "silent", 110);
    policy_all_clean(p, 0, 120);
    policy_plan(p, "x..x.", 130);
    dlr_policy_prepared(p, 0, NULL, 140);
    assert_string_equal(l.text, "end0 node resize2 meet prepare1 launch1 ");
    l.text[0] = '\0';
    dlr_policy_node_up(p, 2, 150); /* it waits for a round to end */
    assert_string_equal(l.text, "");
    dlr_policy_worker_exit(p, 1, 0, 3 << 8, 160);
    policy_all_clean(p, 1, 170);
    assert_string_equal(l.text, "end1 program resize3 meet ");
    l.text[0] = '\0';
    dlr_policy_node_dead(p, 0, "silent", 180);
    dlr_policy_node_dead(p, 2, "silent", 190);
    assert_string_equal(l.text, "stop resize2 meet stop persist ");
    dlr_policy_persisted(p, 200);
    assert_string_equal(l.why, "1 nodes are left and 2 are needed");
    dlr_policy_free(p);
}

static void fewer_nodes_are_whole_groups(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = elastic_by(&l, 2);

    dlr_policy_node_dead(p, 1, "silent", 100);
    policy_all_clean(p, 0, 120);
    assert_string_equal(l.text, "end0 node resize2 meet ");
    dlr_policy_free(p);
}

static void a_step_that_cannot_be_smaller_is_requeued(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = elastic(&l);

    l.rigid = true;
    dlr_policy_node_dead(p, 1, "silent", 100);
    policy_all_clean(p, 0, 120);
    assert_string_equal(l.text, "end0 node resize3 persist ");
    dlr_policy_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_that_ends_well_finishes_with_zero),
        cmocka_unit_test(word_of_tasks_that_comes_after_the_end_counts),
        cmocka_unit_test(a_step_that_ended_before_it_was_whole_is_no_success_by_itself),
        cmocka_unit_test(dead_node_is_replaced_and_costs_no_restart),
        cmocka_unit_test(dead_spare_ends_nothing),
        cmocka_unit_test(second_death_without_spare_writes_and_requeues),
        cmocka_unit_test(a_start_that_fails_in_the_same_way_is_tried_again_once),
        cmocka_unit_test(progress_gives_restarts_back),
        cmocka_unit_test(a_run_that_has_saved_steps_is_past_its_start),
        cmocka_unit_test(restarts_of_long_ago_are_not_told),
        cmocka_unit_test(a_task_that_fails_ends_nothing_where_the_user_said_so),
        cmocka_unit_test(crash_loop_ends_with_the_workers_code),
        cmocka_unit_test(death_found_while_ending_explains_the_crash),
        cmocka_unit_test(sruns_own_failure_waits_for_its_reason),
        cmocka_unit_test(node_that_does_not_become_clean_is_lost),
        cmocka_unit_test(node_lost_in_a_rendezvous_starts_it_again),
        cmocka_unit_test(rendezvous_goes_without_mpi_after_two_failures),
        cmocka_unit_test(bad_copy_costs_no_restart_but_not_for_ever),
        cmocka_unit_test(a_program_that_wants_another_state_ends_the_run),
        cmocka_unit_test(missing_agents_are_done_without_when_enough_came),
        cmocka_unit_test(lapsed_lease_costs_no_restart),
        cmocka_unit_test(hang_ends_the_round_and_costs_a_restart),
        cmocka_unit_test(the_same_hang_again_and_again_ends_the_run),
        cmocka_unit_test(lapse_told_late_explains_the_kills),
        cmocka_unit_test(signal_ends_the_round_and_the_run),
        cmocka_unit_test(restarts_used_before_a_requeue_count),
        cmocka_unit_test(words_of_an_older_round_are_ignored),
        cmocka_unit_test(
            fewer_nodes_go_on_down_to_the_least_and_more_when_they_are_back),
        cmocka_unit_test(fewer_nodes_are_whole_groups),
        cmocka_unit_test(a_step_that_cannot_be_smaller_is_requeued),
        cmocka_unit_test(srun_that_is_refused_twice_ends_the_run),
        cmocka_unit_test(srun_that_starts_nothing_and_ends_well_is_tried_once_more),
        cmocka_unit_test(srun_that_starts_tasks_in_between_is_not_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
