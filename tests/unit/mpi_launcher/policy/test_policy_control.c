/* SPDX-License-Identifier: Apache-2.0 */
/* The policy engine when supervisor or agents are lost, or never come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <string.h>

#include "tests/unit/mpi_launcher/policy/policy_rig.h"

static void takeover_ends_the_former_round_first(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = NULL;
    struct dlr_err err;

    memset(&l, 0, sizeof(l));
    assert_int_equal(dlr_policy_new(&policy_conf, &policy_ops, &l, &p, &err), 0);
    dlr_policy_resume(p, 3, 2, 0);
    dlr_policy_take_over(p, "the supervisor died");
    dlr_policy_start(p, 0);
    for (unsigned i = 0; i < 5; i++)
        dlr_policy_node_up(p, i, 10);
    assert_string_equal(l.text, "agents end2 control ");
    for (unsigned i = 0; i < 4; i++)
        dlr_policy_clean(p, i, 2, 20);
    assert_string_equal(l.text,
                        "agents end2 control "); /* a spare may hold some, too */
    dlr_policy_clean(p, 4, 2, 30);
    assert_string_equal(l.text, "agents end2 control meet ");
    assert_int_equal(dlr_policy_restarts(p), 2);
    dlr_policy_free(p);
}

static void takeover_before_the_first_round_has_nothing_to_end(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = NULL;
    struct dlr_err err;

    memset(&l, 0, sizeof(l));
    assert_int_equal(dlr_policy_new(&policy_conf, &policy_ops, &l, &p, &err), 0);
    dlr_policy_resume(p, 0, 0, 0);
    dlr_policy_take_over(p, "the supervisor died");
    dlr_policy_start(p, 0);
    for (unsigned i = 0; i < 5; i++)
        dlr_policy_node_up(p, i, 10);
    assert_string_equal(l.text, "agents meet ");
    dlr_policy_free(p);
}

static void a_slurmstepd_that_dies_costs_no_restart_a_few_times(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    for (unsigned round = 0; round < 6; round++) {
        dlr_policy_worker_exit(p, round, 0, 256, 100); /* it lost its peer */
        dlr_policy_step_lost(p, round + 1, "of another round", 105);
        dlr_policy_step_lost(p, round, "slurmstepd died", 110);
        policy_all_clean(p, round, 120);
        assert_int_equal(dlr_policy_restarts(p), round < 5 ? 0 : 1);
        policy_plan(p, "xxxx.", 130);
        dlr_policy_prepared(p, 0, "", 140);
    }
    dlr_policy_free(p);
}

static void a_start_without_slurmctld_costs_nothing_and_is_begun_again(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_controller_away(p, "slurmctld cannot be reached", 100);
    policy_all_clean(p, 0, 200);
    assert_string_equal(l.text, "end0 control wait ");
    dlr_policy_node_dead(p, 4, "n4 is silent", 300);
    dlr_policy_controller_back(p, 2000);
    assert_string_equal(l.text, "end0 control wait meet ");
    dlr_policy_controller_away(p, "slurmctld cannot be reached", 2100);
    assert_string_equal(l.text, "end0 control wait meet stop wait ");
    dlr_policy_controller_back(p, 3000);
    assert_int_equal(dlr_policy_phase(p), DLR_PHASE_RENDEZVOUS);
    assert_int_equal(dlr_policy_restarts(p), 0);
    dlr_policy_controller_away(p, "slurmctld cannot be reached", 3100);
    dlr_policy_tick(p, 8100);
    assert_int_equal(l.code, 1);
    assert_string_equal(
        l.why, "slurmctld cannot be reached (--dlrover-set=controller-timeout)");
    dlr_policy_free(p);
}

/* The round is launched, and its srun ends without a task. */
static void is_refused(struct dlr_policy *p, uint32_t round, int64_t now)
{
    policy_plan(p, "xxxx.", now);
    dlr_policy_prepared(p, 0, "", now);
    dlr_policy_step_ended(p, round, 1, now);
    dlr_policy_tick(p, now + 500);
    policy_all_clean(p, round, now + 500);
}

