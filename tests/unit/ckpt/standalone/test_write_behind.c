/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots written behind a program: their order, the wait for a slot, failures, and
 * the end of the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot/meta.h"
#include "ckpt/slot/slot.h"
#include "ckpt/standalone/write_behind.h"

#define BYTES (1u << 20)
#define LONG_MS 60000

/* A writer that stands still until the test lets it. */
static struct disk {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool held;
    unsigned writing, n;
    uint64_t steps[16];
    int rc;
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int write_it(void *arg, struct dlr_slot *slot, uint64_t step,
                    struct dlr_err *err)
{
    int rc;

    pthread_mutex_lock(&disk.lock);
    disk.writing++;
    pthread_cond_broadcast(&disk.changed);
    while (disk.held)
        pthread_cond_wait(&disk.changed, &disk.lock);
    disk.steps[disk.n++ % 16] = step;
    rc = disk.rc;
    pthread_mutex_unlock(&disk.lock);
    return rc < 0 ? dlr_fail(err, rc, "step %d failed", (int)step) : 0;
}

static const struct dlr_write_behind_ops ops = {write_it, NULL};

static void hold(bool held)
{
    pthread_mutex_lock(&disk.lock);
    disk.held = held;
    pthread_cond_broadcast(&disk.changed);
    pthread_mutex_unlock(&disk.lock);
}

static void await_writing(unsigned n)
{
    pthread_mutex_lock(&disk.lock);
    while (disk.writing < n)
        pthread_cond_wait(&disk.changed, &disk.lock);
    pthread_mutex_unlock(&disk.lock);
}

static struct dlr_write_behind *make(bool held)
{
    struct dlr_write_behind *b;
    struct dlr_err err;

    disk.writing = disk.n = 0;
    disk.rc = 0;
    hold(held);
    assert_int_equal(dlr_write_behind_new(BYTES, &ops, NULL, &b, &err), 0);
    return b;
}

static void put(struct dlr_write_behind *b, uint64_t step)
{
    struct dlr_slot **slot;

    assert_int_equal(dlr_write_behind_take(b, LONG_MS, &slot), 0);
    dlr_write_behind_put(b, slot, step);
}

static void what_is_put_is_written_in_the_order_of_its_steps(void **state)
{
    struct dlr_write_behind *b = make(false);

    for (uint64_t step = 1; step <= 9; step++)
        put(b, step);
    assert_int_equal(dlr_write_behind_wait(b, LONG_MS), 0);
    assert_int_equal(disk.n, 9);
    for (unsigned i = 0; i < 9; i++)
        assert_int_equal(disk.steps[i], i + 1);
    assert_false(dlr_write_behind_busy(b));
    dlr_write_behind_free(b);
}

static void the_third_waits_until_one_of_two_is_written(void **state)
{
    struct dlr_write_behind *b = make(true);
    struct dlr_slot **slot;

    put(b, 1);
    await_writing(1);
    put(b, 2); /* the program goes on while a file is written */
    assert_int_equal(dlr_write_behind_take(b, 0, &slot), -ETIMEDOUT);
    assert_int_equal(dlr_write_behind_wait(b, 0), -ETIMEDOUT);
    assert_true(dlr_write_behind_busy(b));
    hold(false);
    assert_int_equal(dlr_write_behind_take(b, LONG_MS, &slot), 0);
    dlr_write_behind_drop(b, slot);
    assert_int_equal(dlr_write_behind_wait(b, LONG_MS), 0);
    assert_int_equal(disk.n, 2);
    dlr_write_behind_free(b);
}

static void a_slot_that_came_to_nothing_is_free_again(void **state)
{
    struct dlr_write_behind *b = make(false);
    struct dlr_slot **slot;

    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(dlr_write_behind_take(b, 0, &slot), 0);
        dlr_write_behind_drop(b, slot);
    }
    assert_int_equal(disk.n, 0);
    dlr_write_behind_free(b);
}

static void the_first_failure_is_told_once(void **state)
{
    struct dlr_write_behind *b = make(false);
    struct dlr_err err = {0};

    disk.rc = -ENOSPC;
    put(b, 1);
    put(b, 2);
    assert_int_equal(dlr_write_behind_wait(b, LONG_MS), 0);
    disk.rc = 0;
    put(b, 3);
    assert_int_equal(dlr_write_behind_wait(b, LONG_MS), 0);
    assert_int_equal(dlr_write_behind_failure(b, &err), -ENOSPC);
    assert_string_equal(err.text, "step 1 failed");
    assert_int_equal(dlr_write_behind_failure(b, &err), 0);
    dlr_write_behind_free(b);
}

