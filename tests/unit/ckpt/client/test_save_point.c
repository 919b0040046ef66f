/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open */
/* Save points of the program's own: what is asked for, and how it is waited for. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/base/page_commit.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "tests/support/played_agent.h"
#include "tests/unit/ckpt/standalone/standalone_dir.h"

#define SOON_MS 100 /* after which the played agent does something */
#define LONG_MS 30000
#define WAKES 20
#define AT_ONCE_MS 5000 /* far below that, on a busy machine too */

/* --- under a job ------------------------------------------------------------------ */

static void what_is_asked_for_is_the_step_after_the_last(void **state)
{
    struct played *f = *state;
    _Atomic uint64_t *wanted = &f->agent.page->wanted;

    played_join(f);
    assert_int_equal(atomic_load(wanted), 0);
    assert_int_equal(dlr_ckpt_save_now(f->ck), 0);
    assert_int_equal(atomic_load(wanted), 1);
    assert_int_equal(dlr_ckpt_begin(f->ck, 5, NULL), 0);
    assert_int_equal(atomic_load(wanted), 1);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(dlr_ckpt_save_now(f->ck), 0);
    assert_int_equal(atomic_load(wanted), 6);
    assert_int_equal(dlr_ckpt_progress(f->ck, 7), 0);
    assert_int_equal(dlr_ckpt_save_now(f->ck), 0);
    assert_int_equal(atomic_load(wanted), 8);
    atomic_store(wanted, 9); /* another thread was faster */
    assert_int_equal(dlr_ckpt_save_now(f->ck), 0);
    assert_int_equal(atomic_load(wanted), 9);
    dlr_ckpt_close(f->ck);
}

/* What the played agent does while the program waits. */
struct later {
    struct played *f;
    enum { COMMITS, GIVES_UP, HANGS_UP } what;
    unsigned after_ms;
    uint64_t step;
    pthread_t thread;
};

static void *act(void *arg)
{
    struct later *l = arg;

    usleep(l->after_ms * 1000);
    if (l->what == COMMITS)
        dlr_page_commit(l->f->agent.page, l->step);
    else if (l->what == GIVES_UP)
        atomic_store(dlr_page_order(l->f->agent.page, l->step), DLR_PAGE_NEVER);
    else
        shutdown(l->f->agent.conn, SHUT_RDWR);
    return NULL;
}

static uint64_t join_and_save(struct played *f)
{
    uint64_t step;

    played_join(f);
    assert_int_equal(dlr_ckpt_begin(f->ck, 1, NULL), 0);
    played_slots(f);
    step = played_save_from(f, 2, 0);
    played_expect(f, DLR_LOCAL_SEALED);
    return step;
}

