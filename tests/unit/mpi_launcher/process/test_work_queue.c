/* SPDX-License-Identifier: Apache-2.0 */
/* Work beside the loop, with a pipe that nobody writes to, or reads, as the file server
 * that hangs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/process/work_queue.h"

#define NAME "dlrover-test"
#define LONG_MS 60000
#define OPEN 5 /* in a process apart: three standard ones, the socket and the memory */

struct job {
    pid_t pid; /* who did it */
    char byte;
};

static struct dlr_fork_server *fork_server;

static int read_byte(void *arg, int *fd)
{
    struct job *job = arg;

    job->pid = getpid();
    return read(*fd, &job->byte, 1) == 1 ? job->byte : -EIO;
}

static int give_pipe(void *arg, int *fd)
{
    int pipes[2];

    if (pipe(pipes) < 0 || write(pipes[1], "z", 1) != 1)
        return -errno;
    *fd = pipes[0];
    return 0;
}

static int die(void *arg, int *fd)
{
    raise(SIGKILL);
    return 0;
}

/* What other descriptors has it? */
static int count_open(void *arg, int *fd)
{
    int n = 0;

    for (int i = 0; i < 1024; i++)
        n += fcntl(i, F_GETFD) >= 0;
    return n;
}

static void await_end(int fd)
{
    struct pollfd done = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&done, 1, LONG_MS), 1);
}

static void result_of_quick_work_comes_at_once(void **state)
{
    struct dlr_work_queue lane = {.fork_server = fork_server, .name = NAME, .fd = -1};
    struct dlr_offload *a = dlr_offload_new(sizeof(struct job));
    struct job *job = dlr_offload_arg(a);
    int pipes[2], fd = -1;

    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(write(pipes[1], "a", 1), 1);
    assert_int_equal(dlr_work_queue_call(&lane, &a, read_byte, pipes[0], LONG_MS, &fd),
                     'a');
    assert_int_equal(job->byte, 'a');
    assert_int_not_equal(job->pid, getpid());
    assert_true(fd >= 0); /* as it was left */
    close(fd);
    close(pipes[1]);
    dlr_work_queue_close(&lane, 0);
    dlr_offload_free(a);
}

static int who(void *arg, int *fd)
{
    return getpid();
}

static void one_process_does_them_all_until_it_dies(void **state)
{
    struct dlr_work_queue lane = {.fork_server = fork_server, .name = NAME, .fd = -1};
    struct dlr_offload *a = dlr_offload_new(1);
    int fd = -1, first = dlr_work_queue_call(&lane, &a, who, -1, LONG_MS, &fd);

    assert_true(first > 0);
    assert_int_equal(dlr_work_queue_call(&lane, &a, who, -1, LONG_MS, &fd), first);
    assert_int_equal(dlr_work_queue_call(&lane, &a, count_open, -1, LONG_MS, &fd),
                     OPEN);
    assert_int_equal(dlr_work_queue_call(&lane, &a, die, -1, LONG_MS, &fd), -EIO);
    assert_int_not_equal(dlr_work_queue_call(&lane, &a, who, -1, LONG_MS, &fd), first);
    dlr_work_queue_close(&lane, 0);
    dlr_offload_free(a);
}

static void work_that_hangs_is_left_and_those_after_it_do_not_wait(void **state)
{
    struct dlr_work_queue lane = {.fork_server = fork_server, .name = NAME, .fd = -1};
    struct dlr_offload *stuck = dlr_offload_new(sizeof(struct job));
    struct dlr_offload *next = dlr_offload_new(sizeof(struct job));
    int pipes[2], more[2], fd = -1;

    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(pipe(more), 0);
    assert_int_equal(write(more[1], "b", 1), 1);
    assert_int_equal(dlr_work_queue_call(&lane, &stuck, read_byte, pipes[0], 20, &fd),
                     -ETIMEDOUT);
    assert_null(stuck); /* it went with it */
    assert_int_equal(
        dlr_work_queue_call(&lane, &next, read_byte, dup(more[0]), 20, &fd), -EBUSY);
    assert_int_equal(write(pipes[1], "a", 1), 1);
    await_end(lane.fd);
    assert_int_equal(
        dlr_work_queue_call(&lane, &next, read_byte, more[0], LONG_MS, &fd), 'b');
    close(fd);
    close(pipes[1]);
    close(more[1]);
    dlr_work_queue_close(&lane, 0);
    dlr_offload_free(next);
}

