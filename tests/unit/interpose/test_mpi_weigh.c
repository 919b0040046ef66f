/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "watch/read.h"
#include "watch/write.h"

#define S UINT64_C(1000000000)

static struct dlr_watch_page *page;

static int make(void **state)
{
    page = aligned_alloc(4096, sizeof(*page));
    memset(page, 0, sizeof(*page));
    dlr_watch_page_init(page, 0, 0, 1, 0, 1);
    dlr_mpi_process = (struct dlr_mpi_process){.map.page = page, .call_cost_ns = 100};
    return 0;
}

static int drop(void **state)
{
    free(page);
    return 0;
}

/* calls a second for so many seconds, after the clock's begin. */
static void call(struct dlr_mpi_thread *thread, unsigned seconds, unsigned calls)
{
    static uint64_t now_ns = 100 * S;

    for (unsigned i = 0; i < seconds * calls; i++)
        dlr_mpi_weigh(thread, now_ns += S / calls);
}

static bool is_untimed(void)
{
    return DLR_WATCH_GET(page->flags) & DLR_WATCH_UNTIMED;
}

/* 100 ns each: 0.3 % are 30,000 calls a second. */
static void few_calls_keep_their_times(void **state)
{
    struct dlr_mpi_thread thread = {0};

    call(&thread, 20, 25000);
    assert_false(dlr_mpi_process.coarse);
    assert_false(is_untimed());
}

static void many_calls_lose_their_times_and_say_so(void **state)
{
    struct dlr_mpi_thread thread = {0};

    call(&thread, 6, 40000);
    assert_true(dlr_mpi_process.coarse);
    assert_true(is_untimed());
}

static void a_burst_between_quiet_seconds_keeps_them(void **state)
{
    struct dlr_mpi_thread thread = {0};

    for (unsigned i = 0; i < 10; i++) {
        call(&thread, 2, 40000);
        call(&thread, 3, 1000);
    }
    assert_false(dlr_mpi_process.coarse);
}

/* It is the share of the step that counts: a window has at least one. */
static void a_long_step_is_weighed_as_a_whole(void **state)
{
    struct dlr_mpi_thread thread = {0};

    for (unsigned step = 1; step < 5; step++) {
        dlr_watch_put_step(page, step, step);
        call(&thread, 5, 40000);
        call(&thread, 40, 400);
    }
    assert_false(dlr_mpi_process.coarse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(few_calls_keep_their_times, make, drop),
        cmocka_unit_test_setup_teardown(many_calls_lose_their_times_and_say_so, make,
                                        drop),
        cmocka_unit_test_setup_teardown(a_burst_between_quiet_seconds_keeps_them, make,
                                        drop),
        cmocka_unit_test_setup_teardown(a_long_step_is_weighed_as_a_whole, make, drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
