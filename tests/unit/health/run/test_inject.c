/* SPDX-License-Identifier: Apache-2.0 */
/* Faults by DLROVER_INJECT. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "health/inject.h"

static void words_that_cannot_be_obeyed_are_refused(void **state)
{
    static const struct {
        const char *text, *error; /* NULL: fine */
    } rows[] = {
        {NULL, NULL},
        {"", NULL},
        {"n2:memory=fail", NULL},
        {"*:disk=warn,n3:clock=250ms", NULL},
        {"n3:clock=drain", NULL},
        {"n2:memory=ok,", NULL},
        {"n2", "DLROVER_INJECT: 'n2' is not NODE:CHECK=VALUE, as n2:memory=fail"},
        {"n1:memory=ok,n2:memory",
         "DLROVER_INJECT: 'n2:memory' is not NODE:CHECK=VALUE, as n2:memory=fail"},
        {":memory=fail",
         "DLROVER_INJECT: ':memory=fail' is not NODE:CHECK=VALUE, as n2:memory=fail"},
        {"n2:=fail",
         "DLROVER_INJECT: 'n2:=fail' is not NODE:CHECK=VALUE, as n2:memory=fail"},
        {"n2=memory:fail",
         "DLROVER_INJECT: 'n2=memory:fail' is not NODE:CHECK=VALUE, as n2:memory=fail"},
        {"n2:memroy=fail",
         "DLROVER_INJECT: 'memroy' is no check; dlrover check --list has them"},
        {"n2:memory=bad", "DLROVER_INJECT: memory cannot be 'bad': it takes ok, skip, "
                          "warn, fail or drain"},
        {"n2:memory=", "DLROVER_INJECT: memory cannot be '': it takes ok, skip, "
                       "warn, fail or drain"},
        {"n2:clock=soon", "DLROVER_INJECT: clock cannot be 'soon': it takes ok, skip, "
                          "warn, fail or drain, or a time as 250ms"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_err err = {0};
        int rc = dlr_inject_check(rows[i].text, dlr_health_checks, &err);

        print_message("  %s\n", rows[i].text ? rows[i].text : "NULL");
        assert_string_equal(err.text, rows[i].error ? rows[i].error : "");
        assert_int_equal(rc, rows[i].error ? -EINVAL : 0);
    }
}

static void verdicts_of_the_node_are_replaced(void **state)
{
    struct dlr_health_result r[] = {
        {"memory", DLR_HEALTH_OK, "58 GiB available"},
        {"disk", DLR_HEALTH_WARN, "'/tmp' is full"},
        {"clock", DLR_HEALTH_OK, ""},
    };

    dlr_inject_apply("n2:memory=drain,n3:clock=fail,n2:memory=fail,*:disk=ok", "n2", r,
                     3);
    assert_int_equal(r[0].verdict, DLR_HEALTH_FAIL);
    assert_string_equal(r[0].reason, "injected; 58 GiB available");
    assert_int_equal(r[1].verdict, DLR_HEALTH_OK);
    assert_string_equal(r[1].reason, "injected; '/tmp' is full");
    assert_int_equal(r[2].verdict, DLR_HEALTH_OK);
    assert_string_equal(r[2].reason, "");
}

static void numbers_are_for_their_node(void **state)
{
    static const char text[] = "n1:clock=1s,n2:clock=250ms,n2:memory=fail,n22:clock=9s";
    double value = -1;

    assert_true(dlr_inject_number(text, "n2", "clock", &value));
    assert_true(value == 250);
    assert_false(dlr_inject_number(text, "n3", "clock", &value));
    assert_false(dlr_inject_number(text, "n2", "memory", &value));
    assert_false(dlr_inject_number("n2:clock=fail", "n2", "clock", &value));
    assert_false(dlr_inject_number(NULL, "n2", "clock", &value));
    assert_true(dlr_inject_number("*:clock=2s,n2:clock=1s", "n2", "clock", &value));
    assert_true(value == 1000);
}

static void a_clock_that_is_said_to_be_ahead_is_judged_so(void **state)
{
    static const struct {
        const char *text, *reason;
        enum dlr_health_verdict verdict;
    } rows[] = {
        {"n2:clock=90s", "+0.0", DLR_HEALTH_OK},
        {"n1:clock=250ms", "injected; +0.25", DLR_HEALTH_OK},
        {"n1:clock=5s", "injected; +5.0", DLR_HEALTH_WARN},
        {"*:clock=90s", "injected; +90.0", DLR_HEALTH_FAIL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_health_result got;
        struct dlr_health_env env;

        dlr_health_env_init(&env);
        env.ref_wall_ns = dlr_wall_ns();
        env.ref_taken_ns = dlr_now_ns();
        env.inject = rows[i].text;
        env.node = "n1";
        assert_int_equal(dlr_health_run(&env, "clock", &got, 1, NULL), 1);
        got.reason[strlen(rows[i].reason)] = '\0';
        assert_string_equal(got.reason, rows[i].reason);
        assert_int_equal(got.verdict, rows[i].verdict);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_that_cannot_be_obeyed_are_refused),
        cmocka_unit_test(verdicts_of_the_node_are_replaced),
        cmocka_unit_test(numbers_are_for_their_node),
        cmocka_unit_test(a_clock_that_is_said_to_be_ahead_is_judged_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
