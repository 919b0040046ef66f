/* SPDX-License-Identifier: Apache-2.0 */
/* Who may stay over the loss of a node, and who does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "tests/support/rounds_alone.h"

static int setup(void **state)
{
    static char *names[] = {"n1", "n2", "n3", NULL};

    rounds_begin(names, 3);
    conf.in_process = true;
    conf.park_timeout_ms = 3000;
    conf.end_timeout_ms = 10000;
    rounds->running_reported = true;
    for (unsigned i = 0; i < 3; i++)
        nodes->members.list[i].here = i != 1;
    return 0;
}

static int teardown(void **state)
{
    rounds_end();
    return 0;
}

static void processes_park_when_a_node_is_lost_and_nothing_else(void **state)
{
    for (int cause = 0; cause <= DLR_CAUSE_CONTROL; cause++)
        assert_int_equal(dlr_sup_stay_ms(rounds, (enum dlr_cause)cause),
                         cause == DLR_CAUSE_NODE ? 3000 : 0);
    rounds->running_reported = false; /* not all had started */
    assert_int_equal(dlr_sup_stay_ms(rounds, DLR_CAUSE_NODE), 0);
}

static void the_end_of_a_round_is_not_late_for_it(void **state)
{
    conf.end_timeout_ms = 4000;
    assert_int_equal(dlr_sup_stay_ms(rounds, DLR_CAUSE_NODE), 2000);
}

static void nobody_stays_unless_the_job_says_so(void **state)
{
    conf.in_process = false;
    assert_int_equal(dlr_sup_stay_ms(rounds, DLR_CAUSE_NODE), 0);
    assert_false(dlr_sup_stay_can(rounds));
}

static void what_no_task_can_stand_for_starts_again(void **state)
{
    static char *options[][2] = {{"--multi-prog"},
                                 {"--bcast=/tmp/x"},
                                 {"--container-image=x"},
                                 {"--pty"},
                                 {"--label"}};

    for (unsigned i = 0; i < 5; i++) {
        planning.step.options = options[i];
        planning.step.noptions = 1;
        assert_int_equal(dlr_sup_stay_can(rounds), i == 4);
    }
    planning.step.noptions = 0;
    planning.step.options = NULL;
}

static void tell(unsigned node, int parked)
{
    json_t *msg = json_pack("{s:i}", "parked", parked);

    dlr_sup_on_parked(rounds, node, msg);
    json_decref(msg);
}

static void who_is_parked_counts_until_the_next_end(void **state)
{
    struct dlr_words words = {0};

    tell(0, 2); /* of a round that nobody stays in */
    assert_int_equal(dlr_sup_stay_parked(rounds), 0);
    dlr_sup_stay_words(rounds, &words);
    assert_int_equal(words.n, 0);

    dlr_sup_stay_keep(rounds);
    tell(0, 2);
    tell(1, 2); /* it is lost */
    tell(2, 1);
    tell(2, 1); /* once more */
    assert_int_equal(dlr_sup_stay_parked(rounds), 3);
    dlr_sup_stay_words(rounds, &words);
    assert_int_equal(words.n, 1);
    assert_non_null(strstr(words.list[0], "dlrover-relay"));
    dlr_words_done(&words);

    dlr_sup_stay_keep(rounds);
    assert_int_equal(dlr_sup_stay_parked(rounds), 0);
    tell(0, 1);
    dlr_sup_stay_end(rounds);
    assert_int_equal(dlr_sup_stay_parked(rounds), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(processes_park_when_a_node_is_lost_and_nothing_else),
        T(the_end_of_a_round_is_not_late_for_it),
        T(nobody_stays_unless_the_job_says_so),
        T(what_no_task_can_stand_for_starts_again),
        T(who_is_parked_counts_until_the_next_end),
    };

    return cmocka_run_group_tests_name("stay", tests, NULL, NULL);
}
