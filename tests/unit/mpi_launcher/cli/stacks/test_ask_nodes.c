/* SPDX-License-Identifier: Apache-2.0 */
/* An srun, played by a script, that does not end when the time is over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi_launcher/cli/stacks/ask_nodes.h"

#define TRIES 30 /* a loaded machine: the script may not have begun, or not be done */

static char directory[] = "/tmp/dlr-ask-XXXXXX", srun[64], done[64];

/* Whether it has got so far as to write its file. */
static bool ask(const char *script)
{
    const char *const nodes[] = {"n1"};
    const struct dlr_stacks_question q = {.job = "41",
                                          .nodes = nodes,
                                          .n = 1,
                                          .srun = srun,
                                          .tool = "dlrover-stacks",
                                          .limit_ms = 200};
    struct dlr_stacks_answer answer;
    struct dlr_err err = {0};
    FILE *f = fopen(srun, "w");

    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\nwhile :; do sleep 100; done\n", script);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(srun, 0700), 0);
    assert_int_equal(dlr_stacks_ask(&q, &answer, &err), 0);
    assert_int_equal(answer.status, -1);
    dlr_stacks_answer_done(&answer);
    return access(done, F_OK) == 0;
}

static void srun_has_time_to_end_its_step(void **state)
{
    static const char *const scripts[] = {
        "trap '[ ! -e one ] || { >done; exit; }; >one' TERM",
        "trap '' TERM; >done; exec sleep 100", /* it is killed */
    };

    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        unsigned tries = 0;

        while (!ask(scripts[i]) && ++tries < TRIES)
            unlink("one");
        assert_true(tries < TRIES);
        unlink("one");
        unlink(done);
    }
}

static int set_up(void **state)
{
    if (!mkdtemp(directory) || chdir(directory) < 0)
        return -1;
    snprintf(srun, sizeof(srun), "%s/srun", directory);
    snprintf(done, sizeof(done), "%s/done", directory);
    return 0;
}

static int tear_down(void **state)
{
    unlink(srun);
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(srun_has_time_to_end_its_step),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