static void a_step_that_was_started_before_is_waited_for(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_started(p, 0);
    dlr_policy_node_dead(p, 4, "n4 is silent", 100);
    dlr_policy_worker_exit(p, 0, 0, 256, 200);
    policy_all_clean(p, 0, 300);
    for (uint32_t round = 1; round < 5; round++) { /* it still counts the old one */
        l.text[0] = '\0';
        is_refused(p, round, 1000 * round);
        assert_non_null(strstr(l.text, "control wait "));
        dlr_policy_controller_back(p, 1000 * round + 900);
    }
    assert_int_equal(dlr_policy_phase(p), DLR_PHASE_RENDEZVOUS);
    assert_int_equal(dlr_policy_restarts(p), 1); /* the task's own */
    policy_plan(p, "xxxx.", 5500);
    dlr_policy_prepared(p, 0, "", 5500);
    dlr_policy_started(p, 5);
    dlr_policy_lease_expired(p, 5, "a lease ran out", 5600);
    policy_all_clean(p, 5, 5700);
    is_refused(p, 6, 9000); /* the limit begins anew */
    assert_int_equal(dlr_policy_phase(p), DLR_PHASE_WAIT);
    dlr_policy_controller_back(p, 9600);
    is_refused(p, 7, 15000);
    assert_int_equal(dlr_policy_phase(p), DLR_PHASE_DONE);
    assert_int_equal(l.code, 1);
    assert_string_equal(l.why,
                        "slurmctld has not started the step for 6 s "
                        "(--dlrover-set=controller-timeout); srun's message above "
                        "says why");
    dlr_policy_free(p);
}

static void a_launch_that_comes_to_nothing_is_waited_for_too(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_started(p, 0);
    dlr_policy_worker_exit(p, 0, 0, 256, 200);
    policy_all_clean(p, 0, 300);
    for (uint32_t round = 1; round < 4; round++) {
        policy_plan(p, "xxxx.", 1000 * round);
        dlr_policy_prepared(p, 0, "", 1000 * round);
        dlr_policy_launch_late(p, round, "srun has started no task", 1000 * round);
        policy_all_clean(p, round, 1000 * round);
        assert_int_equal(dlr_policy_phase(p), DLR_PHASE_WAIT);
        dlr_policy_controller_back(p, 1000 * round + 900);
    }
    dlr_policy_free(p);
}

static void a_requeue_waits_for_slurmctld(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_node_dead(p, 0, "n0 is silent", 10);
    dlr_policy_node_dead(p, 4, "n4 is silent", 11);
    policy_all_clean(p, 0, 20);
    dlr_policy_persisted(p, 30);
    assert_string_equal(l.text, "end0 node persist requeue ");
    dlr_policy_controller_away(p, "slurmctld cannot be reached", 40);
    dlr_policy_controller_back(p, 2000);
    assert_string_equal(l.text, "end0 node persist requeue wait requeue ");
    assert_string_equal(l.why, "3 nodes are left and 4 are needed");
    dlr_policy_free(p);
}

static void an_interrupt_ends_the_wait_for_slurmctld(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_controller_away(p, "slurmctld cannot be reached", 100);
    dlr_policy_signal(p, SIGINT, 150);
    policy_all_clean(p, 0, 200);
    assert_string_equal(l.text, "end0 control finish130 ");
    dlr_policy_free(p);
}

static struct dlr_policy *adopting(struct policy_log *l)
{
    static const unsigned char member[5] = {1, 1, 1, 1, 0};
    struct dlr_policy *p = NULL;
    struct dlr_err err;

    memset(l, 0, sizeof(*l));
    assert_int_equal(dlr_policy_new(&policy_conf, &policy_ops, l, &p, &err), 0);
    dlr_policy_resume(p, 3, 1, 0);
    dlr_policy_adopt(p, member, 0, 0);
    return p;
}

