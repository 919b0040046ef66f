/* SPDX-License-Identifier: Apache-2.0 */
#include "interpose/requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct dlr_mpi_request of(uintptr_t handle, int tag)
{
    return (struct dlr_mpi_request){.handle = handle, .tag = tag};
}

static void a_request_is_there_until_it_ends(void **state)
{
    struct dlr_mpi_request r = of(0x1000, 7), old, got;

    assert_true(dlr_mpi_request_add(&r, &old));
    assert_int_equal(old.handle, 0);
    assert_true(dlr_mpi_request_peek(0x1000, &got));
    assert_int_equal(got.tag, 7);
    assert_true(dlr_mpi_request_take(0x1000, false, &got));
    assert_int_equal(got.tag, 7);
    assert_false(dlr_mpi_request_take(0x1000, false, &got));
    assert_false(dlr_mpi_request_peek(0x1000, &got));
}

static void nothing_is_known_of_a_null_handle(void **state)
{
    struct dlr_mpi_request got;

    assert_false(dlr_mpi_request_peek(0, &got));
    assert_false(dlr_mpi_request_take(0, true, &got));
    dlr_mpi_request_start(0);
    assert_false(dlr_mpi_request_peek(0, &got));
}

/* Open MPI gives one handle to all that have ended already. */
static void a_handle_that_comes_again_gives_back_the_old_one(void **state)
{
    struct dlr_mpi_request first = of(0x2000, 1), second = of(0x2000, 2), old, got;

    assert_true(dlr_mpi_request_add(&first, &old));
    assert_true(dlr_mpi_request_add(&second, &old));
    assert_int_equal(old.handle, 0x2000);
    assert_int_equal(old.tag, 1);
    assert_true(dlr_mpi_request_take(0x2000, false, &got));
    assert_int_equal(got.tag, 2);
}

static void a_persistent_request_stays_until_it_is_freed(void **state)
{
    struct dlr_mpi_request r = of(0x3000, 3), old, got;

    r.persistent = true;
    assert_true(dlr_mpi_request_add(&r, &old));
    dlr_mpi_request_start(0x3000);
    assert_true(dlr_mpi_request_take(0x3000, false, &got));
    assert_true(got.collective);
    assert_true(dlr_mpi_request_take(0x3000, false, &got));
    assert_false(got.collective);
    assert_true(dlr_mpi_request_take(0x3000, true, &got));
    assert_false(dlr_mpi_request_peek(0x3000, &got));
}

static void what_finds_no_room_is_told(void **state)
{
    unsigned kept = 0, refused = 0;
    struct dlr_mpi_request old, got;

    for (uintptr_t h = 1; h <= 20000; h++) {
        struct dlr_mpi_request r = of(h * 64, 0);

        if (dlr_mpi_request_add(&r, &old))
            kept++;
        else
            refused++;
    }
    assert_true(kept > 4096 && refused > 0);
    for (uintptr_t h = 1; h <= 20000; h++)
        kept -= dlr_mpi_request_take(h * 64, false, &got);
    assert_int_equal(kept, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_there_until_it_ends),
        cmocka_unit_test(nothing_is_known_of_a_null_handle),
        cmocka_unit_test(a_handle_that_comes_again_gives_back_the_old_one),
        cmocka_unit_test(a_persistent_request_stays_until_it_is_freed),
        cmocka_unit_test(what_finds_no_room_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
