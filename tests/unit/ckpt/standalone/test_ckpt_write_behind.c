/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open wrap=renameat,fstatvfs,pthread_cond_clockwait */
/* The library without a job, whose files are written behind the program: a disk that is
 * slow or full, a version that is bad, the end of the program.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/ckpt.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "tests/unit/ckpt/standalone/standalone_dir.h"

#define N 400000         /* two blocks */
#define PATIENCE_MS 1000 /* of a fence and of a begin: a copy takes less */

static uint32_t data[N];
static char said[4096];
static atomic_bool full;        /* the disk */
static atomic_bool limits_over; /* each wait with a limit has come to it */

/* What is written stands still before it has its name. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool held;
    unsigned waiting;
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

int __real_renameat(int from, const char *old, int to, const char *name);
int __wrap_renameat(int from, const char *old, int to, const char *name);
int __real_fstatvfs(int fd, struct statvfs *ret);
int __wrap_fstatvfs(int fd, struct statvfs *ret);

int __wrap_renameat(int from, const char *old, int to, const char *name)
{
    pthread_mutex_lock(&disk.lock);
    disk.waiting++;
    pthread_cond_broadcast(&disk.changed);
    while (disk.held && name[0] == 'r' && !strstr(name, ".aside"))
        pthread_cond_wait(&disk.changed, &disk.lock);
    disk.waiting--;
    pthread_mutex_unlock(&disk.lock);
    return __real_renameat(from, old, to, name);
}

int __wrap_fstatvfs(int fd, struct statvfs *ret)
{
    int rc = __real_fstatvfs(fd, ret);

    if (atomic_load(&full))
        ret->f_bavail = 0;
    return rc;
}

static void hold(bool held);

/* Waits for a copy end in less. */
static bool is_long(const struct timespec *until)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return until->tv_sec - now.tv_sec > 60;
}

/* Somebody waits for what is written, with the queue's lock: the disk goes on then. */
static atomic_bool go_on_when_awaited;

int __real_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  clockid_t clock, const struct timespec *until);
int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  clockid_t clock, const struct timespec *until);

int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  clockid_t clock, const struct timespec *until)
{
    if (is_long(until) && atomic_exchange(&go_on_when_awaited, false))
        hold(false);
    return atomic_load(&limits_over)
               ? ETIMEDOUT
               : __real_pthread_cond_clockwait(cond, lock, clock, until);
}

static void hold(bool held)
{
    pthread_mutex_lock(&disk.lock);
    disk.held = held;
    pthread_cond_broadcast(&disk.changed);
    pthread_mutex_unlock(&disk.lock);
}

static void await_writing(void)
{
    pthread_mutex_lock(&disk.lock);
    while (disk.waiting == 0)
        pthread_cond_wait(&disk.changed, &disk.lock);
    pthread_mutex_unlock(&disk.lock);
}

static void hear(void *arg, enum dlr_log_level level, const char *text)
{
    size_t n = strlen(said);

    snprintf(said + n, sizeof(said) - n, "%s\n", text);
}

static int setup(void **state)
{
    said[0] = '\0';
    dlr_log_to(hear, NULL, DLR_LOG_WARN);
    hold(false);
    atomic_store(&full, false);
    return standalone_setup(state);
}

static uint32_t item(unsigned i, int rank, uint64_t step)
{
    return (uint32_t)(i * 2654435761u + step * 97 + (unsigned)rank * 13);
}

static struct dlr_ckpt *open_as(int rank, int world, unsigned fence_ms)
{
    const struct dlr_ckpt_conf conf = {
        .dir = dir, .rank = rank, .world = world, .every = 1, .fence_ms = fence_ms};
    struct dlr_ckpt *ck = NULL;

    if (dlr_ckpt_open(&conf, &ck) < 0 ||
        dlr_ckpt_add_array(ck, "d", DLR_CKPT_LOCAL, "u32", 4, data, N) < 0)
        abort();
    return ck;
}

/* As a training step does: what is fenced is written over. Begin's result. */
static int save(struct dlr_ckpt *ck, int rank, uint64_t step)
{
    int rc;

    for (unsigned i = 0; i < N; i++)
        data[i] = item(i, rank, step);
    rc = dlr_ckpt_begin(ck, step, NULL);
    if (rc == 1)
        assert_int_equal(dlr_ckpt_fence(ck, NULL), 0);
    memset(data, 0, sizeof(data));
    return rc;
}

/* What the fence or, later, the flush says of the file. */
static int save_for_good(struct dlr_ckpt *ck, int rank, uint64_t step)
{
    int rc;

    for (unsigned i = 0; i < N; i++)
        data[i] = item(i, rank, step);
    assert_int_equal(dlr_ckpt_begin(ck, step, NULL), 1);
    rc = dlr_ckpt_fence(ck, NULL);
    return rc < 0 ? rc : dlr_ckpt_flush(ck);
}