static void a_round_that_goes_on_is_watched_as_any(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = adopting(&l);

    policy_all_up(p, 10);
    assert_int_equal(dlr_policy_phase(p), DLR_PHASE_RUN);
    assert_int_equal(dlr_policy_round(p), 2);
    assert_string_equal(l.text, "");
    dlr_policy_node_dead(p, 4, "n4 is silent", 20); /* a spare */
    assert_string_equal(l.text, "");
    dlr_policy_node_dead(p, 1, "n1 is silent", 30);
    assert_string_equal(l.text, "end2 node ");
    assert_int_equal(dlr_policy_restarts(p), 1);
    dlr_policy_free(p);
}

/* Slurm counts a step's time (srun --time) from there. */
static void the_time_of_a_step_goes_on_with_another_supervisor(void **state)
{
    static const unsigned char member[5] = {1, 1, 1, 1, 0};
    struct dlr_policy_conf conf = policy_conf;
    struct dlr_policy *p = NULL;
    struct policy_log l = {0};
    struct dlr_err err;

    conf.limit_ms = 60000;
    assert_int_equal(dlr_policy_new(&conf, &policy_ops, &l, &p, &err), 0);
    dlr_policy_resume(p, 1, 0, 50000);
    dlr_policy_adopt(p, member, 0, 50000);
    policy_all_up(p, 50010);
    dlr_policy_worker_exit(p, 0, 1, SIGTERM, 60000);
    dlr_policy_step_ended(p, 0, 143, 60100);
    assert_string_equal(l.text, "fate ");
    dlr_policy_free(p);
}

static void a_round_that_cannot_go_on_ends_when_all_nodes_are_seen(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = adopting(&l);

    for (unsigned i = 0; i < 3; i++)
        dlr_policy_node_up(p, i, 10);
    dlr_policy_adopt_failed(p, "n2 has ended it", 20);
    assert_string_equal(l.text, "");
    dlr_policy_node_up(p, 3, 30);
    dlr_policy_node_dead(p, 4, "it did not come back", 40);
    assert_string_equal(l.text, "end2 control ");
    policy_all_clean(p, 2, 50);
    assert_string_equal(l.text, "end2 control meet ");
    assert_int_equal(dlr_policy_restarts(p), 1);
    dlr_policy_free(p);
}

static void lost_agents_are_started_again_and_the_round_ended(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_agents_gone(p, 100);
    assert_string_equal(l.text, "end0 control agents ");
    policy_all_up(p, 200);
    assert_string_equal(l.text, "end0 control agents end0 control ");
    policy_all_clean(p, 0, 300);
    assert_string_equal(l.text, "end0 control agents end0 control meet ");
    assert_int_equal(dlr_policy_restarts(p), 0);
    dlr_policy_free(p);
}

static void a_run_that_is_well_leaves_with_another(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_requeue_with_job(p, 100);
    dlr_policy_requeue_with_job(p, 110);
    policy_all_clean(p, 0, 200);
    assert_string_equal(l.text, "end0 control persist ");
    dlr_policy_persisted(p, 300);
    assert_string_equal(l.text, "end0 control persist requeue ");
    dlr_policy_requeue_limit(p, 5000);
    assert_int_equal(dlr_policy_deadline_ms(p), 5000);
    dlr_policy_requeue_cancel(p, 400); /* the other one could not have it */
    assert_string_equal(l.text, "end0 control persist requeue meet ");
    assert_int_equal(dlr_policy_restarts(p), 0);
    dlr_policy_free(p);
}

static void a_run_that_begins_while_another_leaves_runs_no_round(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_begin(&l);

    dlr_policy_requeue_with_job(p, 5);
    policy_all_up(p, 10);
    assert_string_equal(l.text, "agents persist ");
    dlr_policy_free(p);
}