/* After a byte, where there is one to come: 0 when nobody else has the file locked. */
static int lock_file(void *arg, int *fd)
{
    const char *path = arg;
    char byte;

    if (*fd >= 0 && (read(*fd, &byte, 1) != 1 || close(*fd) < 0))
        return -EIO;
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return *fd >= 0 && flock(*fd, LOCK_EX | LOCK_NB) == 0 ? 0 : -errno;
}

static void what_came_too_late_locks_nothing_for_the_next(void **state)
{
    char path[64];
    struct dlr_work_queue lane = {.fork_server = fork_server, .name = NAME, .fd = -1};
    struct dlr_offload *slow = dlr_offload_new(sizeof(path));
    struct dlr_offload *next = dlr_offload_new(sizeof(path));
    int pipes[2], fd = -1;

    snprintf(path, sizeof(path), "/tmp/test_work_queue.%d", (int)getpid());
    memcpy(dlr_offload_arg(slow), path, sizeof(path));
    memcpy(dlr_offload_arg(next), path, sizeof(path));
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(dlr_work_queue_call(&lane, &slow, lock_file, pipes[0], 20, &fd),
                     -ETIMEDOUT);
    assert_int_equal(write(pipes[1], "a", 1), 1);
    await_end(lane.fd);
    assert_int_equal(dlr_work_queue_call(&lane, &next, lock_file, -1, LONG_MS, &fd), 0);
    close(fd);
    close(pipes[1]);
    unlink(path);
    dlr_work_queue_close(&lane, 0);
    dlr_offload_free(next);
}

static void who_does_not_wait_is_told(void **state)
{
    struct dlr_offload *a = dlr_offload_new(sizeof(struct job));
    int pipes[2], rc = 0, fd = -1;

    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(dlr_offload_start(a, fork_server, read_byte, pipes[0]), 0);
    assert_int_equal(dlr_offload_end(a, &rc, &fd), -EAGAIN);
    assert_int_equal(write(pipes[1], "x", 1), 1);
    await_end(dlr_offload_fd(a));
    assert_int_equal(dlr_offload_end(a, &rc, &fd), 0);
    assert_int_equal(rc, 'x');
    close(fd);
    close(pipes[1]);
    dlr_offload_free(a);
}

static void descriptor_that_is_opened_there_comes_here(void **state)
{
    struct dlr_work_queue lane = {.fork_server = fork_server, .name = NAME, .fd = -1};
    struct dlr_offload *a = dlr_offload_new(1);
    char byte = 0;
    int fd = -1;

    assert_int_equal(dlr_work_queue_call(&lane, &a, give_pipe, -1, LONG_MS, &fd), 0);
    assert_int_equal(read(fd, &byte, 1), 1);
    assert_int_equal(byte, 'z');
    close(fd);
    dlr_work_queue_close(&lane, 0);
    dlr_offload_free(a);
}

static void process_that_dies_is_an_error(void **state)
{
    struct dlr_work_queue lane = {.fork_server = fork_server, .name = NAME, .fd = -1};
    struct dlr_offload *a = dlr_offload_new(1);
    int fd = -1;

    assert_int_equal(dlr_work_queue_call(&lane, &a, die, -1, LONG_MS, &fd), -EIO);
    dlr_work_queue_close(&lane, 0);
    dlr_offload_free(a);
}

/* No port, lock or pipe of ours lives on in it. */
static void nothing_of_ours_is_open_there(void **state)
{
    struct dlr_work_queue lane = {.fork_server = fork_server, .name = NAME, .fd = -1};
    struct dlr_offload *a = dlr_offload_new(1);
    int pipes[2], fd = -1;

    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(dlr_work_queue_call(&lane, &a, count_open, -1, LONG_MS, &fd),
                     OPEN);
    close(pipes[0]);
    close(pipes[1]);
    dlr_work_queue_close(&lane, 0);
    dlr_offload_free(a);
}

/* Says that it has begun. */
static int hang(void *arg, int *fd)
{
    char byte = 'h';

    (void)!write(*fd, &byte, 1);
    return read(*fd, &byte, 1) == 1 ? 0 : -EIO;
}

