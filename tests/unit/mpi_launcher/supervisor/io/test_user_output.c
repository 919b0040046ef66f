/* SPDX-License-Identifier: Apache-2.0 */
/* What a supervisor says reaches its stderr, whatever that is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "mpi_launcher/supervisor/io/io_state.h"
#include "mpi_launcher/supervisor/io/user_output.h"

static char path[] = "/tmp/dlr-say-XXXXXX";

enum end { ENDS, WRITER_ENDS, KILLED };

/* As if somebody had killed it. */
static void end_writer(int fd)
{
    struct pollfd writer = {.fd = fd, .events = POLLIN};

    shutdown(fd, SHUT_WR);
    poll(&writer, 1, -1);
}

/* In a process whose stderr this is: says three lines and ends, or is killed. */
static void say(int out, enum end how)
{
    struct dlr_sup_io *io = dlr_sup_io_new(NULL, NULL);
    struct dlr_err err;
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        dup2(out, STDERR_FILENO);
        if (dlr_sup_fork_server_start(io, &err) < 0)
            _exit(1);
        dlr_user_line(io, "before %d", 1);
        dlr_user_output_start(io);
        dlr_user_line(io, "after");
        if (how == WRITER_ENDS)
            end_writer(io->say.fd);
        dlr_warn("a warning");
        if (how == KILLED)
            raise(SIGKILL);
        dlr_user_output_end(io);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    dlr_sup_io_free(io);
    assert_true(how == KILLED ? WIFSIGNALED(status) : status == 0);
}

static void assert_said(int fd, off_t at)
{
    static const char want[] = "dlrover: before 1\ndlrover: after\ndlr: a warning\n";
    char text[256] = "";

    assert_int_equal(at < 0 ? read(fd, text, sizeof(text) - 1)
                            : pread(fd, text, sizeof(text) - 1, at),
                     strlen(want));
    assert_string_equal(text, want);
}

static void a_file_has_every_line_when_we_have_ended(void **state)
{
    int fd = open(path, O_RDWR | O_TRUNC | O_APPEND);

    say(fd, ENDS);
    assert_said(fd, 0);
    close(fd);
}

static void a_writer_that_is_gone_is_replaced(void **state)
{
    int fd = open(path, O_RDWR | O_TRUNC | O_APPEND);

    say(fd, WRITER_ENDS);
    assert_said(fd, 0);
    close(fd);
}

static void a_pipe_has_them_too(void **state)
{
    int pipes[2];

    assert_int_equal(pipe(pipes), 0);
    say(pipes[1], ENDS);
    assert_said(pipes[0], -1);
    close(pipes[0]);
    close(pipes[1]);
}

/* Nobody waits for the end of a pipe that we have written to: `srun ... 2>&1 | tee
 * log`.
 */
static void no_process_apart_holds_a_pipe(void **state)
{
    char text[256];
    int pipes[2];

    assert_int_equal(pipe(pipes), 0);
    say(pipes[1], KILLED);
    close(pipes[1]);
    assert_true(read(pipes[0], text, sizeof(text)) > 0);
    assert_int_equal(read(pipes[0], text, sizeof(text)), 0);
    close(pipes[0]);
}

static int begin(void **state)
{
    int fd = mkstemp(path);

    return fd < 0 ? -1 : close(fd);
}

static int end(void **state)
{
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_has_every_line_when_we_have_ended),
        cmocka_unit_test(a_writer_that_is_gone_is_replaced),
        cmocka_unit_test(a_pipe_has_them_too),
        cmocka_unit_test(no_process_apart_holds_a_pipe),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