static void what_is_struck_is_not_written(void **state)
{
    struct dlr_write_behind *b = make(true);

    put(b, 1);
    await_writing(1);
    put(b, 2);
    assert_false(dlr_write_behind_reject(b, 2));
    assert_true(dlr_write_behind_reject(b, 1)); /* too late: it is being written */
    hold(false);
    assert_int_equal(dlr_write_behind_wait(b, LONG_MS), 0);
    assert_int_equal(disk.n, 1);
    assert_int_equal(disk.steps[0], 1);
    dlr_write_behind_free(b);
}

/* Its first touch may be under way in the thread. */
static void a_slot_is_replaced_by_a_longer_one(void **state)
{
    struct dlr_write_behind *b = make(false);
    struct dlr_slot **slot, *longer;
    struct dlr_err err;

    assert_int_equal(dlr_write_behind_take(b, LONG_MS, &slot), 0);
    assert_int_equal(dlr_slot_anonymous(2 * BYTES, &longer, &err), 0);
    dlr_write_behind_settle(b, slot);
    dlr_slot_unmap(*slot);
    *slot = longer;
    dlr_write_behind_put(b, slot, 1);
    assert_int_equal(dlr_write_behind_wait(b, LONG_MS), 0);
    assert_int_equal(disk.n, 1);
    dlr_write_behind_free(b);
}

static void a_forked_child_has_none_of_the_memory(void **state)
{
    struct dlr_write_behind *b = make(false);
    struct dlr_slot **slot;
    int status;
    pid_t pid;

    assert_int_equal(dlr_write_behind_take(b, LONG_MS, &slot), 0);
    pid = fork();
    if (pid == 0) {
        unsigned char in_core;

        _exit(mincore((void *)dlr_slot_base(*slot), 4096, &in_core) == 0 ? 1
              : errno == ENOMEM                                          ? 0
                                                                         : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    dlr_write_behind_drop(b, slot);
    dlr_write_behind_free(b);
}

/* --- the end of the process ------------------------------------------------------- */

static atomic_uint *written;

static int write_late(void *arg, struct dlr_slot *slot, uint64_t step,
                      struct dlr_err *err)
{
    sem_wait(arg); /* until exit() has come far */
    sem_post(arg);
    atomic_fetch_add(written, 1);
    return 0;
}

static const struct dlr_write_behind_ops late_ops = {write_late, NULL};
static sem_t exiting;

static void tell_exit(void)
{
    sem_post(&exiting);
}

/* A child that ends so, and how many of its two snapshots were written. */
static unsigned end_by(void (*end)(int), int how)
{
    struct dlr_write_behind *b;
    struct dlr_err err;
    int status;
    pid_t pid;

    atomic_store(written, 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        sem_init(&exiting, 0, 0);
        atexit(tell_exit);
        if (dlr_write_behind_new(BYTES, &late_ops, &exiting, &b, &err) < 0)
            _exit(99);
        put(b, 1);
        put(b, 2);
        if (how < 0 && fork() == 0)
            exit(0); /* has no such thread and waits for nothing */
        end(how < 0 ? 0 : how);
        _exit(98);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return atomic_load(written);
}

static void by_signal(int sig)
{
    signal(sig, SIG_DFL);
    raise(sig);
}

static void an_exit_waits_and_a_signal_or_os_exit_does_not(void **state)
{
    written = mmap(NULL, sizeof(*written), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(written != MAP_FAILED);
    assert_int_equal(end_by(exit, 0), 2);
    assert_int_equal(end_by(exit, -1), 2); /* and a child of it beside */
    assert_int_equal(end_by(_exit, 0), 0);
    assert_int_equal(end_by(by_signal, SIGTERM), 0);
    munmap(written, sizeof(*written));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_written_in_the_order_of_its_steps),
        cmocka_unit_test(the_third_waits_until_one_of_two_is_written),
        cmocka_unit_test(a_slot_that_came_to_nothing_is_free_again),
        cmocka_unit_test(the_first_failure_is_told_once),
        cmocka_unit_test(what_is_struck_is_not_written),
        cmocka_unit_test(a_slot_is_replaced_by_a_longer_one),
        cmocka_unit_test(a_forked_child_has_none_of_the_memory),
        cmocka_unit_test(an_exit_waits_and_a_signal_or_os_exit_does_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