static void start_and_stay(int hold[2])
{
    struct dlr_offload *a = dlr_offload_new(1);
    struct dlr_fork_server *own = NULL;
    struct dlr_err err;

    close(hold[1]);
    if (!a || dlr_fork_server_new(&own, &err) < 0 ||
        dlr_offload_start(a, own, hang, hold[0]) < 0)
        _exit(1);
    for (;;)
        pause();
}

static void who_is_killed_ends_at_once_and_his_work_with_him(void **state)
{
    int hold[2], status;
    pid_t pid;
    char byte;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, hold), 0);
    pid = fork();
    if (pid == 0)
        start_and_stay(hold);
    close(hold[0]);
    assert_int_equal(read(hold[1], &byte, 1), 1); /* it hangs now */
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_int_equal(read(hold[1], &byte, 1),
                     0); /* nobody has the other end any more */
    close(hold[1]);
}

static void one_who_was_killed_is_forked_again(void **state)
{
    struct dlr_work_queue lane = {.name = NAME, .fd = -1};
    struct dlr_offload *a = dlr_offload_new(1);
    struct dlr_err err;
    char path[64], text[32] = "";
    int fd = -1, children;

    assert_int_equal(dlr_fork_server_new(&lane.fork_server, &err), 0);
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    children = open(path, O_RDONLY);
    assert_true(read(children, text, sizeof(text) - 1) > 0);
    close(children);
    for (char *at = text, *end; (fd = (int)strtol(at, &end, 10)) > 0; at = end)
        kill(fd, SIGKILL); /* the newest is that one; the other is the whole test's */
    while (waitpid(-1, NULL, 0) > 0)
        ;
    assert_int_equal(dlr_work_queue_call(&lane, &a, give_pipe, -1, LONG_MS, &fd), 0);
    close(fd);
    dlr_work_queue_close(&lane, 0);
    dlr_offload_free(a);
    dlr_fork_server_free(lane.fork_server);
}

/* --- lines ------------------------------------------------------------------------ */

#define STARTS 2

static int out[2];    /* a line's work writes to the second, a test reads the first */
static char told[64]; /* of codes */
static unsigned ntold;

static void on_told(void *arg, bool first, const struct dlr_err *err)
{
    size_t at = strlen(told);

    assert_ptr_equal(arg, told);
    dlr_format(told + at, sizeof(told) - at, "%s%d %s,", first ? "first " : "",
               err->code, err->text);
    ntold++;
}

static void on_lost(void *arg)
{
    on_told(arg, false, &(struct dlr_err){.text = "lost"});
}

static struct dlr_work_queue make_queue(void)
{
    told[0] = '\0';
    ntold = 0;
    assert_int_equal(pipe(out), 0);
    return (struct dlr_work_queue){.fork_server = fork_server,
                                   .name = NAME,
                                   .outlives = true,
                                   .room = 2,
                                   .max_starts = STARTS,
                                   .told = on_told,
                                   .lost = on_lost,
                                   .arg = told,
                                   .fd = -1};
}

static void end_queue(struct dlr_work_queue *q)
{
    dlr_work_queue_close(q, LONG_MS);
    close(out[0]);
    close(out[1]);
}

static void await_told(struct dlr_work_queue *q, unsigned n)
{
    while (ntold < n && q->fd >= 0) {
        await_end(q->fd);
        dlr_work_queue_tick(q);
    }
}

/* Gives the first line's path and the descriptor to the others. */
static int begin_with(void *arg, int *fd)
{
    const struct dlr_work_line *line = arg;

    return dlr_write_all(*fd, line->path, strlen(line->path));
}

static int write_line(void *arg, int *fd)
{
    struct dlr_work_line *line = arg;

    if (line->path[0])
        return dlr_fail(&line->err, -ENOENT, "cannot write '%s'", line->path);
    return dlr_write_all(*fd, line->text, line->size);
}

static void assert_reads(const char *text)
{
    char got[64] = "";

    assert_int_equal(dlr_read_all(out[0], got, strlen(text)), 0);
    assert_string_equal(got, text);
}

static void lines_are_done_in_order_with_the_descriptor_of_the_first(void **state)
{
    struct dlr_work_queue q = make_queue();

    assert_int_equal(dlr_work_queue_open(&q, begin_with, "path ", out[1], LONG_MS), 0);
    assert_int_equal(dlr_work_queue_put(&q, write_line, "", "one"), 0);
    assert_int_equal(dlr_work_queue_put(&q, write_line, "", "two"), 0);
    dlr_work_queue_close(&q, LONG_MS);
    assert_reads("path one\ntwo\n");
    assert_string_equal(told, "first 0 ,");
    end_queue(&q);
}

