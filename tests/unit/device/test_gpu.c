/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=gpu needs-cuda=tests/fake/libcuda.so.1 */
/* What `make check-gpu` runs on a GPU, on a stand-in for the driver
 * (tests/support/fake_cuda.c): the program itself is tried so, and two nodes of a job
 * with their state in device memory. What a GPU does is not tested here.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/install_path.h"
#include "common/base/str.h"

/* Its lines; *ret_status is that of the command. libs: where a driver is looked for
 * first; a real one has no GPU to show.
 */
static void run(const char *libs, char *out, size_t size, int *ret_status)
{
    char gpu[PATH_MAX], dir[PATH_MAX], command[3 * PATH_MAX];
    size_t n;
    FILE *p;

    assert_int_equal(dlr_install_path_sibling("../gpu", gpu, sizeof(gpu)), 0);
    assert_int_equal(dlr_install_path_sibling(libs, dir, sizeof(dir)), 0);
    assert_true(dlr_format(command, sizeof(command),
                           "CUDA_VISIBLE_DEVICES= LD_LIBRARY_PATH='%s' '%s' --mib 24 "
                           "check 2>&1",
                           dir, gpu) >= 0);
    p = popen(command, "r");
    assert_non_null(p);
    n = fread(out, 1, size - 1, p);
    out[n] = '\0';
    *ret_status = pclose(p);
}

static void it_says_when_there_is_no_gpu(void **state)
{
    char out[4096];
    int status;

    run("none", out, sizeof(out), &status);
    assert_int_equal(status, 0);
    assert_int_equal(strncmp(out, "skipped: ", 9), 0);
}

static void all_of_it_holds_on_the_stand_in(void **state)
{
    char out[4096];
    unsigned held = 0;
    int status;

#ifndef DLR_HAVE_CUDA
    skip();
#endif
    run("fake", out, sizeof(out), &status);
    for (const char *at = out; (at = strstr(at, "\nok: ")); at++)
        held++;
    if (status != 0 || held != 10)
        fail_msg("status %d, %u of 10 hold:\n%s", status, held, out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_when_there_is_no_gpu),
        cmocka_unit_test(all_of_it_holds_on_the_stand_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
