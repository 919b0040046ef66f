/* SPDX-License-Identifier: Apache-2.0 */
/* What a supervisor finds on the disk when it begins, and a file system that does not
 * answer: a pipe with a name that nobody opens for writing. Who reads is a process
 * forked by another one, so what is there is settled before that is started.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/manifest/manifest.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/disk/disk_state.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"

#define LONG_MS 30000
#define SHORT_MS 20

static struct dlr_sup_io *io;
static struct dlr_sup_disk *s;
static struct dlr_job_config conf;
static struct dlr_runinfo info;
static bool ended_before, took_over;
static uint32_t resume_round;
static char said[512];
static char
    gate[64]; /* the first directory that is read waits for its other end; "" not */
static const char *const own = "/state/job-7/lm/persist", *const other =
                                                              "/state/job-5/lm/persist";
static const char *there; /* the directory that has a version */
static bool started;      /* the process that others are forked by */

int dlr_persist_load(const char *dir, struct dlr_plan_file **ret_files, unsigned *ret_n,
                     struct dlr_err *err)
{
    if (gate[0])
        close(open(gate, O_RDONLY));
    gate[0] = '\0';
    err->text[0] = '\0';
    if (!dlr_streq(dir, there))
        return dlr_fail(err, -ENOENT, "nothing in '%s'", dir);
    *ret_files = calloc(1, sizeof(**ret_files));
    (*ret_files)->copy.version = (struct dlr_version){6, 40};
    *ret_n = 1;
    return 0;
}

void dlr_user_line(struct dlr_sup_io *none, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(said, sizeof(said), fmt, ap);
    va_end(ap);
}

static unsigned replans, holds;

static void on_known(void *arg)
{
    replans++;
}

static void on_awaited(void *arg, int64_t limit_ms)
{
    holds++;
}

static const struct dlr_sup_disk_ops ops = {.known = on_known, .awaited = on_awaited};

void dlr_sup_periodic_tick(struct dlr_sup_disk *disk)
{
}

void dlr_sup_periodic_free(struct dlr_sup_disk *disk)
{
}

const struct dlr_members *dlr_sup_members(const struct dlr_sup_nodes *nodes)
{
    return NULL;
}

int64_t dlr_sup_now(void)
{
    return dlr_now_ms();
}

static int setup(void **state)
{
    replans = holds = 0;
    memset(&conf, 0, sizeof(conf));
    memset(&info, 0, sizeof(info));
    dlr_format(info.job_dir, sizeof(info.job_dir), "/state/job-7");
    dlr_format(info.dir, sizeof(info.dir), "/state/job-7/lm");
    dlr_format(info.name, sizeof(info.name), "lm");
    ended_before = took_over = false;
    resume_round = 3;
    io = dlr_sup_io_new(NULL, NULL);
    s = dlr_sup_disk_new(&(struct dlr_sup_disk_env){.io = io,
                                                    .conf = &conf,
                                                    .info = &info,
                                                    .ended_before = &ended_before,
                                                    .took_over = &took_over},
                         &ops, NULL);
    assert_non_null(s);
    said[0] = '\0';
    there = "";
    return 0;
}

static int teardown(void **state)
{
    s = dlr_sup_disk_free(s);
    io = dlr_sup_io_free(io);
    started = false;
    if (gate[0])
        unlink(gate);
    gate[0] = '\0';
    return 0;
}

static void hang(void)
{
    dlr_format(gate, sizeof(gate), "/tmp/dlr-test-disk-%d", (int)getpid());
    assert_int_equal(mkfifo(gate, 0600), 0);
}

static void answer(void)
{
    close(open(gate, O_WRONLY));
}

/* What is there is as it will be. */
static int load(int64_t limit_ms, struct dlr_err *err)
{
    if (!started)
        assert_int_equal(dlr_sup_fork_server_start(io, err), 0);
    started = true;
    return dlr_sup_disk_load(s, limit_ms, &resume_round, err);
}

/* Another process, which has another directory. */
static void restart(void)
{
    io = dlr_sup_io_free(io);
    s->env.io = io = dlr_sup_io_new(NULL, NULL);
    started = false;
}

static void await_disk(void)
{
    for (int64_t end = dlr_now_ms() + LONG_MS; s->look && dlr_now_ms() < end;
         poll(NULL, 0, 1))
        dlr_sup_inventory_tick(s);
    assert_null(s->look);
}

