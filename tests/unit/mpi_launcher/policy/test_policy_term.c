/* SPDX-License-Identifier: Apache-2.0 */
/* SIGTERM to the steps: the tasks are left to it, and what slurmctld says of the job
 * decides.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <string.h>

#include "tests/unit/mpi_launcher/policy/policy_rig.h"

#define LIMIT_MS 5000

static void the_step_ends_and_slurmctld_decides(void **state)
{
    static const struct {
        const char *what;
        bool wanted;
        int code;
        enum dlr_fate fate;
        const char *log, *why;
    } rows[] = {
        {"scancel -s TERM, --signal=TERM@: it obeys", false, 0, DLR_FATE_RUNS,
         "finish0 ", ""},
        {"the same, without a handler", false, 143, DLR_FATE_RUNS, "finish143 ",
         "the program has ended after SIGTERM"},
        {"the same, its handler's code", false, 3, DLR_FATE_RUNS, "finish3 ",
         "the program has ended after SIGTERM"},
        {"preemption: well", false, 0, DLR_FATE_PREEMPTED, "requeue ", "preempted"},
        {"preemption: killed", false, 143, DLR_FATE_PREEMPTED, "requeue ", "preempted"},
        {"time limit, scancel, scontrol requeue", false, 143, DLR_FATE_ENDS,
         "finish143 ", "ended by signal 15 (Terminated)"},
        {"the same, to us, too", true, 143, DLR_FATE_ENDS, "finish143 ",
         "ended by signal 15 (Terminated)"},
        {"the same, well", false, 0, DLR_FATE_ENDS, "finish0 ",
         "ended by signal 15 (Terminated)"},
        {"kill of the script's srun", true, 143, DLR_FATE_RUNS, "finish143 ",
         "ended by signal 15 (Terminated)"},
        {"kill of it: it kills its tasks", true, 137, DLR_FATE_RUNS, "finish143 ",
         "ended by signal 15 (Terminated)"},
        {"kill of it, well", true, 0, DLR_FATE_RUNS, "finish0 ", ""},
        {"scancel -s TERM: then it was killed", false, 137, DLR_FATE_RUNS, "finish137 ",
         "the program has ended after SIGTERM"},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct policy_log l;
        struct dlr_policy *p = policy_running(&l);
        char log[128] = "fate end0 signal persist ";

        dlr_policy_started(p, 0);
        dlr_policy_sigterm(p, rows[i].wanted, LIMIT_MS, 100);
        if (rows[i].code)
            dlr_policy_worker_exit(
                p, 0, 1, rows[i].code == 143 ? SIGTERM : rows[i].code << 8, 200);
        assert_string_equal(l.text, "");
        dlr_policy_step_ended(p, 0, rows[i].code, 3000);
        assert_string_equal(l.text, "fate ");
        dlr_policy_fate(p, rows[i].fate, 3100);
        policy_all_clean(p, 0, 3200);
        dlr_policy_persisted(p, 3300);
        strcat(log, rows[i].log);
        if (strcmp(l.text, log) != 0)
            fail_msg("%s: %s", rows[i].what, l.text);
        assert_string_equal(l.why, rows[i].why);
        assert_true(dlr_policy_has_sigterm(p));
        assert_int_equal(dlr_policy_restarts(p), 0);
        dlr_policy_free(p);
    }
}

/* --signal=USR1@600: the script decides what comes next, as after SIGTERM. */
static void another_signal_near_the_jobs_end_is_like_sigterm(void **state)
{
    static const char after[] =
        "the program has ended after signal 10 (User defined signal 1)";
    static const struct {
        const char *what;
        int64_t at_ms, term_ms; /* of the end; of a SIGTERM after it, 0: none */
        int code;
        enum dlr_fate fate;
        const char *log, *why;
    } rows[] = {
        {"it has saved", 3000, 0, 0, DLR_FATE_RUNS, "finish0 ", ""},
        {"it says so by its code", 3000, 0, 3, DLR_FATE_RUNS, "finish3 ", after},
        {"it has no handler", 3000, 0, 138, DLR_FATE_RUNS, "finish138 ", after},
        {"a preemption that sends it", 3000, 0, 3, DLR_FATE_PREEMPTED, "requeue ",
         "preempted"},
        {"the time is over meanwhile", 3000, 2000, 3, DLR_FATE_ENDS, "finish3 ",
         "ended by signal 15 (Terminated)"},
        {"scancel -s TERM after it", 3000, 2000, 3, DLR_FATE_RUNS, "finish3 ",
         "the program has ended after SIGTERM"},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct policy_log l;
        struct dlr_policy *p = policy_running(&l);
        char log[128] = "fate end0 signal persist ";

        dlr_policy_started(p, 0);
        dlr_policy_warned(p, SIGUSR1, 100);
        dlr_policy_warned(p, SIGUSR1, 200); /* once more */
        if (rows[i].term_ms) {
            dlr_policy_sigterm(p, false, LIMIT_MS, rows[i].term_ms);
            dlr_policy_warned(p, SIGUSR1, rows[i].term_ms + 1);
        }
        if (rows[i].code)
            dlr_policy_worker_exit(p, 0, 1, rows[i].code << 8, rows[i].at_ms);
        dlr_policy_step_ended(p, 0, rows[i].code, rows[i].at_ms + 100);
        dlr_policy_fate(p, rows[i].fate, rows[i].at_ms + 200);
        policy_all_clean(p, 0, rows[i].at_ms + 300);
        dlr_policy_persisted(p, rows[i].at_ms + 400);
        strcat(log, rows[i].log);
        if (strcmp(l.text, log) != 0 || strcmp(l.why, rows[i].why) != 0)
            fail_msg("%s: %s'%s'", rows[i].what, l.text, l.why);
        assert_true(dlr_policy_has_sigterm(p)); /* so it is no end for good */
        dlr_policy_free(p);
    }
}

