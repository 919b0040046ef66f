/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=spank/node wrap=readdir needs=dlrover-stderr */
/* A task's stderr through dlrover-stderr, and what is left of a job in memory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/install_path.h"
#include "common/base/node_memory.h"
#include "common/base/str.h"
#include "common/local/message.h"
#include "spank/node/cleanup.h"
#include "spank/task/stderr_tap.h"
#include "spank/task/tail.h"

#define WAIT_LIMIT_MS 30000

static char dir[64], libexec[PATH_MAX], sock[96], out[96];

static int start(void **state)
{
    dlr_format(dir, sizeof(dir), "/tmp/dlr-tap.XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    dlr_format(sock, sizeof(sock), "%s/agent.sock", dir);
    dlr_format(out, sizeof(out), "%s/out", dir);
    return dlr_install_path_sibling("..", libexec, sizeof(libexec));
}

static int stop(void **state)
{
    unlink(sock);
    unlink(out);
    return rmdir(dir);
}

/* Runs body as a task whose stderr is the file out, tapped; waits for the tap. */
static void run_task(struct dlr_stderr_tap *tap, void (*body)(void))
{
    int status = 0;
    pid_t pid;

    assert_int_equal(dlr_stderr_tap_open(tap), 0);
    pid = fork();
    if (pid == 0) {
        int fd = open(out, O_CREAT | O_TRUNC | O_WRONLY, 0600);

        if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || close(fd) < 0 ||
            dlr_stderr_tap_insert(tap, libexec, sock, 5, 1, NULL) < 0)
            _exit(99);
        body();
        _exit(0);
    }
    dlr_stderr_tap_forked(tap);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* What the end of slurmstepd does. */
static void close_tap(struct dlr_stderr_tap *tap)
{
    dlr_stderr_tap_forked(tap);
    close(tap->done[0]);
    free(tap->ranks);
}

static void assert_out(const char *want)
{
    char *text = NULL;
    size_t size;

    assert_int_equal(dlr_file_load(AT_FDCWD, out, 1 << 20, &text, &size, NULL), 0);
    assert_string_equal(text, want);
    free(text);
}

static void say_two_lines(void)
{
    dprintf(STDERR_FILENO, "first\nlast \xff words\n");
    /* a task must not find children that it has not started */
    if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
        _exit(98);
}

static void stderr_goes_where_it_went_and_its_end_to_the_agent(void **state)
{
    struct dlr_stderr_tap tap;
    struct dlr_local_msg msg;
    int fds[DLR_LOCAL_FDS], agent, peer;
    unsigned nfds;

    assert_int_equal(dlr_local_listen(sock, &agent, NULL), 0);
    run_task(&tap, say_two_lines);
    tap.budget_ms = WAIT_LIMIT_MS;
    dlr_stderr_tap_wait(&tap, 1, WAIT_LIMIT_MS);
    assert_out("first\nlast \xff words\n");
    peer = accept(agent, NULL, NULL); /* sent before the tap was done */
    assert_int_equal(dlr_local_recv(peer, &msg, fds, &nfds), 1);
    assert_int_equal(msg.type, DLR_LOCAL_STDERR);
    assert_int_equal(msg.round, 5);
    assert_int_equal(msg.rank, 1);
    assert_string_equal(msg.text, "first\nlast ? words\n");
    close(peer);
    close(agent);
    close_tap(&tap);
}

static void without_an_agent_stderr_still_goes_through(void **state)
{
    struct dlr_stderr_tap tap;

    unlink(sock);
    run_task(&tap, say_two_lines);
    tap.budget_ms = WAIT_LIMIT_MS;
    dlr_stderr_tap_wait(&tap, 1, WAIT_LIMIT_MS);
    assert_out("first\nlast \xff words\n");
    close_tap(&tap);
}

static int hold[2];

static void leave_a_process_behind(void)
{
    char byte;

    if (fork() == 0) {
        close(hold[1]);
        _exit(read(hold[0], &byte, 1) < 0); /* holds stderr until the test lets go */
    }
}

static void a_process_in_the_background_costs_one_budget_only(void **state)
{
    struct dlr_stderr_tap tap;
    int64_t begun;

    assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
    run_task(&tap, leave_a_process_behind);
    begun = dlr_now_ms();
    dlr_stderr_tap_wait(&tap, 1, 50);
    assert_true(dlr_now_ms() - begun >= 50);
    assert_true(tap.budget_ms <= DLR_STDERR_TAP_FLUSH_MS - 50);
    tap.budget_ms = 10;
    for (int i = 0; i < 100; i++)
        dlr_stderr_tap_wait(&tap, 1, DLR_STDERR_TAP_FLUSH_MS);
    assert_int_equal(tap.budget_ms, 0);
    close(hold[0]);
    close(hold[1]);
    tap.budget_ms = WAIT_LIMIT_MS;
    dlr_stderr_tap_wait(&tap, 1, WAIT_LIMIT_MS);
    assert_true(tap.budget_ms > 0);
    close_tap(&tap);
}