static void from_job_5(void)
{
    dlr_format(conf.restore_from, sizeof(conf.restore_from), "5");
}

static void its_own_versions_come_first(void **state)
{
    struct dlr_err err;

    from_job_5();
    there = own;
    assert_int_equal(load(LONG_MS, &err), 0);
    assert_int_equal(s->nfiles, 1);
    assert_int_equal(resume_round, 3);
    assert_null(s->look);
}

static void rounds_are_numbered_after_those_of_another_jobs_version(void **state)
{
    struct dlr_err err;

    from_job_5();
    there = other;
    assert_int_equal(load(LONG_MS, &err), 0);
    assert_int_equal(s->nfiles, 1);
    assert_int_equal(resume_round, 7);
}

static void nothing_of_its_own_is_no_error_nothing_of_the_other_is(void **state)
{
    struct dlr_err err;

    assert_int_equal(load(LONG_MS, &err), 0);
    assert_int_equal(s->nfiles, 0);
    assert_string_equal(said, "");
    from_job_5();
    assert_int_equal(load(LONG_MS, &err), -ENOENT);
    assert_string_equal(err.text,
                        "cannot restore from '5': nothing in '/state/job-5/lm/persist' "
                        "(--dlrover-restore-from takes a job that ran under the same "
                        "--dlrover-name, or a directory)");
    took_over = true; /* its run goes on */
    assert_int_equal(load(LONG_MS, &err), 0);
}

static void a_first_supervisor_does_not_begin_anew_beside_a_dead_disk(void **state)
{
    struct dlr_err err;

    from_job_5();
    hang();
    assert_int_equal(load(SHORT_MS, &err), -ETIMEDOUT);
    assert_non_null(strstr(err.text, "'/state/job-7/lm/persist' or "
                                     "'/state/job-5/lm/persist'"));
    answer();
    await_disk();
}

static void one_that_takes_over_goes_on_and_is_given_them_later(void **state)
{
    struct dlr_err err;

    took_over = true;
    there = own;
    hang();
    assert_int_equal(load(SHORT_MS, &err), 0);
    assert_non_null(strstr(said, "does not answer: going on"));
    dlr_sup_inventory_tick(s);
    assert_int_equal(s->nfiles, 0);
    answer();
    await_disk();
    assert_int_equal(s->nfiles, 1);
}

/* Node and partner have died while nobody had read the disk yet. */
static void a_plan_that_begins_anew_waits_for_the_disk(void **state)
{
    struct dlr_plan plan = {.world = 4};
    struct dlr_err err;

    took_over = true;
    there = own;
    hang();
    assert_int_equal(load(SHORT_MS, &err), 0);
    s->plan_without_storage = true; /* it was asked for so */
    plan.restore = true;
    assert_false(dlr_sup_disk_wants(s, &plan));
    plan.restore = false;
    assert_true(dlr_sup_disk_wants(s, &plan));
    dlr_sup_inventory_tick(s);
    assert_int_equal(holds, 1);
    assert_int_equal(replans, 0);
    answer();
    await_disk();
    assert_int_equal(replans, 1);
    s->plan_without_storage = false;
    assert_false(dlr_sup_disk_wants(s, &plan)); /* this one knew it */
}

static void a_plan_made_while_the_disk_was_read_is_made_again(void **state)
{
    struct dlr_plan plan = {.world = 4};
    struct dlr_err err;

    took_over = true;
    s->plan_without_storage = true;
    assert_int_equal(load(LONG_MS, &err), 0);
    assert_false(dlr_sup_disk_wants(s, &plan)); /* nothing is there */
    there = own;
    restart();
    assert_int_equal(load(LONG_MS, &err), 0);
    assert_true(dlr_sup_disk_wants(s, &plan));
    assert_int_equal(holds, 0);
    assert_int_equal(replans, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(its_own_versions_come_first),
        T(rounds_are_numbered_after_those_of_another_jobs_version),
        T(nothing_of_its_own_is_no_error_nothing_of_the_other_is),
        T(a_first_supervisor_does_not_begin_anew_beside_a_dead_disk),
        T(one_that_takes_over_goes_on_and_is_given_them_later),
        T(a_plan_that_begins_anew_waits_for_the_disk),
        T(a_plan_made_while_the_disk_was_read_is_made_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
