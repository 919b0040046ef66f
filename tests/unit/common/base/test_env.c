/* SPDX-License-Identifier: Apache-2.0 */
/* Names are looked up whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/env.h"

static void a_value_is_that_of_the_whole_name(void **state)
{
    static const struct {
        const char *entry, *value;
    } rows[] = {
        {"NAME=value", "value"}, {"NAME==", "="},     {"NAME=", ""}, {"NAME", NULL},
        {"NAMES=value", NULL},   {"NAM=value", NULL}, {"", NULL},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const char *value = dlr_env_value(rows[i].entry, "NAME");

        print_message("'%s'\n", rows[i].entry);
        if (rows[i].value)
            assert_string_equal(value, rows[i].value);
        else
            assert_null(value);
    }
}

static void the_first_of_a_name_counts(void **state)
{
    char *const env[] = {"NAMES=no", "NAME=first", "NAME=second", NULL};

    assert_string_equal(dlr_env_get(env, "NAME"), "first");
    assert_null(dlr_env_get(env, "OTHER"));
    assert_null(dlr_env_get(NULL, "NAME"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_that_of_the_whole_name),
        cmocka_unit_test(the_first_of_a_name_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
