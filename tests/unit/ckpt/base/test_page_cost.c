/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/base/page_cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define S INT64_C(1000000000)

static struct dlr_page page;
static struct dlr_page_cost told;

static int setup(void **state)
{
    memset(&page, 0, sizeof(page));
    memset(&told, 0, sizeof(told));
    page.saves = 4;
    page.blocked_ns = (uint64_t)S;
    page.plain_steps = 90;
    page.plain_ns = (uint64_t)(9 * S);
    page.saved_steps = 10;
    page.saved_ns = (uint64_t)S;
    page.extra_ns = (uint64_t)S / 100;
    page.extra_saves = 3;
    page.step_ns = (uint64_t)S / 10;
    assert_true(dlr_page_cost_get(&page, &told, 20 * S, &told));
    return 0;
}

static void what_was_counted_is_read(void **state)
{
    assert_int_equal(told.saves, 4);
    assert_int_equal(told.blocked_ns, S);
    assert_int_equal(told.plain_steps, 90);
    assert_int_equal(told.plain_ns, 9 * S);
    assert_int_equal(told.saved_steps, 10);
    assert_int_equal(told.saved_ns, S);
    assert_int_equal(told.extra_ns, S / 100);
    assert_int_equal(told.extra_saves, 3);
    assert_int_equal(told.step_ns, S / 10);
    page.saves++;
    page.extra_ns = 0; /* a cost may fall */
    page.step_ns = (uint64_t)S / 20;
    assert_true(dlr_page_cost_get(&page, &told, 20 * S, &told));
    assert_int_equal(told.saves, 5);
}

/* A program wrote where it had no business: nothing of it is believed. */
static void a_stray_write_is_seen(void **state)
{
    _Atomic uint64_t *const fields[] = {
        &page.saves,       &page.blocked_ns,  &page.plain_steps,
        &page.plain_ns,    &page.saved_steps, &page.saved_ns,
        &page.extra_saves, &page.extra_ns,    &page.step_ns};
    static const uint64_t values[] = {UINT64_MAX, (uint64_t)INT64_MAX,
                                      UINT64_C(1) << 62, 0x3ff0000000000000, 0};

    for (unsigned i = 0; i < sizeof(fields) / sizeof(*fields); i++)
        for (unsigned k = 0; k < sizeof(values) / sizeof(*values); k++) {
            const struct dlr_page_cost before = told;
            uint64_t was = *fields[i];
            bool may_be = values[k] == 0 && i >= 7; /* no total */

            print_message("field %u, value %u\n", i, k);
            *fields[i] = values[k];
            assert_int_equal(dlr_page_cost_get(&page, &told, 20 * S, &told), may_be);
            if (!may_be)
                assert_memory_equal(&told, &before, sizeof(told));
            *fields[i] = was;
            told = before;
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_was_counted_is_read, setup),
        cmocka_unit_test_setup(a_stray_write_is_seen, setup),
    };

    return cmocka_run_group_tests_name("page_cost", tests, NULL, NULL);
}