/* It ends before slurmctld has answered. */
static void an_end_waits_for_slurmctlds_word_on_such_a_signal(void **state)
{
    static const struct {
        int code;
        int sig; /* slurmctld's word; -1: none comes */
        const char *log;
    } rows[] = {
        {0, SIGUSR1, "fate end0 signal persist finish0 "},
        {3, SIGUSR1, "fate end0 signal persist finish3 "},
        {0, 0, "finish0 "},
        {0, -1, "finish0 "},
        {3, 0, "end0 program meet "},
        {3, -1, "end0 program meet "},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct policy_log l;
        struct dlr_policy *p = policy_running(&l);

        dlr_policy_started(p, 0);
        dlr_policy_warning_asked(p);
        if (rows[i].code)
            dlr_policy_worker_exit(p, 0, 1, rows[i].code << 8, 100);
        dlr_policy_step_ended(p, 0, rows[i].code, 150);
        assert_string_equal(l.text, "");
        if (rows[i].sig >= 0)
            dlr_policy_warned(p, rows[i].sig, 200);
        if (rows[i].sig > 0)
            dlr_policy_fate(p, DLR_FATE_RUNS, 300);
        else
            dlr_policy_tick(p, dlr_policy_deadline_ms(p));
        policy_all_clean(p, 0, 10000);
        dlr_policy_persisted(p, 10100);
        if (strcmp(l.text, rows[i].log) != 0)
            fail_msg("row %u: %s", i, l.text);
        dlr_policy_free(p);
    }
}

/* The task had died before slurmctld's word on the signal was there; ten minutes later
 * a failure is one again.
 */
static void such_a_signal_explains_a_failure_that_was_heard_first(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_started(p, 0);
    dlr_policy_worker_exit(p, 0, 1, SIGUSR1, 100);
    dlr_policy_warned(p, SIGUSR1, 150);
    policy_all_clean(p, 0, 300);
    dlr_policy_persisted(p, 400);
    assert_string_equal(l.text, "end0 program persist finish138 ");
    dlr_policy_free(p);

    p = policy_running(&l);
    dlr_policy_started(p, 0);
    dlr_policy_warned(p, SIGUSR1, 100);
    dlr_policy_worker_exit(p, 0, 1, 7 << 8, 700000);
    policy_all_clean(p, 0, 700100);
    assert_string_equal(l.text, "end0 program meet ");
    dlr_policy_free(p);
}

