/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=mlockall */
/* Where the program is, and what of it stays in memory. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "common/base/install_path.h"

static int fails; /* errno of the next call; 0: none */
static int asked; /* flags of the last one */

int __wrap_mlockall(int flags);
int __wrap_mlockall(int flags)
{
    asked = flags;
    errno = fails;
    return fails ? -1 : 0;
}

/* With MCL_FUTURE each allocation beyond the limit would fail. */
static void only_what_is_mapped_now_is_locked(void **state)
{
    fails = 0;
    assert_int_equal(dlr_process_keep_code(), 0);
    assert_int_equal(asked, MCL_CURRENT);
}

static void a_limit_that_is_too_low_is_told(void **state)
{
    fails = ENOMEM;
    assert_int_equal(dlr_process_keep_code(), -ENOMEM);
}

static void a_program_beside_this_one_is_found(void **state)
{
    char path[PATH_MAX], small[8];

    assert_int_equal(dlr_install_path_sibling("other", path, sizeof(path)), 0);
    assert_int_equal(path[0], '/');
    assert_string_equal(strrchr(path, '/'), "/other");
    assert_int_equal(dlr_install_path_sibling("other", small, sizeof(small)),
                     -ENAMETOOLONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_mapped_now_is_locked),
        cmocka_unit_test(a_limit_that_is_too_low_is_told),
        cmocka_unit_test(a_program_beside_this_one_is_found),
    };

    return cmocka_run_group_tests_name("install_path", tests, NULL, NULL);
}