static void a_wait_ends_with_what_becomes_of_the_version(void **state)
{
    static const struct {
        const char *name;
        int what, rc;
        const char *error;
    } rows[] = {
        {"committed", COMMITS, 1, NULL},
        {"given up", GIVES_UP, -ENODATA, " or a later one is being saved"},
        {"the agent goes", HANGS_UP, -ECONNRESET,
         "nothing is committed any more: the agent of this node is gone"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct later l = {.what = rows[i].what, .after_ms = SOON_MS};
        int64_t began, cpu;

        print_message("row '%s'\n", rows[i].name);
        if (i > 0) {
            played_teardown(state);
            played_setup(state);
        }
        l.f = *state;
        l.step = join_and_save(l.f);
        pthread_create(&l.thread, NULL, act, &l);
        began = dlr_now_ms();
        cpu = dlr_thread_ns();
        assert_int_equal(dlr_ckpt_wait(l.f->ck, l.step, LONG_MS), rows[i].rc);
        assert_in_range(dlr_now_ms() - began, SOON_MS / 2, AT_ONCE_MS);
        assert_true(dlr_thread_ns() - cpu < SOON_MS * 1000000 / 2);
        if (rows[i].error)
            assert_non_null(strstr(dlr_ckpt_error(l.f->ck), rows[i].error));
        pthread_join(l.thread, NULL);
        dlr_ckpt_close(l.f->ck);
    }
}

/* Not the look that is due each half second. */
static void a_commit_wakes_who_waits(void **state)
{
    struct played *f = *state;
    struct later l = {.f = f, .what = COMMITS, .after_ms = 10};
    int64_t began = dlr_now_ms();

    played_join(f);
    for (l.step = 1; l.step <= WAKES; l.step++) {
        assert_int_equal(dlr_ckpt_progress(f->ck, l.step), 0);
        atomic_store(dlr_page_order(f->agent.page, l.step), l.step);
        pthread_create(&l.thread, NULL, act, &l);
        assert_int_equal(dlr_ckpt_wait(f->ck, l.step, LONG_MS), 1);
        pthread_join(l.thread, NULL);
    }
    assert_true(dlr_now_ms() - began < WAKES * 250);
    dlr_ckpt_close(f->ck);
}

static void a_wait_has_a_limit(void **state)
{
    struct played *f = *state;
    uint64_t step = join_and_save(f);
    int64_t began = dlr_now_ms(), cpu = dlr_thread_ns();

    assert_int_equal(dlr_ckpt_wait(f->ck, step, 0), 0);
    assert_int_equal(dlr_ckpt_wait(f->ck, step, 700), 0);
    assert_in_range(dlr_now_ms() - began, 700, AT_ONCE_MS);
    assert_true(dlr_thread_ns() - cpu < 100 * INT64_C(1000000));
    dlr_page_commit(f->agent.page, step);
    assert_int_equal(dlr_ckpt_wait(f->ck, step, 0), 1);
    assert_int_equal(dlr_ckpt_wait(f->ck, step - 1, 0), 1);
    dlr_ckpt_close(f->ck);
}

/* Who waits begins no step, so that none can come. */
static void nobody_waits_for_what_cannot_come(void **state)
{
    struct played *f = *state;
    uint64_t step = join_and_save(f);
    int64_t began = dlr_now_ms();

    played_order(f, step + 2, 1);
    assert_int_equal(dlr_ckpt_wait(f->ck, step + 1, LONG_MS), -ENODATA);
    assert_int_equal(dlr_ckpt_begin(f->ck, step + 1, NULL), 0);
    assert_int_equal(dlr_ckpt_wait(f->ck, step + 1, LONG_MS), -ENODATA);
    assert_int_equal(dlr_ckpt_wait(f->ck, UINT64_MAX, LONG_MS), -ENODATA);
    assert_true(dlr_now_ms() - began < AT_ONCE_MS);
    assert_int_equal(dlr_ckpt_wait(f->ck, step, 0), 0);
    dlr_ckpt_close(f->ck);
}

static void what_was_restored_is_safe(void **state)
{
    struct played *f = *state;
    uint64_t step = 0;

    played_former_life(f, 40, 0);
    played_offer(f, 40, 0);
    played_join(f);
    assert_int_equal(dlr_ckpt_wait(f->ck, 40, LONG_MS), -ENODATA);
    assert_int_equal(dlr_ckpt_restore(f->ck, &step), 1);
    pthread_join(f->agent.thread, NULL);
    assert_int_equal(dlr_ckpt_wait(f->ck, 40, LONG_MS), 1);
    assert_int_equal(dlr_ckpt_wait(f->ck, 41, LONG_MS), -ENODATA);
    dlr_ckpt_close(f->ck);
}

/* --- alone ------------------------------------------------------------------------ */

static uint64_t data;

static struct dlr_ckpt *open_rare(void)
{
    const struct dlr_ckpt_conf conf = {.dir = dir, .world = 1, .every = 100};
    struct dlr_ckpt *ck;

    assert_int_equal(dlr_ckpt_open(&conf, &ck), 0);
    dlr_ckpt_add_array(ck, "data", DLR_CKPT_SHARD, "u64", 8, &data, 1);
    return ck;
}

static void alone_the_next_begin_is_due(void **state)
{
    struct dlr_ckpt *ck = open_rare();
    uint64_t step, restored;

    dlr_ckpt_save_now(ck); /* before the first begin */
    for (step = 1; step <= 20; step++) {
        bool asked = step == 1 || step == 11;

        if (step == 11)
            for (unsigned i = 0; i < 3; i++)
                assert_int_equal(dlr_ckpt_save_now(ck), 0);
        data = step;
        assert_int_equal(dlr_ckpt_due(ck, step), asked || step == 1);
        assert_int_equal(dlr_ckpt_begin(ck, step, NULL), asked);
        assert_int_equal(dlr_ckpt_wait(ck, step, LONG_MS), asked ? 1 : -ENODATA);
    }
    assert_int_equal(dlr_ckpt_wait(ck, 11, 0), 1);
    dlr_ckpt_close(ck);
    ck = open_rare();
    assert_int_equal(dlr_ckpt_restore(ck, &restored), 1);
    assert_int_equal(restored, 11);
    assert_int_equal(data, 11);
    dlr_ckpt_close(ck);
}

/* The directory is gone: it is said, and not waited for. */
static void alone_a_wait_returns_the_failure_of_a_file(void **state)
{
    struct dlr_ckpt *ck = open_rare();
    char command[128];
    int rc;

    assert_int_equal(dlr_ckpt_begin(ck, 1, NULL), 0);
    dlr_format(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
    dlr_ckpt_save_now(ck);
    assert_int_equal(dlr_ckpt_begin(ck, 2, NULL), 1);
    rc = dlr_ckpt_wait(ck, 2, LONG_MS);
    print_message("           %s\n", dlr_ckpt_error(ck));
    assert_true(rc < 0 && rc != -ENODATA);
    assert_int_equal(dlr_ckpt_wait(ck, 2, LONG_MS), -ENODATA); /* told once */
    dlr_ckpt_close(ck);
    assert_int_equal(mkdir(dir, 0700), 0);
}

static void a_forked_child_asks_for_nothing(void **state)
{
    struct dlr_ckpt *ck = open_rare();
    int status;
    pid_t pid;

    assert_int_equal(dlr_ckpt_begin(ck, 1, NULL), 0);
    pid = fork();
    if (pid == 0)
        _exit((dlr_ckpt_save_now(ck) != 0) + (dlr_ckpt_wait(ck, 1, LONG_MS) != -EBUSY) +
              (dlr_ckpt_begin(ck, 2, NULL) != 0));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    dlr_ckpt_close(ck);
}

int main(void)
{
#define JOB(f) cmocka_unit_test_setup_teardown(f, played_setup, played_teardown)
#define ALONE(f)                                                                       \
    cmocka_unit_test_setup_teardown(f, standalone_setup, standalone_teardown)
    const struct CMUnitTest tests[] = {
        JOB(what_is_asked_for_is_the_step_after_the_last),
        JOB(a_wait_ends_with_what_becomes_of_the_version),
        JOB(a_commit_wakes_who_waits),
        JOB(a_wait_has_a_limit),
        JOB(nobody_waits_for_what_cannot_come),
        JOB(what_was_restored_is_safe),
        ALONE(alone_the_next_begin_is_due),
        ALONE(alone_a_wait_returns_the_failure_of_a_file),
        ALONE(a_forked_child_asks_for_nothing),
    };

    return cmocka_run_group_tests_name("save points", tests, NULL, NULL);
}
