/* SPDX-License-Identifier: Apache-2.0 */
/* A run that begins where a former incarnation of the job left a state that it cannot read: it says so and does
 * not begin anew. Around mpi_launcher/supervisor/saved_state.c all of the supervisor but its main program.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "tests/support/nodes_rig.h"
#include "tests/support/steps_rig.h"

static char dir[64], run_dir[128];

static int make_dir(void **state)
{
    char job_dir[96];

    dlr_format(dir, sizeof(dir), "/tmp/dlr-state-XXXXXX");
    assert_non_null(mkdtemp(dir));
    dlr_format(job_dir, sizeof(job_dir), "%s/job-42", dir);
    dlr_format(run_dir, sizeof(run_dir), "%s/lm", job_dir);
    setenv("SLURM_JOB_ID", "42", 1);
    setenv("SLURM_CLUSTER_NAME", "blue", 1);
    setenv("SLURM_RESTART_COUNT", "1", 1);
    return mkdir(job_dir, 0700) < 0 || mkdir(run_dir, 0700) < 0;
}

static int remove_dir(void **state)
{
    char command[96];

    dlr_format(command, sizeof(command), "rm -r '%s'", dir);
    return system(command);
}

static void put(const char *text, size_t size)
{
    char path[160];
    FILE *f;

    dlr_format(path, sizeof(path), "%s/state.json", run_dir);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static int load(struct dlr_err *err)
{
    static char srun[] = "srun", program[] = "train";
    char *argv[] = {srun, program, NULL};
    struct dlr_sup s = {.state_fd = -1, .argv = argv, .io = dlr_sup_io_new(NULL, NULL)};
    int rc;

    dlr_format(s.conf.state_dir, sizeof(s.conf.state_dir), "%s", dir);
    dlr_format(s.conf.name, sizeof(s.conf.name), "lm");
    nodes_rig(&s, NULL, NULL, 0);
    steps_rig(&s, NULL);
    rc = dlr_sup_load_state(&s, err);
    dlr_sup_steps_free(s.steps);
    dlr_sup_nodes_free(s.nodes);
    dlr_sup_io_free(s.io);
    return rc;
}

static void a_state_that_is_none_is_refused(void **state)
{
    static const struct {
        const char *text;
        int rc;
        const char *why; /* behind the file's name */
    } rows[] = {
        {"", -EBADMSG,
         " is not the state of a run: '[' or '{' expected near end of file"},
        {"[]", -EBADMSG, " is not the state of a run: no object"},
        {"{\"ended\":0}", -EBADMSG, " is not the state of a run: no version"},
        {"{\"v\":\"1\"}", -EBADMSG, " is not the state of a run: no version"},
        {"{\"v\":1,\"v\":1}", -EBADMSG,
         " is not the state of a run: duplicate object key"},
        {"{\"v\":2,\"ended\":0}", -EPROTONOSUPPORT,
         " is of version 2, this release reads version 1 only"},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char want[400];
        struct dlr_err err;

        print_message("%s\n", rows[i].text);
        put(rows[i].text, strlen(rows[i].text));
        assert_int_equal(load(&err), rows[i].rc);
        dlr_format(want, sizeof(want), "'%s/state.json'%s", run_dir, rows[i].why);
        assert_memory_equal(err.text, want, strlen(want));
    }
}

static void a_state_that_is_too_long_is_not_read(void **state)
{
    DLR_AUTO_FREE char *text = malloc(65537);
    struct dlr_err err;

    memset(text, ' ', 65537);
    put(text, 65537);
    assert_int_equal(load(&err), -EFBIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_that_is_none_is_refused),
        cmocka_unit_test(a_state_that_is_too_long_is_not_read),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