static void what_fails_is_told_with_its_reason(void **state)
{
    struct dlr_work_queue q = make_queue();

    assert_int_equal(dlr_work_queue_open(&q, write_line, "a", out[1], LONG_MS),
                     -ENOENT);
    assert_int_equal(dlr_work_queue_put(&q, write_line, "", "quiet"), 0);
    assert_int_equal(dlr_work_queue_put(&q, write_line, "b", "loud"), 0);
    await_told(&q, 2);
    assert_string_equal(told, "first -2 cannot write 'a',-2 cannot write 'b',");
    assert_reads("quiet\n");
    end_queue(&q);
}

static void lines_without_room_are_refused_and_the_end_waits_no_longer(void **state)
{
    char text[60000];
    struct dlr_work_queue q = make_queue();
    unsigned n = 0;
    int rc;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(dlr_work_queue_open(&q, NULL, "", out[1], LONG_MS), 0);
    while ((rc = dlr_work_queue_put(&q, write_line, "", text)) == 0)
        n++;
    assert_int_equal(rc, -ENOBUFS); /* nobody reads */
    assert_true(n >= 2);
    dlr_work_queue_close(&q, 20);
    assert_int_equal(q.fd, -1);
    end_queue(&q);
}

static void a_process_that_dies_is_started_again_a_number_of_times(void **state)
{
    struct dlr_work_queue q = make_queue();

    assert_int_equal(dlr_work_queue_open(&q, begin_with, "1 ", out[1], LONG_MS), 0);
    assert_int_equal(dlr_work_queue_put(&q, die, "", ""), 0);
    await_told(&q, 2); /* the second process has begun */
    assert_int_equal(dlr_work_queue_put(&q, write_line, "", "still"), 0);
    assert_reads("1 1 still\n");
    assert_int_equal(dlr_work_queue_put(&q, die, "", ""), 0);
    await_told(&q, 3);
    assert_string_equal(told, "first 0 ,first 0 ,0 lost,");
    assert_int_equal(dlr_work_queue_put(&q, write_line, "", "late"), -EPIPE);
    end_queue(&q);
}

/* Says that the second line is on its way. */
static void put_and_stay(struct dlr_work_queue *q)
{
    struct dlr_err err;

    if (dlr_fork_server_new(&q->fork_server, &err) < 0 ||
        dlr_work_queue_open(q, begin_with, "go ", out[1], LONG_MS) < 0 ||
        dlr_work_queue_put(q, write_line, "", "one") < 0 || q->head)
        _exit(1);
    raise(SIGKILL);
}

static void what_it_was_given_is_done_when_we_are_killed(void **state)
{
    struct dlr_work_queue q = make_queue();
    pid_t pid = fork();
    int status;

    if (pid == 0)
        put_and_stay(&q);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_reads("go one\n");
    end_queue(&q);
}

static int start(void **state)
{
    struct dlr_err err;

    return dlr_fork_server_new(&fork_server, &err);
}

static int end(void **state)
{
    fork_server = dlr_fork_server_free(fork_server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(result_of_quick_work_comes_at_once),
        cmocka_unit_test(one_process_does_them_all_until_it_dies),
        cmocka_unit_test(work_that_hangs_is_left_and_those_after_it_do_not_wait),
        cmocka_unit_test(what_came_too_late_locks_nothing_for_the_next),
        cmocka_unit_test(who_does_not_wait_is_told),
        cmocka_unit_test(descriptor_that_is_opened_there_comes_here),
        cmocka_unit_test(process_that_dies_is_an_error),
        cmocka_unit_test(nothing_of_ours_is_open_there),
        cmocka_unit_test(who_is_killed_ends_at_once_and_his_work_with_him),
        cmocka_unit_test(one_who_was_killed_is_forked_again),
        cmocka_unit_test(lines_are_done_in_order_with_the_descriptor_of_the_first),
        cmocka_unit_test(what_fails_is_told_with_its_reason),
        cmocka_unit_test(lines_without_room_are_refused_and_the_end_waits_no_longer),
        cmocka_unit_test(a_process_that_dies_is_started_again_a_number_of_times),
        cmocka_unit_test(what_it_was_given_is_done_when_we_are_killed),
    };

    return cmocka_run_group_tests(tests, start, end);
}
