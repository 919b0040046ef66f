/* SPDX-License-Identifier: Apache-2.0 */
/* Work beside the loop, with a pipe that nobody reads from as the file server that hangs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "mpi_launcher/aside.h"

#define LONG_MS 60000

struct read_job {
    int fd, *forgotten;
    char byte;
};

static int read_byte(void *arg)
{
    struct read_job *job = arg;

    return read(job->fd, &job->byte, 1) == 1 ? job->byte : -EIO;
}

static void forget(void *arg)
{
    struct read_job *job = arg;

    ++*job->forgotten;
    free(job);
}

static struct read_job *job_of(int fd, int *forgotten)
{
    struct read_job *job = calloc(1, sizeof(*job));

    job->fd = fd;
    job->forgotten = forgotten;
    return job;
}

static void result_of_quick_work_comes_at_once(void **state)
{
    struct dlr_aside_lane lane = {0};
    int pipes[2], forgotten = 0;
    struct read_job *job;

    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(write(pipes[1], "a", 1), 1);
    job = job_of(pipes[0], &forgotten);
    assert_int_equal(dlr_aside_call(&lane, read_byte, job, forget, LONG_MS), 'a');
    assert_int_equal(job->byte, 'a'); /* it is ours again */
    assert_int_equal(forgotten, 0);
    free(job);
    close(pipes[0]);
    close(pipes[1]);
}

static void work_that_hangs_is_left_and_those_after_it_do_not_wait(void **state)
{
    struct dlr_aside_lane lane = {0};
    int stuck[2], free_one[2], forgotten = 0;
    struct read_job *job;
    struct pollfd done = {.events = POLLIN};

    assert_int_equal(pipe(stuck), 0);
    assert_int_equal(pipe(free_one), 0);
    assert_int_equal(write(free_one[1], "bc", 2), 2);
    assert_int_equal(
        dlr_aside_call(&lane, read_byte, job_of(stuck[0], &forgotten), forget, 20),
        -ETIMEDOUT);
    assert_int_equal(dlr_aside_call(&lane, read_byte, job_of(free_one[0], &forgotten),
                                    forget, LONG_MS),
                     -EBUSY);
    assert_int_equal(forgotten, 1); /* the second; the first is still the thread's */
    assert_int_equal(write(stuck[1], "a", 1), 1);
    done.fd = dlr_aside_fd(lane.late);
    assert_int_equal(poll(&done, 1, LONG_MS), 1);
    job = job_of(free_one[0], &forgotten);
    assert_int_equal(dlr_aside_call(&lane, read_byte, job, forget, LONG_MS), 'b');
    assert_int_equal(forgotten, 2);
    free(job);
    for (int i = 0; i < 2; i++) {
        close(stuck[i]);
        close(free_one[i]);
    }
}

static void who_does_not_wait_is_told(void **state)
{
    struct pollfd done = {.events = POLLIN};
    int pipes[2], forgotten = 0, rc = 0;
    struct dlr_aside *a = NULL;
    struct read_job *job;

    assert_int_equal(pipe(pipes), 0);
    job = job_of(pipes[0], &forgotten);
    assert_int_equal(dlr_aside_start(read_byte, job, &a), 0);
    assert_int_equal(dlr_aside_end(a, &rc), -EAGAIN);
    assert_int_equal(write(pipes[1], "x", 1), 1);
    done.fd = dlr_aside_fd(a);
    assert_int_equal(poll(&done, 1, LONG_MS), 1);
    assert_int_equal(dlr_aside_end(a, &rc), 0);
    assert_int_equal(rc, 'x');
    free(job);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(result_of_quick_work_comes_at_once),
        cmocka_unit_test(work_that_hangs_is_left_and_those_after_it_do_not_wait),
        cmocka_unit_test(who_does_not_wait_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