static void ranks_may_be_done_in_any_order(void **state)
{
    struct dlr_stderr_tap tap;
    uint32_t ranks[] = {3, 1, 2};

    assert_int_equal(dlr_stderr_tap_open(&tap), 0);
    assert_int_equal(write(tap.done[1], ranks, sizeof(ranks)), sizeof(ranks));
    for (uint32_t rank = 1; rank <= 3; rank++)
        dlr_stderr_tap_wait(&tap, rank, WAIT_LIMIT_MS);
    assert_int_equal(tap.count, 0);
    assert_true(tap.budget_ms > 0);
    close_tap(&tap);
}

/* The user's processes hold the writing end, slurmstepd reads it as root. */
static void a_flood_of_ranks_neither_holds_up_nor_fills_memory(void **state)
{
    static uint32_t ranks[1024];
    struct pollfd begun = {.events = POLLIN};
    struct dlr_stderr_tap tap;
    int status = 0;
    pid_t pid;

    memset(ranks, 7, sizeof(ranks));
    assert_int_equal(dlr_stderr_tap_open(&tap), 0);
    pid = fork();
    if (pid == 0) {
        struct pollfd pfd = {.fd = tap.done[1], .events = POLLOUT};

        for (;;)
            if (write(tap.done[1], ranks, sizeof(ranks)) < 0)
                poll(&pfd, 1, WAIT_LIMIT_MS);
    }
    dlr_stderr_tap_forked(&tap);
    begun.fd = tap.done[0];
    assert_int_equal(poll(&begun, 1, WAIT_LIMIT_MS), 1);
    for (int i = 0; i < 3; i++)
        dlr_stderr_tap_wait(&tap, 1, 100);
    assert_true(tap.budget_ms <= DLR_STDERR_TAP_FLUSH_MS - 300);
    assert_in_range(tap.count, 1, DLR_STDERR_TAP_RANKS_MAX);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close_tap(&tap);
}