/* SIGTERM's tasks are left to it; those that another signal has warned may go on, and hang. */
static void a_hang_after_such_a_signal_is_one(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_started(p, 0);
    dlr_policy_warned(p, SIGUSR1, 100);
    dlr_policy_hang(p, 0, "rank 1 is stopped", "", 200);
    assert_string_equal(l.text, "end0 hang ");
    dlr_policy_free(p);

    p = policy_running(&l);
    dlr_policy_started(p, 0);
    dlr_policy_warned(p, SIGUSR1, 100);
    dlr_policy_sigterm(p, false, LIMIT_MS, 150);
    dlr_policy_hang(p, 0, "rank 1 is stopped", "", 200);
    assert_string_equal(l.text, "");
    dlr_policy_free(p);
}

static void slurmctld_that_does_not_answer_ends_no_wait(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_started(p, 0);
    dlr_policy_sigterm(p, false, LIMIT_MS, 100);
    dlr_policy_step_ended(p, 0, 143, 200);
    dlr_policy_tick(p, dlr_policy_deadline_ms(p));
    policy_all_clean(p, 0, 40000);
    dlr_policy_persisted(p, 41000);
    assert_string_equal(l.text, "fate end0 signal persist finish143 ");
    dlr_policy_free(p);
}

/* srun --time: Slurm ends the step alone, and no agent hears of it. */
static void a_step_that_has_had_its_time_is_not_started_again(void **state)
{
    struct dlr_policy_conf conf = policy_conf;
    static const struct {
        int64_t ms;
        int status, code;
        const char *log, *why;
    } rows[] = {
        {60000, SIGTERM, 143, "fate end0 signal persist finish143 ",
         "the step's time was over (srun --time)"},
        {60500, 3 << 8, 3, "fate end0 signal persist finish3 ",
         "the step's time was over (srun --time)"},
        {60000, 0, 0, "fate end0 signal persist finish0 ", ""},
        {59000, 3 << 8, 3, "end0 program meet ", ""},
    };

    conf.limit_ms = 60000;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct policy_log l;
        struct dlr_policy *p = policy_running_by(&l, &conf);

        dlr_policy_started(p, 0);
        dlr_policy_worker_exit(p, 0, 1, rows[i].status, 30 + rows[i].ms);
        dlr_policy_step_ended(p, 0, rows[i].code, 30 + rows[i].ms + 100);
        dlr_policy_fate(p, DLR_FATE_RUNS, 30 + rows[i].ms + 200);
        policy_all_clean(p, 0, 30 + rows[i].ms + 300);
        dlr_policy_persisted(p, 30 + rows[i].ms + 400);
        assert_string_equal(l.text, rows[i].log);
        assert_string_equal(l.why, rows[i].why);
        dlr_policy_free(p);
    }
}

/* The agents are told at the same moment as the tasks, and their word has a way to go.
 */
static void word_that_comes_after_the_first_end_counts(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_started(p, 0);
    dlr_policy_worker_exit(p, 0, 1, SIGTERM, 100);
    assert_string_equal(l.text, "");
    dlr_policy_sigterm(p, false, LIMIT_MS, 200);
    dlr_policy_tick(p, 700);
    assert_string_equal(l.text, "");
    dlr_policy_step_ended(p, 0, 143, 3000);
    assert_string_equal(l.text, "fate ");
    dlr_policy_free(p);

    p = policy_running(&l);
    dlr_policy_started(p, 0);
    dlr_policy_worker_exit(p, 0, 1, 7 << 8, 100);
    assert_string_equal(l.text, "end0 program ");
    dlr_policy_sigterm(p, false, LIMIT_MS, 200);
    policy_all_clean(p, 0, 300);
    dlr_policy_persisted(p, 400);
    assert_string_equal(l.text, "end0 program persist finish7 ");
    dlr_policy_free(p);

    p = policy_running(&l);
    dlr_policy_started(p, 0);
    dlr_policy_step_ended(p, 0, 143, 100);
    dlr_policy_sigterm(p, false, LIMIT_MS, 200);
    assert_string_equal(l.text, "fate ");
    dlr_policy_free(p);
}