static void assert_restores(int world, uint64_t want)
{
    for (int rank = 0; rank < world; rank++) {
        struct dlr_ckpt *ck = open_as(rank, world, 0);
        uint64_t step = 0;

        assert_int_equal(dlr_ckpt_restore(ck, &step), want > 0);
        assert_int_equal(step, want);
        for (unsigned i = 0; want > 0 && i < N; i++)
            if (data[i] != item(i, rank, step))
                fail_msg("item %u is wrong", i);
        dlr_ckpt_close(ck);
    }
}

static bool there(const char *name)
{
    char path[128];

    dlr_format(path, sizeof(path), "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static unsigned times(const char *text, const char *part)
{
    unsigned n = 0;

    for (text = strstr(text, part); text; text = strstr(text + 1, part))
        n++;
    return n;
}

/* --- a disk that is slow ---------------------------------------------------------- */

static void a_fence_does_not_wait_for_the_file(void **state)
{
    struct dlr_ckpt *ck = open_as(0, 1, 0);
    struct dlr_ckpt_stats stats;

    hold(true);
    assert_int_equal(save(ck, 0, 1), 1);
    await_writing();
    assert_int_equal(save(ck, 0, 2), 1); /* while that is being written */
    dlr_ckpt_stats(ck, &stats);
    assert_int_equal(stats.committed_step, 0);
    assert_false(there("r0-1.safetensors"));
    hold(false);
    assert_int_equal(dlr_ckpt_flush(ck), 0);
    dlr_ckpt_stats(ck, &stats);
    assert_int_equal(stats.committed_step, 2);
    dlr_ckpt_close(ck);
    assert_restores(1, 2);
}

static void the_third_save_waits_and_is_given_up_and_one_line_says_so(void **state)
{
    struct dlr_ckpt *ck = open_as(0, 1, PATIENCE_MS);
    struct dlr_ckpt_stats stats;

    hold(true);
    assert_int_equal(save(ck, 0, 1), 1);
    assert_int_equal(save(ck, 0, 2), 1);
    for (uint64_t step = 3; step <= 4; step++) {
        assert_int_equal(save(ck, 0, step), -EBUSY);
        assert_non_null(strstr(dlr_ckpt_error(ck), "were not written within 1000 ms"));
    }
    hold(false);
    assert_int_equal(dlr_ckpt_flush(ck), 0);
    assert_int_equal(times(said, "waits until"), 1);
    assert_int_equal(save(ck, 0, 5), 1);
    dlr_ckpt_stats(ck, &stats);
    assert_int_equal(stats.given_up, 2);
    dlr_ckpt_close(ck);
    assert_restores(1, 5);
}

/* --- a disk that is full ---------------------------------------------------------- */

static void a_full_disk_costs_versions_and_not_the_program(void **state)
{
    struct dlr_ckpt *ck = open_as(0, 1, 0);
    struct dlr_ckpt_stats stats;

    assert_int_equal(save_for_good(ck, 0, 1), 0);
    atomic_store(&full, true);
    for (uint64_t step = 2; step <= 4; step++) { /* no slot stays in use */
        assert_int_equal(save_for_good(ck, 0, step), -ENOSPC);
        assert_non_null(strstr(dlr_ckpt_error(ck), "has room for 0 of"));
    }
    assert_true(there("r0-1.safetensors"));
    atomic_store(&full, false);
    assert_int_equal(save_for_good(ck, 0, 5), 0);
    dlr_ckpt_stats(ck, &stats);
    assert_int_equal(stats.given_up, 3);
    assert_int_equal(stats.committed_step, 5);
    dlr_ckpt_close(ck);
    assert_restores(1, 5);
}

static void a_version_that_one_rank_could_not_write_is_none(void **state)
{
    for (uint64_t last = 2; last <= 3; last++) {
        struct dlr_ckpt *ck[2] = {open_as(0, 2, 0), open_as(1, 2, 0)};

        for (uint64_t step = 1; step <= last; step++)
            for (int rank = 0; rank < 2; rank++) {
                atomic_store(&full, rank == 1 && step == 2);
                assert_int_equal(save_for_good(ck[rank], rank, step),
                                 atomic_load(&full) ? -ENOSPC : 0);
            }
        dlr_ckpt_close(ck[0]);
        dlr_ckpt_close(ck[1]);
        assert_restores(2, last == 2 ? 1 : 3);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(setup(NULL), 0);
    }
}

/* --- a version that is bad -------------------------------------------------------- */

static void what_is_marked_bad_while_it_is_written_is_not_restored(void **state)
{
    for (uint64_t bad = 2; bad <= 3; bad++) {
        struct dlr_ckpt *ck = open_as(0, 1, 0);

        assert_int_equal(save_for_good(ck, 0, 1), 0);
        hold(true);
        assert_int_equal(save(ck, 0, 2), 1);
        await_writing();
        assert_int_equal(save(ck, 0, 3), 1); /* is put, and not begun */
        atomic_store(&go_on_when_awaited, true);
        assert_int_equal(dlr_ckpt_mark_bad(ck, bad), 0);
        assert_int_equal(atomic_load(&go_on_when_awaited), bad == 3); /* close waits */
        dlr_ckpt_close(ck);
        assert_int_equal(there("r0-2.safetensors"), bad == 3);
        assert_false(there("r0-3.safetensors"));
        assert_restores(1, bad - 1);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(setup(NULL), 0);
    }
}

/* --- the end of the program ------------------------------------------------------- */

static void by_exit(void)
{
    exit(3);
}

static void by_exit_beside_a_child(void)
{
    pid_t pid = fork(); /* has no such thread, and must not wait for one */

    if (pid == 0)
        exit(0);
    waitpid(pid, NULL, 0);
    exit(3);
}

static void by_close(void)
{
    _exit(3);
}

static void by_sigterm(void)
{
    signal(SIGTERM, SIG_DFL);
    raise(SIGTERM);
}

static const struct end {
    const char *name;
    void (*end)(void);
    bool closes;
    uint64_t restored;
} ends[] = {
    {"exit", by_exit, false, 3},
    {"exit beside a child", by_exit_beside_a_child, false, 3},
    {"close, then _exit", by_close, true, 3},
    {"_exit", by_close, false, 1},
    {"SIGTERM", by_sigterm, false, 1},
};

/* Saves 1, which is durable, then 2 and 3, which stand still until the program is about
 * to end.
 */
static void live(const struct end *e)
{
    struct dlr_ckpt *ck = open_as(0, 1, 0);

    if (save(ck, 0, 1) != 1 || dlr_ckpt_flush(ck) < 0)
        _exit(90);
    hold(true);
    if (save(ck, 0, 2) != 1)
        _exit(91);
    await_writing();
    if (save(ck, 0, 3) != 1)
        _exit(92);
    atomic_store(&go_on_when_awaited, e->restored == 3);
    if (e->closes)
        dlr_ckpt_close(ck);
    e->end();
}

static void
what_was_saved_is_there_after_an_exit_and_the_older_after_a_kill(void **state)
{
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        pid_t pid = fork();
        int status;

        if (pid == 0)
            live(&ends[i]);
        print_message("row '%s'\n", ends[i].name);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) ? WEXITSTATUS(status) == 3
                                      : WTERMSIG(status) == SIGTERM);
        assert_restores(1, ends[i].restored);
        assert_int_equal(standalone_teardown(NULL), 0);
        assert_int_equal(setup(NULL), 0);
    }
}

