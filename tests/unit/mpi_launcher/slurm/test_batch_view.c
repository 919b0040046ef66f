/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=spank/task */
/* What a batch script is shown of its job, and how the plugin asks for it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "mpi_launcher/slurm/batch_view.h"
#include "spank/task/batch_env.h"

static const struct dlr_topo_node nodes5[] = {
    {"n1", "s.b.n1"}, {"n2", "s.b.n2"}, {"n3", "s.b.n3"},
    {"n4", "s.a.n4"}, {"n5", "n5"},
};

/* The lines for these nodes, with spaces for newlines; "" on an error. */
static void show(struct dlr_batch_view_in *in, char *buf, size_t size)
{
    DLR_AUTO_FCLOSE FILE *f = fmemopen(buf, size, "w");
    struct dlr_err err;

    memset(buf, 0, size);
    if (dlr_batch_view_write(in, f, &err) < 0) {
        fflush(f);
        buf[0] = '\0';
    }
    fflush(f);
    for (char *c = buf; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
}

static void sizes_follow_the_nodes_that_train(void **state)
{
    static const struct {
        unsigned nplaces;
        const char *tasks, *cpus, *ntasks, *want;
    } rows[] = {
        {5, "2(x5)", NULL, NULL, "n5,n4,n1,n2,n3 SLURM_TASKS_PER_NODE=2(x5) "},
        {4, "2(x5)", "4(x5)", "10",
         "n4,n1,n2,n3 SLURM_JOB_CPUS_PER_NODE=4(x4) SLURM_TASKS_PER_NODE=2(x4) "
         "SLURM_NTASKS=8 SLURM_NPROCS=8 "},
        {3, "3,2(x2),1,7", NULL, "15",
         "n1,n2,n3 SLURM_TASKS_PER_NODE=3,2(x2) SLURM_NTASKS=7 SLURM_NPROCS=7 "},
        {2, NULL, NULL, "5", "n1,n2 "},
        {1, "1(x5)", NULL, NULL, "n1 SLURM_TASKS_PER_NODE=1 "},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_topo_node nodes[5];
        struct dlr_batch_view_in in = {
            "7",           "n[1-5]",     nodes,         5, rows[i].nplaces,
            rows[i].tasks, rows[i].cpus, rows[i].ntasks};
        char buf[1024], want[1024], *at;

        memcpy(nodes, nodes5, sizeof(nodes));
        show(&in, buf, sizeof(buf));
        assert_ptr_equal(strstr(buf, "DLROVER_ALL_JOB=7 DLROVER_ALL_NODES=n[1-5] "),
                         buf);
        dlr_format(want, sizeof(want), "SLURM_NNODES=%u ", rows[i].nplaces);
        assert_non_null(strstr(buf, want));
        at = strstr(buf, "SLURM_NODELIST=");
        assert_non_null(at);
        print_message("%u of 5\n", rows[i].nplaces);
        assert_string_equal(at + strlen("SLURM_NODELIST="), rows[i].want);
    }
}

static void counts_that_do_not_fit_are_refused(void **state)
{
    static const char *const bad[] = {"2(x4)", "2(x6)",  "x",   "2(x5",
                                      "2(x0)", "-1(x5)", "2;3", "2(x4294967295),1"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct dlr_topo_node nodes[5];
        struct dlr_batch_view_in in = {"7", "n[1-5]", nodes, 5, 4, bad[i], NULL, NULL};
        char buf[1024];

        memcpy(nodes, nodes5, sizeof(nodes));
        show(&in, buf, sizeof(buf));
        print_message("%s\n", bad[i]);
        assert_string_equal(buf, "");
    }
}

static void a_requeued_job_shows_as_many_as_before(void **state)
{
    static const struct {
        unsigned n, spares, most, before, want;
        int rc;
    } rows[] = {
        {5, 1, 0, 0, 4, 0}, {4, 1, 0, 4, 4, 0}, {5, 1, 0, 4, 4, 0},
        {3, 1, 0, 4, 3, 0}, {5, 0, 0, 0, 5, 0}, {2, 1, 0, 0, 1, 0},
        {5, 1, 3, 0, 3, 0}, {5, 1, 9, 0, 4, 0}, {2, 2, 0, 0, 0, -EINVAL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        unsigned got = 0;

        assert_int_equal(dlr_batch_view_places(rows[i].n, rows[i].spares, rows[i].most,
                                               rows[i].before, &got),
                         rows[i].rc);
        assert_int_equal(got, rows[i].want);
    }
}

static void the_first_number_is_kept(void **state)
{
    char dir[] = "/tmp/dlr-shown-XXXXXX", path[64];

    assert_non_null(mkdtemp(dir));
    assert_int_equal(dlr_batch_view_load(dir), 0);
    dlr_batch_view_save(dir, 4);
    assert_int_equal(dlr_batch_view_load(dir), 4);
    dlr_format(path, sizeof(path), "%s/.shown", dir);
    unlink(path);
    rmdir(dir);
}

/* --- the plugin's side ------------------------------------------------------------ */

/* Runs dlr_batch_env() with a program that is this shell script. */
static int ask(const char *script, struct dlr_task_env *ret, struct dlr_err *err)
{
    static char name[] = "GIVEN=there", *env[] = {name, NULL};
    char dir[] = "/tmp/dlr-batch-XXXXXX", path[64];
    struct dlr_spank_conf conf;
    FILE *f;
    int rc;

    assert_non_null(mkdtemp(dir));
    dlr_format(path, sizeof(path), "%s/dlrover-slurm", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", script);
    assert_int_equal(fchmod(fileno(f), 0755), 0);
    fclose(f);
    dlr_options_init(&conf);
    conf.job.enable = true;
    conf.job.spares = 1;
    dlr_format(conf.libexec, sizeof(conf.libexec), "%s", dir);
    rc = dlr_batch_env(&conf, env, ret, err);
    unlink(path);
    rmdir(dir);
    return rc;
}

static void only_known_names_are_taken(void **state)
{
    struct dlr_task_env env;
    struct dlr_err err;

    assert_int_equal(ask("echo SLURM_NNODES=$2; echo LD_PRELOAD=x; echo nonsense; "
                         "echo SLURM_NODELIST=$GIVEN$1$3; echo SLURM_NNODESX=3",
                         &env, &err),
                     0);
    assert_int_equal(env.count, 2);
    assert_string_equal(env.vars[0].name, "SLURM_NNODES");
    assert_string_equal(env.vars[0].value, "1");
    assert_string_equal(env.vars[1].value, "thereshow");
    dlr_task_env_free(&env);
}

/* From 24.05 on slurmctld puts the mode of the script's own output into its
 * environment.
 */
static void the_open_mode_is_the_users(void **state)
{
    static const struct {
        char *kept;
        const char *want;
    } rows[] = {{"SLURM_SPANK_DLROVER_OPEN_MODE=-", NULL},
                {"SLURM_SPANK_DLROVER_OPEN_MODE=t", "t"}};
    struct dlr_spank_conf conf;
    struct dlr_err err;

    dlr_options_init(&conf);
    conf.job.enable = true;
    dlr_format(conf.libexec, sizeof(conf.libexec), "/nowhere");
    for (size_t i = 0; i < 2; i++) {
        char *const vars[] = {"SLURM_OPEN_MODE=a", rows[i].kept, NULL};
        struct dlr_task_env env;

        assert_true(dlr_batch_env(&conf, vars, &env, &err) < 0); /* no dlrover-slurm */
        assert_int_equal(env.count, 2);
        assert_string_equal(env.vars[0].name, "SLURM_OPEN_MODE");
        if (rows[i].want)
            assert_string_equal(env.vars[0].value, rows[i].want);
        else
            assert_null(env.vars[0].value);
        assert_string_equal(env.vars[1].name, "SLURM_SPANK_DLROVER_OPEN_MODE");
        assert_null(env.vars[1].value);
        dlr_task_env_free(&env);
    }
}

static void a_program_that_fails_changes_nothing(void **state)
{
    struct dlr_task_env env;
    struct dlr_err err;

    assert_int_equal(ask("echo SLURM_NNODES=3; exit 1", &env, &err), -ENOEXEC);
    assert_int_equal(env.count, 0);
    assert_int_equal(ask("yes SLURM_NNODES=3", &env, &err), -EFBIG);
    assert_int_equal(env.count, 0);
}

static void a_job_that_is_not_supervised_asks_nobody(void **state)
{
    struct dlr_spank_conf conf;
    struct dlr_task_env env;
    struct dlr_err err;
    char *none[] = {NULL};

    dlr_options_init(&conf);
    dlr_format(conf.libexec, sizeof(conf.libexec), "/nowhere");
    assert_int_equal(dlr_batch_env(&conf, none, &env, &err), 0);
    assert_int_equal(env.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_follow_the_nodes_that_train),
        cmocka_unit_test(counts_that_do_not_fit_are_refused),
        cmocka_unit_test(a_requeued_job_shows_as_many_as_before),
        cmocka_unit_test(the_first_number_is_kept),
        cmocka_unit_test(only_known_names_are_taken),
        cmocka_unit_test(the_open_mode_is_the_users),
        cmocka_unit_test(a_program_that_fails_changes_nothing),
        cmocka_unit_test(a_job_that_is_not_supervised_asks_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
