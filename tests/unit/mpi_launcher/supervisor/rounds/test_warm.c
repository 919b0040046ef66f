/* SPDX-License-Identifier: Apache-2.0 */
/* When programs run ahead on spares. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "mpi_launcher/supervisor/rounds/warm.h"
#include "tests/support/rounds_alone.h"

static int setup(void **state)
{
    static char *names[] = {"n1", "n2", "n3", NULL};

    rounds_begin(names, 3);
    conf.in_process = true;
    planning.step.world = 2;
    planning.plan.world = 2;
    rounds->running_reported = true;
    rounds->running_round = 3;
    rounds->warm.nable = 2;
    unsetenv("SLURM_JOB_GPUS");
    return 0;
}

static int teardown(void **state)
{
    planning.plan.world = 0;
    rounds_end();
    return 0;
}

static void say(unsigned round, int rank)
{
    json_t *msg = json_pack("{s:i,s:i}", "round", round, "rank", rank);

    dlr_sup_on_can_stay(rounds, 0, msg);
    json_decref(msg);
}

static void a_program_runs_ahead_when_all_of_it_can_stay(void **state)
{
    rounds->warm.nable = 0;
    assert_false(dlr_sup_warm_wanted(rounds));
    say(3, 1);
    say(3, 1); /* said again */
    say(2, 0); /* of a former round */
    say(3, 2); /* no rank */
    assert_false(dlr_sup_warm_wanted(rounds));
    say(3, 0);
    assert_true(dlr_sup_warm_wanted(rounds));
    dlr_sup_warm_reset(rounds);
    assert_false(dlr_sup_warm_wanted(rounds));
}

static void nothing_runs_ahead_before_and_after_a_round(void **state)
{
    assert_true(dlr_sup_warm_wanted(rounds));
    rounds->ending = true;
    assert_false(dlr_sup_warm_wanted(rounds));
    rounds->ending = rounds->running_reported = false;
    assert_false(dlr_sup_warm_wanted(rounds));
}

static void who_has_devices_does_not_run_ahead(void **state)
{
    static char *options[] = {"--gpus-per-node=4", "--gres=gpu:1", "--export=A=1",
                              "--chdir=/x", "--label"};

    for (unsigned i = 0; i < 5; i++) {
        planning.step.options = &options[i];
        planning.step.noptions = 1;
        assert_int_equal(dlr_sup_warm_wanted(rounds), i == 4);
    }
    setenv("SLURM_JOB_GPUS", "0", 1);
    assert_false(dlr_sup_warm_wanted(rounds));
    dlr_format(conf.warm, sizeof(conf.warm), "read.sh");
    assert_true(dlr_sup_warm_wanted(rounds));
    planning.step.noptions = 0;
    planning.step.options = NULL;
}

static void the_setting_decides(void **state)
{
    conf.in_process = false;
    assert_false(dlr_sup_warm_wanted(rounds));
    dlr_format(conf.warm, sizeof(conf.warm), "read.sh");
    assert_true(dlr_sup_warm_wanted(rounds));
    conf.in_process = true;
    dlr_format(conf.warm, sizeof(conf.warm), "off");
    assert_false(dlr_sup_warm_wanted(rounds));
}

static void a_task_asks_first_where_somebody_may_wait(void **state)
{
    struct dlr_words words = {0};

    dlr_sup_stay_words(rounds, &words);
    assert_int_equal(words.n, 0);
    rounds->warm.used = true;
    dlr_sup_stay_words(rounds, &words);
    assert_int_equal(words.n, 1);
    conf.in_process = false;
    dlr_sup_stay_words(rounds, &words);
    assert_int_equal(words.n, 1);
    dlr_words_done(&words);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_program_runs_ahead_when_all_of_it_can_stay),
        T(nothing_runs_ahead_before_and_after_a_round),
        T(who_has_devices_does_not_run_ahead),
        T(the_setting_decides),
        T(a_task_asks_first_where_somebody_may_wait),
    };

    return cmocka_run_group_tests_name("warm", tests, NULL, NULL);
}