static void one_task_that_is_killed_by_sigterm_is_a_failure(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_started(p, 0);
    dlr_policy_worker_exit(p, 0, 1, SIGTERM, 100);
    dlr_policy_tick(p, 600);
    assert_string_equal(l.text, "end0 program ");
    policy_all_clean(p, 0, 700);
    assert_string_equal(l.text, "end0 program meet ");
    assert_int_equal(dlr_policy_restarts(p), 1);
    dlr_policy_free(p);

    p = policy_running(&l); /* its peers fail for it */
    dlr_policy_started(p, 0);
    dlr_policy_worker_exit(p, 0, 1, SIGTERM, 100);
    dlr_policy_worker_exit(p, 0, 2, 1 << 8, 110);
    assert_string_equal(l.text, "end0 program ");
    assert_string_equal(dlr_policy_failure(p),
                        "rank 1 was killed by signal 15 (Terminated)");
    dlr_policy_free(p);
}

static void a_program_that_goes_on_is_as_before_after_ten_minutes(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_started(p, 0);
    dlr_policy_sigterm(p, false, LIMIT_MS, 100);
    dlr_policy_worker_exit(p, 0, 1, 7 << 8, 700000);
    policy_all_clean(p, 0, 700100);
    assert_string_equal(l.text, "end0 program meet ");
    assert_int_equal(dlr_policy_restarts(p), 1);
    dlr_policy_free(p);
}

/* The node of a task dies, slurmctld says that the job goes on: the next round's tasks
 * have had no signal, and fail for reasons of their own.
 */
static void tasks_that_begin_after_it_never_had_it(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_started(p, 0);
    dlr_policy_sigterm(p, false, LIMIT_MS, 100);
    dlr_policy_node_dead(p, 1, "n2 is silent", 1000);
    policy_all_clean(p, 0, 1100);
    dlr_policy_fate(p, DLR_FATE_RUNS, 1200);
    policy_plan(p, "x.xxx", 1300);
    dlr_policy_prepared(p, 0, NULL, 1400);
    dlr_policy_started(p, 1);
    l.text[0] = '\0';
    dlr_policy_worker_exit(p, 1, 2, 7 << 8, 50000);
    assert_string_equal(l.text, "end1 program ");
    policy_all_clean(p, 1, 50100);
    assert_string_equal(l.text,
                        "end1 program meet fate "); /* it may yet be the job's end */
    assert_int_equal(dlr_policy_restarts(p), 1);
    policy_plan(p, "x.xxx", 50200);
    dlr_policy_prepared(p, 0, NULL, 50300);
    dlr_policy_sigterm(p, false, LIMIT_MS, 50400); /* this one has it */
    l.text[0] = '\0';
    dlr_policy_step_ended(p, 2, 7, 60000);
    assert_string_equal(l.text, "fate ");
    dlr_policy_free(p);
}

/* A second scancel, the end of a preemption's grace, an end while a lost node's job is
 * given back.
 */