static void hear_in_pipe(void *arg, enum dlr_log_level level, const char *text)
{
    if (write(*(int *)arg, text, strlen(text)) < 0)
        abort();
}

static void what_close_has_waited_for_the_end_does_not_wait_for_again(void **state)
{
    int pipe_ends[2], status;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe(pipe_ends), 0);
    pid = fork();
    if (pid == 0) {
        struct dlr_ckpt *ck = open_as(0, 1, 0);

        dlr_log_to(hear_in_pipe, &pipe_ends[1], DLR_LOG_WARN);
        hold(true);
        if (save(ck, 0, 1) != 1)
            _exit(90);
        await_writing();
        atomic_store(&limits_over, true);
        dlr_ckpt_close(ck);
        exit(3);
    }
    close(pipe_ends[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 3);
    n = read(pipe_ends[0], said, sizeof(said) - 1);
    close(pipe_ends[0]);
    assert_true(n > 0);
    said[n] = '\0';
    print_message("%s\n", said);
    assert_non_null(strstr(said, "what was saved was not written to"));
    assert_null(strstr(said, "the program ends"));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, standalone_teardown)
    const struct CMUnitTest tests[] = {
        T(a_fence_does_not_wait_for_the_file),
        T(the_third_save_waits_and_is_given_up_and_one_line_says_so),
        T(a_full_disk_costs_versions_and_not_the_program),
        T(a_version_that_one_rank_could_not_write_is_none),
        T(what_is_marked_bad_while_it_is_written_is_not_restored),
        T(what_close_has_waited_for_the_end_does_not_wait_for_again),
        T(what_was_saved_is_there_after_an_exit_and_the_older_after_a_kill),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