static void agents_lost_while_a_crash_ends_do_not_hide_it(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_worker_exit(p, 0, 1, 7 << 8, 100);
    dlr_policy_agents_gone(p, 110);
    policy_all_up(p, 200);
    policy_all_clean(p, 0, 300);
    assert_string_equal(l.text, "end0 program agents end0 program meet ");
    assert_int_equal(dlr_policy_restarts(p), 1);
    dlr_policy_free(p);
}

static void agents_that_always_end_are_given_up(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_begin(&l);

    for (unsigned i = 0; i < 10 && dlr_policy_phase(p) != DLR_PHASE_DONE; i++)
        dlr_policy_agents_gone(p, 10 + i);
    assert_string_equal(l.text, "agents agents agents agents agents finish1 ");
    assert_non_null(strstr(l.why, "agents.log"));
    dlr_policy_free(p);
}

/* Requeued, the job would be the same with no node to run on. */
static void no_agent_at_all_is_no_reason_to_requeue(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_begin(&l);

    dlr_policy_tick(p, 1000);
    assert_string_equal(l.text, "agents finish1 ");
    assert_non_null(strstr(l.why, "--dlrover-set=agent-timeout"));
    dlr_policy_free(p);
}

static void node_lost_in_an_earlier_run_is_not_waited_for(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = NULL;
    struct dlr_err err;

    memset(&l, 0, sizeof(l));
    assert_int_equal(dlr_policy_new(&policy_conf, &policy_ops, &l, &p, &err), 0);
    dlr_policy_lost_before(p, 2);
    dlr_policy_start(p, 0);
    policy_all_up(p, 10);
    assert_string_equal(l.text, "agents meet ");
    assert_false(dlr_policy_is_alive(p, 2));
    dlr_policy_free(p);
}

static void tasks_that_never_start_end_the_round_with_that_reason(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    for (unsigned r = 0; r < 2; r++) {
        assert_int_equal(dlr_policy_restarts(p), 0);
        dlr_policy_launch_late(p, r, "3 of 4 tasks have started", 100);
        policy_all_clean(p, r, 110);
        if (r < 1) {
            policy_plan(p, "xxxx.", 120);
            dlr_policy_prepared(p, 0, NULL, 130);
        }
    }
    assert_non_null(strstr(l.text, "end0 control "));
    assert_non_null(strstr(l.text, "end1 program finish1 "));
    assert_non_null(strstr(l.why, "3 of 4 tasks have started"));
    dlr_policy_free(p);
}

static void signal_while_agents_start_ends_the_run(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_begin(&l);

    dlr_policy_signal(p, SIGINT, 5);
    assert_string_equal(l.text, "agents finish130 ");
    dlr_policy_node_up(p, 0, 10);
    dlr_policy_agents_gone(p, 20);
    assert_string_equal(l.text, "agents finish130 ");
    dlr_policy_free(p);
}

static void agents_lost_beside_an_adopted_round_begin_nothing_else(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = adopting(&l);

    dlr_policy_agents_gone(p, 10); /* before one of them was heard */
    assert_string_equal(l.text, "end2 control agents ");
    policy_all_up(p, 20);
    assert_string_equal(l.text, "end2 control agents end2 control ");
    policy_all_clean(p, 2, 30);
    assert_string_equal(l.text, "end2 control agents end2 control meet ");
    dlr_policy_free(p);
}

static void a_requeue_that_waits_is_still_one_when_slurmctld_is_away_again(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_node_dead(p, 4, "gone", 100);
    dlr_policy_node_dead(p, 0, "gone", 100);
    policy_all_clean(p, 0, 110);
    dlr_policy_persisted(p, 120);
    dlr_policy_controller_away(p, "no answer", 130);
    dlr_policy_controller_away(p, "no answer", 140);
    dlr_policy_controller_back(p, 200);
    assert_string_equal(l.text, "end0 node persist requeue wait requeue ");
    dlr_policy_free(p);
}