static void sigterm_does_not_stop_what_is_being_written(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_started(p, 0);
    dlr_policy_sigterm(p, true, LIMIT_MS, 100);
    dlr_policy_step_ended(p, 0, 0, 200);
    dlr_policy_fate(p, DLR_FATE_ENDS, 300);
    policy_all_clean(p, 0, 400);
    dlr_policy_signal(p, SIGTERM, 500);
    assert_string_equal(l.text, "fate end0 signal persist ");
    dlr_policy_persisted(p, 600);
    assert_string_equal(l.text, "fate end0 signal persist finish0 ");
    dlr_policy_free(p);

    p = policy_running(
        &l); /* before slurmctld has answered, and before the round is gone */
    dlr_policy_started(p, 0);
    dlr_policy_sigterm(p, false, LIMIT_MS, 100);
    dlr_policy_step_ended(p, 0, 3, 200);
    dlr_policy_signal(p, SIGTERM, 250);
    dlr_policy_fate(p, DLR_FATE_ENDS, 300);
    dlr_policy_signal(p, SIGTERM, 350);
    policy_all_clean(p, 0, 400);
    dlr_policy_persisted(p, 600);
    assert_string_equal(l.text, "fate end0 signal persist finish3 ");
    dlr_policy_free(p);

    p = policy_running(&l);
    dlr_policy_node_dead(p, 0, "n1 is silent", 100);
    dlr_policy_node_dead(p, 1, "n2 is silent", 100);
    policy_all_clean(p, 0, 200);
    assert_string_equal(l.text, "end0 node persist ");
    dlr_policy_signal(p, SIGTERM, 300);
    dlr_policy_tick(p, dlr_policy_deadline_ms(p)); /* it has its limit */
    assert_string_equal(l.text, "end0 node persist finish143 ");
    assert_string_equal(l.why, "ended by signal 15 (Terminated)");
    dlr_policy_free(p);

    p = policy_running(&l);
    dlr_policy_node_dead(p, 0, "n1 is silent", 100);
    dlr_policy_node_dead(p, 1, "n2 is silent", 100);
    policy_all_clean(p, 0, 200);
    dlr_policy_signal(p, SIGINT, 300); /* a person */
    assert_string_equal(l.text, "end0 node persist finish130 ");
    dlr_policy_free(p);
}

/* One task has ended, the others wait for it and do not look at the signal. */
static void no_wait_is_without_an_end(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_started(p, 0);
    dlr_policy_sigterm(p, false, LIMIT_MS, 100);
    dlr_policy_worker_exit(p, 0, 1, 7 << 8, 200);
    dlr_policy_tick(p, dlr_policy_deadline_ms(p));
    assert_string_equal(l.text, "end0 program ");
    dlr_policy_free(p);

    p = policy_running(&l);
    dlr_policy_started(p, 0);
    dlr_policy_sigterm(p, true, LIMIT_MS, 100);
    dlr_policy_tick(p, 100 + LIMIT_MS);
    policy_all_clean(p, 0, 6000);
    dlr_policy_persisted(p, 7000);
    assert_string_equal(l.text, "end0 signal persist finish143 ");
    dlr_policy_free(p);
}

static void a_node_that_dies_then_is_replaced_unless_the_job_ends(void **state)
{
    static const struct {
        enum dlr_fate fate;
        const char *log;
    } rows[] = {
        {DLR_FATE_RUNS, ""},
        {DLR_FATE_ENDS, "stop persist finish143 "},
        {DLR_FATE_PREEMPTED, "stop persist requeue "},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct policy_log l;
        struct dlr_policy *p = policy_running(&l);
        char log[128] = "end0 node meet fate ";

        dlr_policy_started(p, 0);
        dlr_policy_sigterm(p, false, LIMIT_MS, 100);
        dlr_policy_node_dead(p, 1, "silent", 200);
        policy_all_clean(p, 0, 300);
        assert_string_equal(l.text, log);
        dlr_policy_fate(p, rows[i].fate, 400);
        dlr_policy_persisted(p, 500);
        strcat(log, rows[i].log);
        assert_string_equal(l.text, log);
        dlr_policy_free(p);
    }
}

/* The same when SIGTERM comes while a round ends for another reason, or when the run is
 * over.
 */