static void a_program_that_is_missing_leaves_stderr_alone(void **state)
{
    struct dlr_stderr_tap tap = DLR_STDERR_TAP_NONE;
    struct dlr_err err = {0};
    struct stat before, after;

    assert_int_equal(fstat(STDERR_FILENO, &before), 0);
    if (isatty(STDERR_FILENO))
        skip();
    assert_int_equal(dlr_stderr_tap_insert(&tap, "/nowhere", sock, 5, 1, &err),
                     -ENOENT);
    assert_string_equal(
        err.text, "cannot start '/nowhere/dlrover-stderr': No such file or directory");
    assert_int_equal(fstat(STDERR_FILENO, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
}

static void the_tail_is_whole_lines_of_plain_text(void **state)
{
    static const struct {
        const char *in, *want;
    } rows[] = {
        {"", ""},
        {"one\ntwo\n", "one\ntwo\n"},
        {"\033[31mred\033[0m\ttab\r\n", "?[31mred?[0m\ttab?\n"},
        {"sch\xc3\xb6n \xe2\x82\xac \xf0\x9f\x98\x80",
         "sch\xc3\xb6n \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xc3", "?"},
        {"\xc0\xaf \xed\xa0\x80 \xf5\x80\x80\x80", "?? ??? ????"},
        {"\xc2\x9b"
         "1m",
         "??1m"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_tail tail = {0};
        char text[DLR_TAIL_BYTES + 1];

        for (const char *c = rows[i].in; *c; c++)
            dlr_tail_add(&tail, c, 1);
        assert_int_equal(dlr_tail_text(&tail, text), strlen(rows[i].want));
        assert_string_equal(text, rows[i].want);
    }
}

static void a_long_stream_keeps_its_end(void **state)
{
    char text[DLR_TAIL_BYTES + 1], big[3 * DLR_TAIL_BYTES], line[16];
    struct dlr_tail tail = {0};

    for (unsigned i = 0; i < 3000; i++) {
        dlr_format(line, sizeof(line), "%u\n", i);
        dlr_tail_add(&tail, line, strlen(line));
    }
    assert_int_equal(dlr_tail_text(&tail, text) % 5, 0); /* whole lines of five bytes */
    assert_string_equal(text + strlen(text) - 5, "2999\n");
    memset(big, 'x', sizeof(big));
    dlr_tail_add(&tail, big, sizeof(big));
    assert_int_equal(dlr_tail_text(&tail, text),
                     DLR_TAIL_BYTES); /* one line: as it is */
    assert_int_equal(text[0], 'x');
}

/* A job's directory below dir, as dlr_node_cleanup_job() names it. */
static void make_memory(char *path, size_t size, unsigned job)
{
    char sub[160];

    dlr_format(path, size, "%s/dlrover-%u-%u", dir, (unsigned)getuid(), job);
    assert_int_equal(mkdir(path, 0700), 0);
    dlr_format(sub, sizeof(sub), "%s/run", path);
    assert_int_equal(mkdir(sub, 0700), 0);
    dlr_format(sub, sizeof(sub), "%s/run/p0", path);
    assert_int_equal(mknod(sub, S_IFREG | 0600, 0), 0);
}

static void a_jobs_memory_is_removed_and_links_are_not_followed(void **state)
{
    char path[128], link[160], victim[160], inside[160];
    struct dlr_err err = {0};

    make_memory(path, sizeof(path), 7);
    dlr_format(victim, sizeof(victim), "%s/victim", dir);
    dlr_format(inside, sizeof(inside), "%s/victim/file", dir);
    dlr_format(link, sizeof(link), "%s/run/link", path);
    assert_int_equal(mkdir(victim, 0700), 0);
    assert_int_equal(mknod(inside, S_IFREG | 0600, 0), 0);
    assert_int_equal(symlink(victim, link), 0);
    assert_int_equal(
        dlr_node_cleanup_job(dir, getuid(), getgid(), 7, WAIT_LIMIT_MS, &err), 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(symlink(victim, path),
                     0); /* now the job's name itself is a link */
    assert_int_equal(
        dlr_node_cleanup_job(dir, getuid(), getgid(), 7, WAIT_LIMIT_MS, &err),
        -ENOTDIR);
    assert_int_equal(access(inside, F_OK), 0);
    unlink(path);
    unlink(inside);
    rmdir(victim);
}

static void a_jobs_memory_of_another_owner_is_left(void **state)
{
    char path[128], run[160];
    int top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (getuid() != 0)
        skip();
    make_memory(path, sizeof(path), 8);
    dlr_format(run, sizeof(run), "%s/run", path);
    assert_int_equal(chown(path, 1, 1) | chown(run, 1, 1), 0);
    assert_int_equal(dlr_node_cleanup_tree(top, strrchr(path, '/') + 1, 0), -EPERM);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(dlr_node_cleanup_tree(top, strrchr(path, '/') + 1, 1), 0);
    assert_int_equal(access(path, F_OK), -1);
    close(top);
}

static void memory_beside_a_taken_name_is_removed_too(void **state)
{
    char path[128], other[160];

    make_memory(path, sizeof(path), 12);
    dlr_format(other, sizeof(other), "%s.0123abcd", path);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(mknod(path, S_IFIFO | 0600, 0), 0); /* the squatter's */
    assert_int_equal(
        dlr_node_cleanup_job(dir, getuid(), getgid(), 12, WAIT_LIMIT_MS, NULL),
        -ENOTDIR);
    assert_int_equal(access(other, F_OK), -1);
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
}

static bool endless; /* what is in a directory */

struct dirent *__real_readdir(DIR *at);
struct dirent *__wrap_readdir(DIR *at);

struct dirent *__wrap_readdir(DIR *at)
{
    static struct dirent same = {.d_name = "x"};

    return endless ? &same : __real_readdir(at);
}

/* Root looks there, and slurmstepd. */
static void a_directory_without_end_is_given_up(void **state)
{
    char path[128], found[128];

    dlr_format(path, sizeof(path), "%s/dlrover-%u-13/run", dir, (unsigned)getuid());
    endless = true;
    assert_int_equal(
        dlr_node_cleanup_job(dir, getuid(), getgid(), 13, WAIT_LIMIT_MS, NULL), -E2BIG);
    assert_int_equal(dlr_memory_find(path, found, sizeof(found)), 0);
    endless = false;
    assert_string_equal(found, path);
}

static void a_tree_that_is_too_deep_is_left(void **state)
{
    char path[128], deep[160];

    make_memory(path, sizeof(path), 9);
    dlr_format(deep, sizeof(deep), "%s/run/a/b/c", path);
    for (char *slash = strchr(deep + strlen(path) + 5, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        assert_int_equal(mkdir(deep, 0700), 0);
        *slash = '/';
    }
    assert_int_equal(mkdir(deep, 0700), 0);
    assert_int_equal(
        dlr_node_cleanup_job(dir, getuid(), getgid(), 9, WAIT_LIMIT_MS, NULL), -ELOOP);
    rmdir(deep);
    assert_int_equal(
        dlr_node_cleanup_job(dir, getuid(), getgid(), 9, WAIT_LIMIT_MS, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stderr_goes_where_it_went_and_its_end_to_the_agent),
        cmocka_unit_test(without_an_agent_stderr_still_goes_through),
        cmocka_unit_test(a_process_in_the_background_costs_one_budget_only),
        cmocka_unit_test(ranks_may_be_done_in_any_order),
        cmocka_unit_test(a_flood_of_ranks_neither_holds_up_nor_fills_memory),
        cmocka_unit_test(a_program_that_is_missing_leaves_stderr_alone),
        cmocka_unit_test(the_tail_is_whole_lines_of_plain_text),
        cmocka_unit_test(a_long_stream_keeps_its_end),
        cmocka_unit_test(a_jobs_memory_is_removed_and_links_are_not_followed),
        cmocka_unit_test(a_jobs_memory_of_another_owner_is_left),
        cmocka_unit_test(memory_beside_a_taken_name_is_removed_too),
        cmocka_unit_test(a_directory_without_end_is_given_up),
        cmocka_unit_test(a_tree_that_is_too_deep_is_left),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
