/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/wire,mpi_launcher/keeper,mpi_launcher/process,common/local wrap=zmq_send,zmq_msg_send,zmq_msg_recv,dlr_work_queue_put,dlr_takeover_state_save,dlr_local_send,dlr_local_recv needs=dlrover-supervisor,dlrover-agent */
/* What ends supervisor and agent at a point of theirs does so, once; and the programs
 * that are installed know nothing of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/install_path.h"
#include "common/json/message.h"
#include "common/local/message.h"
#include "mpi_launcher/keeper/takeover_state.h"
#include "mpi_launcher/process/work_queue.h"
#include "tests/faults/daemon_points.h"

static char dir[] = "/tmp/dlr-points-XXXXXX";

static int make_dir(void **state)
{
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

static const char *here(void)
{
    static char host[64];

    gethostname(host, sizeof(host) - 1);
    return host;
}

/* --- a daemon that does a little of each ------------------------------------------ */

static void exchange(void *from, void *to, const char *text)
{
    zmq_msg_t msg;

    if (zmq_send(from, text, strlen(text), 0) < 0)
        _exit(2);
    zmq_msg_init(&msg);
    if (zmq_msg_recv(&msg, to, 0) < 0)
        _exit(2);
    zmq_msg_close(&msg);
}

static void talk(void)
{
    void *context = zmq_ctx_new();
    void *to = zmq_socket(context, ZMQ_PAIR), *from = zmq_socket(context, ZMQ_PAIR);

    if (zmq_bind(to, "inproc://x") < 0 || zmq_connect(from, "inproc://x") < 0)
        _exit(2);
    exchange(from, to, "DLRB: a beat is none of them");
    exchange(from, to, "{\"v\":2,\"t\":\"welcome\"}");
}

static int daemon_ends(void *arg, int *fd)
{
    return 0;
}

static void write_some(void)
{
    struct dlr_work_queue nobody = {.fd = -1};
    DLR_AUTO_CLOSE int fd = memfd_create("state", MFD_CLOEXEC);
    DLR_AUTO_JSON json_t *state = json_object();
    struct dlr_err err;

    dlr_work_queue_put(&nobody, daemon_ends, "/run/events.jsonl",
                       "{\"time\":\"now\",\"event\":\"round_end\"}");
    dlr_work_queue_put(&nobody, daemon_ends, "/run/state.json", "{\"v\":2}");
    if (dlr_takeover_state_save(fd, state, &err) < 0)
        _exit(2);
}

static void speak_here(int fd)
{
    struct dlr_local_msg msg;

    dlr_local_init(&msg, DLR_LOCAL_D_SEND);
    if (dlr_local_send(fd, &msg, NULL, 0) < 0)
        _exit(2);
}

/* Its wait status. */
static int run_daemon(int fd)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        talk();
        write_some();
        speak_here(fd);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* --- tests ------------------------------------------------------------------------ */

static const char *const all[] = {
    "sends welcome",    "has welcome",           "wrote round_end",
    "wrote state.json", "wrote take-over state", "sends local 50",
};
#define POINTS (sizeof(all) / sizeof(*all))

static void give(const char *name, unsigned life, unsigned point)
{
    char path[100];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s %s %u %u\n", program_invocation_short_name, here(), life, point);
    fclose(f);
    setenv(DAEMON_POINTS_ENV, path, 1);
}

static void expect_log(const char *name, const char *want)
{
    DLR_AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY);
    DLR_AUTO_FREE char *text = NULL;
    char file[100];
    struct dlr_err err;

    snprintf(file, sizeof(file), "%s.log", name);
    assert_int_equal(dlr_file_load(fd, file, 1 << 16, &text, NULL, &err), 0);
    assert_string_equal(text, want);
}

static size_t add_line(char *text, size_t size, unsigned life, unsigned point, bool end)
{
    return (size_t)snprintf(text, size, "%s %s %u %u %s%s\n",
                            program_invocation_short_name, here(), life, point,
                            end ? "killed: " : "", all[point - 1]);
}

static void a_daemon_dies_at_the_point_of_its_order_and_the_next_one_lives(void **state)
{
    for (unsigned point = 1; point <= POINTS; point++) {
        char name[16], want[2048];
        size_t n = 0;
        int fds[2], status;

        snprintf(name, sizeof(name), "orders%u", point);
        give(name, 1, point);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
        status = run_daemon(fds[0]);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(recv(fds[1], want, 1, MSG_DONTWAIT), -1); /* not yet sent */
        for (unsigned i = 1; i <= point; i++)
            n += add_line(want + n, sizeof(want) - n, 1, i, i == point);
        expect_log(name, want);

        assert_int_equal(run_daemon(fds[0]), 0);
        for (unsigned i = 1; i <= POINTS; i++)
            n += add_line(want + n, sizeof(want) - n, 2, i, false);
        expect_log(name, want);
        close(fds[0]);
        close(fds[1]);
    }
}

static void a_message_that_was_taken_is_a_point(void **state)
{
    struct dlr_local_msg msg;
    int fds[2], status, got[DLR_LOCAL_FDS];
    unsigned n = 0;
    pid_t pid;

    give("taken", 1, 2);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
    pid = fork();
    if (pid == 0) {
        speak_here(fds[0]);
        dlr_local_recv(fds[1], &msg, got, &n);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    close(fds[0]);
    close(fds[1]);
}

static void without_orders_nobody_dies(void **state)
{
    int fds[2];

    unsetenv(DAEMON_POINTS_ENV);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
    assert_int_equal(run_daemon(fds[0]), 0);
    close(fds[0]);
    close(fds[1]);
}

static void what_is_installed_knows_no_points(void **state)
{
    static const char *const programs[] = {"../dlrover-supervisor", "../dlrover-agent"};

    for (unsigned i = 0; i < 2; i++) {
        char path[4096], *text = NULL;
        size_t size;
        struct dlr_err err;

        assert_int_equal(dlr_install_path_sibling(programs[i], path, sizeof(path)), 0);
        assert_int_equal(dlr_file_load(AT_FDCWD, path, 64u << 20, &text, &size, &err),
                         0);
        assert_non_null(memmem(text, size, "dlrover-", 8));
        assert_null(memmem(text, size, DAEMON_POINTS_ENV, strlen(DAEMON_POINTS_ENV)));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_daemon_dies_at_the_point_of_its_order_and_the_next_one_lives),
        cmocka_unit_test(a_message_that_was_taken_is_a_point),
        cmocka_unit_test(without_orders_nobody_dies),
        cmocka_unit_test(what_is_installed_knows_no_points),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