static void a_preemption_may_come_while_a_round_ends(void **state)
{
    static const struct {
        enum dlr_fate fate;
        const char *log;
    } rows[] = {
        {DLR_FATE_RUNS, "end0 node meet fate "},
        {DLR_FATE_ENDS, "end0 node meet fate stop persist finish143 "},
        {DLR_FATE_PREEMPTED, "end0 node meet fate stop persist requeue "},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct policy_log l;
        struct dlr_policy *p = policy_running(&l);

        dlr_policy_started(p, 0);
        dlr_policy_node_dead(p, 1, "silent", 100);
        dlr_policy_sigterm(p, false, LIMIT_MS, 200);
        policy_all_clean(p, 0, 300);
        dlr_policy_fate(p, rows[i].fate, 400);
        dlr_policy_persisted(p, 500);
        assert_string_equal(l.text, rows[i].log);
        dlr_policy_free(p);

        p = policy_running(&l);
        dlr_policy_started(p, 0);
        dlr_policy_step_ended(p, 0, 0, 100);
        dlr_policy_sigterm(p, false, LIMIT_MS, 200);
        dlr_policy_fate(p, rows[i].fate, 300);
        assert_string_equal(l.text, "finish0 ");
        dlr_policy_free(p);
    }
}

/* An agent says it again to a supervisor that comes back, of a round whose tasks are
 * gone.
 */
static void sigterm_of_a_former_round_is_not_this_ones(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    assert_false(dlr_policy_sigterm_before(p, 0));
    dlr_policy_started(p, 0);
    dlr_policy_node_dead(p, 1, "silent", 100);
    policy_all_clean(p, 0, 300);
    assert_false(
        dlr_policy_sigterm_before(p, 0)); /* no tasks run: it may be the job's end */
    policy_plan(p, "x.xxx", 400);
    dlr_policy_prepared(p, 0, NULL, 500);
    assert_true(dlr_policy_sigterm_before(p, 0));
    assert_false(dlr_policy_sigterm_before(p, 1));
    assert_false(dlr_policy_sigterm_before(p, -1));
    dlr_policy_free(p);
}

/* The script may try it again. SIGTERM then, or the limit, ends no differently. */
static void what_has_failed_for_the_last_time_is_written_first(void **state)
{
    static const struct {
        const char *what;
        bool unwritten, told, late;
        const char *log, *why;
    } rows[] = {
        {"the disk has it", false, false, false, "end0 program finish7 ",
         "given up after 0 restarts (--dlrover-max-restarts): rank 2 exited with code "
         "7"},
        {"memory has more", true, false, false, "end0 program persist finish7 ",
         "given up after 0 restarts (--dlrover-max-restarts): rank 2 exited with code "
         "7"},
        {"the disk hangs", true, false, true, "end0 program persist finish7 ",
         "given up after 0 restarts (--dlrover-max-restarts): rank 2 exited with code "
         "7"},
        {"the job ends meanwhile", true, true, false, "end0 program persist finish143 ",
         "ended by signal 15 (Terminated)"},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct policy_log l;
        struct dlr_policy_conf conf = policy_conf;
        struct dlr_policy *p;

        print_message("%s\n", rows[i].what);
        conf.max_restarts = 0;
        p = policy_running_by(&l, &conf);
        l.unwritten = rows[i].unwritten;
        dlr_policy_started(p, 0);
        dlr_policy_stepped(p, 0);
        dlr_policy_worker_exit(p, 0, 2, 7 << 8, 100);
        policy_all_clean(p, 0, 110);
        if (rows[i].told)
            dlr_policy_signal(p, SIGTERM, 200);
        if (rows[i].late)
            dlr_policy_tick(p, 110 + policy_conf.persist_timeout_ms);
        else
            dlr_policy_persisted(p, 300);
        assert_string_equal(l.text, rows[i].log);
        assert_string_equal(l.why, rows[i].why);
        dlr_policy_free(p);
    }
}

static void sigterm_once_more_does_not_put_off_slurmctlds_word(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = policy_running(&l);

    dlr_policy_started(p, 0);
    dlr_policy_sigterm(p, false, LIMIT_MS, 100);
    dlr_policy_worker_exit(p, 0, 1, SIGTERM, 200);
    dlr_policy_step_ended(p, 0, 143, 300);
    dlr_policy_sigterm(p, false, LIMIT_MS, 400);
    assert_int_equal(dlr_policy_deadline_ms(p), 300 + 30000);
    dlr_policy_free(p);
}

