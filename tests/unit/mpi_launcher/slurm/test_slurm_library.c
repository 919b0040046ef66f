/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of one release of Slurm and the libslurm of another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "mpi_launcher/slurm/api.h"
#include "mpi_launcher/slurm/compat.h"

static long loaded;

/* In place of libslurm's. */
long slurm_api_version(void)
{
    return loaded << 16;
}

static void the_library_is_that_of_the_headers(void **state)
{
    struct dlr_err err = {0};

    loaded = DLR_SLURM_API;
    assert_int_equal(dlr_slurm_check_library(&err), 0);
    loaded = DLR_SLURM_API + 1;
    assert_int_equal(dlr_slurm_check_library(&err), -EINVAL);
    assert_non_null(
        strstr(err.text, "make with CPPFLAGS=-I and LDFLAGS=-L of one Slurm"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_is_that_of_the_headers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
