/* SPDX-License-Identifier: Apache-2.0 */
/* The policy engine at a first start whose nodes come late: a prolog that takes
 * minutes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/mpi_launcher/policy/policy_rig.h"

/* As policy_conf: the agents' time is 1000, that of the late ones 20000. */
static struct dlr_policy *begin(struct policy_log *l, bool batch)
{
    struct dlr_policy_conf conf = policy_conf;
    struct dlr_policy *p;

    conf.agent_timeout_ms = 10000;
    conf.start_timeout_ms = 20000;
    conf.batch = batch;
    p = policy_new(l, &conf);
    dlr_policy_start(p, 0);
    return p;
}

static void up(struct dlr_policy *p, unsigned first, unsigned last, int64_t now)
{
    for (unsigned i = first; i <= last; i++)
        dlr_policy_node_up(p, i, now);
}

static void late_nodes_are_waited_for_and_are_not_dead(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = begin(&l, true);

    up(p, 0, 0, 10);
    dlr_policy_tick(p, 10000);
    assert_string_equal(l.text, "agents late4 ");
    for (unsigned i = 1; i < 5; i++)
        assert_false(dlr_policy_is_lost(p, i));
    up(p, 1, 2, 15000);
    assert_string_equal(l.text, "agents late4 ");
    up(p, 3, 3, 15100); /* as many as a round has: at once */
    assert_string_equal(l.text, "agents late4 meet ");
    policy_plan(p, "xxxx.", 15200);
    dlr_policy_prepared(p, 0, NULL, 15300);
    up(p, 4, 4, 18000); /* and a spare from now on */
    dlr_policy_node_dead(p, 1, "silent", 18100);
    policy_all_clean(p, 0, 18200);
    policy_plan(p, "x.xxx", 18300);
    assert_string_equal(l.text,
                        "agents late4 meet prepare0 launch0 end0 node meet prepare1 ");
    dlr_policy_free(p);
}

static void a_round_begins_as_soon_as_enough_are_there(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = begin(&l, true);

    up(p, 0, 3, 10);
    assert_string_equal(l.text, "agents ");
    assert_int_equal(dlr_policy_deadline_ms(p), 5010); /* the last may be as quick */
    dlr_policy_tick(p, 5010);
    assert_string_equal(l.text, "agents meet ");
    assert_false(dlr_policy_is_lost(p, 4));
    dlr_policy_free(p);
}

static void a_late_spare_is_waited_for_when_a_node_is_lost(void **state)
{
    for (unsigned how = 0; how < 2; how++) {
        struct policy_log l;
        struct dlr_policy *p = begin(&l, true);

        up(p, 0, 3, 10);
        dlr_policy_tick(p, 5010);
        if (how == 0)
            dlr_policy_node_dead(p, 2, "silent", 6000);
        else
            dlr_policy_planned(p, -ENOSPC, NULL, "3 nodes are fit", 6000);
        assert_string_equal(l.text, how == 0 ? "agents meet stop late1 "
                                             : "agents meet late1 ");
        up(p, 4, 4, 7000);
        assert_string_equal(l.text, how == 0 ? "agents meet stop late1 meet "
                                             : "agents meet late1 meet ");
        dlr_policy_free(p);
    }
}

static void a_late_node_that_never_comes_has_a_limit(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = begin(&l, true);

    up(p, 0, 2, 10);
    dlr_policy_tick(p, 10000);
    dlr_policy_tick(p, 20000);
    assert_string_equal(l.text, "agents late2 persist ");
    assert_false(dlr_policy_is_lost(p, 3)); /* nobody is excluded */
    dlr_policy_free(p);
}

static void without_any_agent_the_batch_host_ends_and_a_login_host_waits(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = begin(&l, true);

    dlr_policy_tick(p, 10000);
    assert_string_equal(l.text, "agents finish1 ");
    dlr_policy_free(p);
    p = begin(&l, false);
    dlr_policy_tick(p, 10000);
    assert_string_equal(l.text, "agents late5 ");
    dlr_policy_tick(p, 20000);
    assert_string_equal(l.text, "agents late5 finish1 ");
    dlr_policy_free(p);
}

/* Who was there is not told from who never was: as always. */
static void agents_that_are_lost_later_are_not_late(void **state)
{
    struct policy_log l;
    struct dlr_policy *p = begin(&l, true);

    up(p, 0, 4, 10);
    policy_plan(p, "xxxx.", 20);
    dlr_policy_prepared(p, 0, NULL, 30);
    dlr_policy_agents_gone(p, 100);
    up(p, 0, 3, 200);
    dlr_policy_tick(p, 10100);
    assert_true(dlr_policy_is_lost(p, 4));
    dlr_policy_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_nodes_are_waited_for_and_are_not_dead),
        cmocka_unit_test(a_round_begins_as_soon_as_enough_are_there),
        cmocka_unit_test(a_late_spare_is_waited_for_when_a_node_is_lost),
        cmocka_unit_test(a_late_node_that_never_comes_has_a_limit),
        cmocka_unit_test(without_any_agent_the_batch_host_ends_and_a_login_host_waits),
        cmocka_unit_test(agents_that_are_lost_later_are_not_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
