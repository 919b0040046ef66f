/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that run at once begin on nodes of their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mpi_launcher/run/node_claims.h"

static char *const names[] = {"n1", "n2", "n3", "n4"};
static const unsigned char all[] = {1, 1, 1, 1};
static char path[64];
static pid_t other; /* another run */

static int setup(void **state)
{
    snprintf(path, sizeof(path), "/tmp/dlr-claims-XXXXXX");
    close(mkstemp(path));
    other = fork();
    if (other == 0)
        for (;;)
            pause();
    return 0;
}

static int teardown(void **state)
{
    if (other > 0) {
        kill(other, SIGKILL);
        waitpid(other, NULL, 0);
    }
    return unlink(path);
}

/* The nodes' numbers as text. */
static void takes(pid_t keeper, const unsigned char *may, unsigned want,
                  const char *expected)
{
    unsigned chosen[4];
    char text[64] = "";
    struct dlr_err err;
    int n = dlr_node_claims_take(path, keeper, names, may, 4, want, chosen, &err);

    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ",
                 names[chosen[i]]);
    assert_string_equal(text, expected);
}

static void runs_at_once_take_other_nodes(void **state)
{
    takes(other, all, 2, "n1 n2 ");
    takes(getpid(), all, 2, "n3 n4 ");
}

static void with_too_few_left_they_meet(void **state)
{
    takes(other, all, 3, "n1 n2 n3 ");
    takes(getpid(), all, 2, "n4 n1 ");
}

static void the_same_run_is_given_the_same(void **state)
{
    takes(getpid(), all, 2, "n1 n2 ");
    takes(other, all, 2, "n3 n4 ");
    takes(getpid(), all, 2, "n1 n2 ");
    takes(getpid(), all, 3, "n1 n2 n3 ");
}

static void a_run_that_is_over_has_none(void **state)
{
    takes(other, all, 2, "n1 n2 ");
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    other = 0;
    takes(getpid(), all, 2, "n1 n2 ");
}

static void excluded_nodes_are_not_taken(void **state)
{
    static const unsigned char may[] = {0, 1, 0, 0};

    takes(getpid(), may, 2, "n2 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(runs_at_once_take_other_nodes, setup, teardown),
        cmocka_unit_test_setup_teardown(with_too_few_left_they_meet, setup, teardown),
        cmocka_unit_test_setup_teardown(the_same_run_is_given_the_same, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_run_that_is_over_has_none, setup, teardown),
        cmocka_unit_test_setup_teardown(excluded_nodes_are_not_taken, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