/* --dlrover-on */
static void what_the_user_wants_of_a_failure_is_done(void **state)
{
    static const struct {
        const char *what;
        enum dlr_policy_on on_7, on_node;
        bool node, unwritten;
        const char *log, *why;
    } rows[] = {
        {"stop", DLR_ON_STOP, DLR_ON_RESTART, false, false, "end0 program finish7 ",
         "rank 2 exited with code 7: the run stops (--dlrover-on)"},
        {"stop, memory has more", DLR_ON_STOP, DLR_ON_RESTART, false, true,
         "end0 program persist finish7 ",
         "rank 2 exited with code 7: the run stops (--dlrover-on)"},
        {"requeue", DLR_ON_REQUEUE, DLR_ON_RESTART, false, false,
         "end0 program persist requeue ", "rank 2 exited with code 7"},
        {"stop, but of a node", DLR_ON_STOP, DLR_ON_RESTART, true, false,
         "end0 node meet ", ""},
        {"requeue for a node", DLR_ON_STOP, DLR_ON_REQUEUE, true, false,
         "end0 node persist requeue ", "n1 is silent"},
        {"stop for a node", DLR_ON_RESTART, DLR_ON_STOP, true, false,
         "end0 node finish1 ", "n1 is silent: the run stops (--dlrover-on)"},
        {"of a node, but a task", DLR_ON_RESTART, DLR_ON_STOP, false, false,
         "end0 program meet ", ""},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct policy_log l;
        struct dlr_policy_conf conf = policy_conf;
        struct dlr_policy *p;

        print_message("%s\n", rows[i].what);
        conf.on_exit[7] = rows[i].on_7;
        conf.on_node = rows[i].on_node;
        p = policy_running_by(&l, &conf);
        l.unwritten = rows[i].unwritten;
        if (rows[i].node)
            dlr_policy_node_dead(p, 1, "n1 is silent", 50);
        else
            dlr_policy_worker_exit(p, 0, 2, 7 << 8, 50);
        policy_all_clean(p, 0, 60);
        dlr_policy_persisted(p, 70);
        assert_string_equal(l.text, rows[i].log);
        assert_string_equal(l.why, rows[i].why);
        dlr_policy_free(p);
    }
}

static void a_requeue_that_a_failure_leads_to_costs_a_restart(void **state)
{
    struct policy_log l;
    struct dlr_policy_conf conf = policy_conf;
    struct dlr_policy *p;

    conf.on_exit[7] = DLR_ON_REQUEUE;
    conf.max_restarts = 0;
    p = policy_running_by(&l, &conf);
    dlr_policy_worker_exit(p, 0, 2, 7 << 8, 50);
    policy_all_clean(p, 0, 60);
    assert_string_equal(l.text, "end0 program finish7 ");
    dlr_policy_free(p);
}

/* It says so itself: also in the grace of a preemption. */
static void a_preempted_run_whose_program_says_stop_is_not_requeued(void **state)
{
    struct policy_log l;
    struct dlr_policy_conf conf = policy_conf;
    struct dlr_policy *p;

    conf.on_exit[93] = DLR_ON_STOP;
    p = policy_running_by(&l, &conf);
    dlr_policy_started(p, 0);
    dlr_policy_sigterm(p, false, LIMIT_MS, 100);
    dlr_policy_worker_exit(p, 0, 1, 93 << 8, 200);
    dlr_policy_step_ended(p, 0, 93, 300);
    dlr_policy_fate(p, DLR_FATE_PREEMPTED, 400);
    policy_all_clean(p, 0, 500);
    dlr_policy_persisted(p, 600);
    assert_string_equal(l.text, "fate end0 signal persist finish93 ");
    dlr_policy_free(p);
}

