/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "common/config/opt_value.h"

static void what_is_no_rule_is_refused(void **state)
{
    static const char *const bad[] = {
        "process",
        "process:",
        ":stop",
        "process:now",
        "exit-0:stop",
        "exit-256:stop",
        "exit-:stop",
        "exit-1x:stop",
        "node:elsewhere",
        "memory:elsewhere",
        "hang:restart",
        "process:stop,",
        ",process:stop",
        "process:stop,,",
        "exit-1000:stop",
        "process:stop,process:restart",
        "exit-1:stop,exit-2:stop,exit-3:stop,exit-4:stop,exit-5:stop,exit-6:stop,"
        "exit-7:stop,exit-8:stop,exit-9:stop,exit-10:stop,exit-11:stop,exit-12:stop,"
        "exit-13:stop,exit-14:stop,exit-15:stop,exit-16:stop,exit-17:stop",
        "a-class-that-is-much-longer-than-any-other:stop"};
    union dlr_opt_value v;

    for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        print_message("%s\n", bad[i]);
        assert_int_equal(dlr_failure_rules_parse(bad[i], &v), -EINVAL);
    }
}

static void the_code_goes_before_the_class_and_93_stops(void **state)
{
    static const struct {
        const char *rules;
        int code;
        enum dlr_failure_action exits, lost, memory; /* 0: requeued */
    } rows[] = {
        {"", 1, DLR_FAILURE_RESTARTS, DLR_FAILURE_RESTARTS},
        {"", 93, DLR_FAILURE_STOPS, DLR_FAILURE_RESTARTS},
        {"process:elsewhere", 1, DLR_FAILURE_ELSEWHERE, DLR_FAILURE_RESTARTS},
        {"process:elsewhere", 93, DLR_FAILURE_STOPS, DLR_FAILURE_RESTARTS},
        {"process:stop,exit-17:restart", 17, DLR_FAILURE_RESTARTS,
         DLR_FAILURE_RESTARTS},
        {"exit-17:restart,process:stop", 18, DLR_FAILURE_STOPS, DLR_FAILURE_RESTARTS},
        {"exit-93:requeue,node:stop", 93, DLR_FAILURE_REQUEUES, DLR_FAILURE_STOPS},
        {"node:requeue", 137, DLR_FAILURE_RESTARTS, DLR_FAILURE_REQUEUES},
        {"memory:stop", 137, DLR_FAILURE_RESTARTS, DLR_FAILURE_RESTARTS,
         DLR_FAILURE_STOPS},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        union dlr_opt_value v;
        char text[512];

        print_message("'%s', code %d\n", rows[i].rules, rows[i].code);
        assert_int_equal(dlr_failure_rules_parse(rows[i].rules, &v), 0);
        assert_int_equal(dlr_failure_rules_exit(&v.failures, rows[i].code),
                         rows[i].exits);
        assert_int_equal(dlr_failure_rules_node(&v.failures), rows[i].lost);
        assert_int_equal(dlr_failure_rules_memory(&v.failures),
                         rows[i].memory ? rows[i].memory : DLR_FAILURE_REQUEUES);
        assert_int_equal(dlr_failure_rules_show(&v.failures, text, sizeof(text)), 0);
        assert_string_equal(text, rows[i].rules);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_rule_is_refused),
        cmocka_unit_test(the_code_goes_before_the_class_and_93_stops),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