/* Each costs nothing, but nothing comes of it either. */
static void rounds_that_lead_nowhere_end_the_run(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);
    uint32_t round = 0;

    for (; dlr_policy_phase(p) == DLR_PHASE_RUN && round < 200; round++) {
        l.text[0] = '\0';
        dlr_policy_lease_expired(p, round, "n0: its lease ended", 1000 + 10 * round);
        policy_all_clean(p, round, 1001 + 10 * round);
        policy_plan(p, "xxxx.", 1002 + 10 * round);
        dlr_policy_prepared(p, 0, NULL, 1003 + 10 * round);
    }
    assert_int_equal(round, 100);
    assert_string_equal(l.text, "end99 control finish1 ");
    assert_string_equal(l.why, "begun anew 100 times within an hour without a newer "
                               "version, last: n0: its lease ended");
    dlr_policy_free(p);
}

static void rounds_that_save_something_go_on(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    for (uint32_t round = 0; round < 200; round++) {
        l.text[0] = '\0';
        dlr_policy_committed(p, round + 1);
        dlr_policy_lease_expired(p, round, "n0: its lease ended", 1000 + 10 * round);
        policy_all_clean(p, round, 1001 + 10 * round);
        policy_plan(p, "xxxx.", 1002 + 10 * round);
        dlr_policy_prepared(p, 0, NULL, 1003 + 10 * round);
        assert_int_equal(dlr_policy_phase(p), DLR_PHASE_RUN);
    }
    dlr_policy_free(p);
}

static void a_slurmctld_that_comes_and_goes_is_no_loop(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_begin(&l);
    unsigned times = 0;

    for (; dlr_policy_phase(p) == DLR_PHASE_AGENTS && times < 200; times++) {
        l.text[0] = '\0';
        dlr_policy_controller_away(p, "no answer", 10 * times);
        dlr_policy_controller_back(p, 10 * times + 5);
    }
    assert_int_equal(times, 101);
    assert_int_equal(l.code, 1);
    dlr_policy_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takeover_ends_the_former_round_first),
        cmocka_unit_test(a_slurmstepd_that_dies_costs_no_restart_a_few_times),
        cmocka_unit_test(a_start_without_slurmctld_costs_nothing_and_is_begun_again),
        cmocka_unit_test(a_step_that_was_started_before_is_waited_for),
        cmocka_unit_test(a_launch_that_comes_to_nothing_is_waited_for_too),
        cmocka_unit_test(a_requeue_waits_for_slurmctld),
        cmocka_unit_test(an_interrupt_ends_the_wait_for_slurmctld),
        cmocka_unit_test(a_round_that_goes_on_is_watched_as_any),
        cmocka_unit_test(the_time_of_a_step_goes_on_with_another_supervisor),
        cmocka_unit_test(a_round_that_cannot_go_on_ends_when_all_nodes_are_seen),
        cmocka_unit_test(takeover_before_the_first_round_has_nothing_to_end),
        cmocka_unit_test(lost_agents_are_started_again_and_the_round_ended),
        cmocka_unit_test(a_run_that_is_well_leaves_with_another),
        cmocka_unit_test(a_run_that_begins_while_another_leaves_runs_no_round),
        cmocka_unit_test(agents_lost_while_a_crash_ends_do_not_hide_it),
        cmocka_unit_test(agents_that_always_end_are_given_up),
        cmocka_unit_test(no_agent_at_all_is_no_reason_to_requeue),
        cmocka_unit_test(node_lost_in_an_earlier_run_is_not_waited_for),
        cmocka_unit_test(tasks_that_never_start_end_the_round_with_that_reason),
        cmocka_unit_test(signal_while_agents_start_ends_the_run),
        cmocka_unit_test(rounds_that_lead_nowhere_end_the_run),
        cmocka_unit_test(rounds_that_save_something_go_on),
        cmocka_unit_test(a_slurmctld_that_comes_and_goes_is_no_loop),
        cmocka_unit_test(agents_lost_beside_an_adopted_round_begin_nothing_else),
        cmocka_unit_test(
            a_requeue_that_waits_is_still_one_when_slurmctld_is_away_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