/* Slurm ends the others by SIGTERM (KillOnBadExit), and their end may be heard first. */
static void a_word_to_stop_comes_while_sigterm_is_not_explained(void **state)
{
    struct policy_log l;
    struct dlr_policy_conf conf = policy_conf;
    struct dlr_policy *p;

    conf.on_exit[93] = DLR_ON_STOP;
    p = policy_running_by(&l, &conf);
    dlr_policy_started(p, 0);
    dlr_policy_worker_exit(p, 0, 2, SIGTERM, 200);
    assert_string_equal(l.text, "");
    dlr_policy_worker_exit(p, 0, 1, 93 << 8, 210);
    dlr_policy_worker_exit(p, 0, 3, 1 << 8, 215);
    policy_all_clean(p, 0, 220);
    assert_string_equal(l.text, "end0 program finish93 ");
    assert_string_equal(l.why,
                        "rank 1 exited with code 93: the run stops (--dlrover-on)");
    dlr_policy_free(p);
}

/* Of several tasks; it is heard last, when slurmctld is asked already. */
static void one_of_the_tasks_of_a_preempted_run_says_stop(void **state)
{
    struct policy_log l;
    struct dlr_policy_conf conf = policy_conf;
    struct dlr_policy *p;

    conf.on_exit[93] = DLR_ON_STOP;
    p = policy_running_by(&l, &conf);
    dlr_policy_started(p, 0);
    dlr_policy_sigterm(p, false, LIMIT_MS, 100);
    dlr_policy_worker_exit(p, 0, 2, SIGTERM, 200);
    dlr_policy_step_ended(p, 0, 143, 300);
    dlr_policy_worker_exit(p, 0, 1, 93 << 8, 310);
    assert_int_equal(dlr_policy_deadline_ms(p), 300 + 30000);
    dlr_policy_worker_exit(p, 0, 3, 1 << 8, 320);
    dlr_policy_fate(p, DLR_FATE_PREEMPTED, 400);
    policy_all_clean(p, 0, 500);
    dlr_policy_persisted(p, 600);
    assert_string_equal(l.text, "fate end0 signal persist finish143 ");
    dlr_policy_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_step_ends_and_slurmctld_decides),
        cmocka_unit_test(another_signal_near_the_jobs_end_is_like_sigterm),
        cmocka_unit_test(an_end_waits_for_slurmctlds_word_on_such_a_signal),
        cmocka_unit_test(such_a_signal_explains_a_failure_that_was_heard_first),
        cmocka_unit_test(a_hang_after_such_a_signal_is_one),
        cmocka_unit_test(slurmctld_that_does_not_answer_ends_no_wait),
        cmocka_unit_test(a_step_that_has_had_its_time_is_not_started_again),
        cmocka_unit_test(word_that_comes_after_the_first_end_counts),
        cmocka_unit_test(one_task_that_is_killed_by_sigterm_is_a_failure),
        cmocka_unit_test(a_program_that_goes_on_is_as_before_after_ten_minutes),
        cmocka_unit_test(tasks_that_begin_after_it_never_had_it),
        cmocka_unit_test(sigterm_does_not_stop_what_is_being_written),
        cmocka_unit_test(no_wait_is_without_an_end),
        cmocka_unit_test(a_preemption_may_come_while_a_round_ends),
        cmocka_unit_test(sigterm_of_a_former_round_is_not_this_ones),
        cmocka_unit_test(what_has_failed_for_the_last_time_is_written_first),
        cmocka_unit_test(a_node_that_dies_then_is_replaced_unless_the_job_ends),
        cmocka_unit_test(what_the_user_wants_of_a_failure_is_done),
        cmocka_unit_test(a_requeue_that_a_failure_leads_to_costs_a_restart),
        cmocka_unit_test(a_preempted_run_whose_program_says_stop_is_not_requeued),
        cmocka_unit_test(a_word_to_stop_comes_while_sigterm_is_not_explained),
        cmocka_unit_test(one_of_the_tasks_of_a_preempted_run_says_stop),
        cmocka_unit_test(sigterm_once_more_does_not_put_off_slurmctlds_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
