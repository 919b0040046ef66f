/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-stacks */
/* dlrover-stacks, started with signals ignored and blocked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"

#define LIMIT_MS 60000 /* a loaded machine, sanitizers */

/* As from a shell in which somebody has ignored them; *ret_fd reads a pipe that is full
 * before it starts.
 */
static pid_t start_tool(pid_t of, int *ret_fd)
{
    char path[4096], number[16];
    sigset_t alarms;
    int out[2];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
    pid_t pid;

    assert_true(n > 0);
    path[n] = '\0';
    *strrchr(path, '/') = '\0'; /* build/tests/... */
    snprintf(strrchr(path, '/'), 32, "/dlrover-stacks");
    snprintf(number, sizeof(number), "%d", (int)of);
    assert_int_equal(pipe2(out, O_NONBLOCK), 0);
    while (write(out[1], "\n", 1) == 1)
        ;
    pid = fork();
    if (pid == 0) {
        signal(SIGCHLD, SIG_IGN);
        signal(SIGALRM, SIG_IGN);
        sigemptyset(&alarms);
        sigaddset(&alarms, SIGALRM);
        sigprocmask(SIG_BLOCK, &alarms, NULL);
        fcntl(out[1], F_SETFL, 0);
        dup2(out[1], STDOUT_FILENO);
        execl(path, path, number, NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    close(out[1]);
    *ret_fd = out[0];
    return pid;
}

static bool signals_are_set(pid_t pid)
{
    const unsigned long long stops = 1ull << (SIGTSTP - 1) | 1ull << (SIGTTIN - 1) |
                                     1ull << (SIGTTOU - 1),
                             child = 1ull << (SIGCHLD - 1),
                             alarms = 1ull << (SIGALRM - 1);
    unsigned long long blocked = 0, ignored = ~0ull;
    char path[64], line[256];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        sscanf(line, "SigBlk: %llx", &blocked);
        sscanf(line, "SigIgn: %llx", &ignored);
    }
    fclose(f);
    return (blocked & (stops | child | alarms)) == (stops | child) &&
           !(ignored & (child | alarms));
}

static void the_tool_reads_whatever_signals_it_inherits(void **state)
{
    pid_t pid = fork(), tool;
    int64_t deadline = dlr_now_ms() + LIMIT_MS;
    int fd, status = 0;
    char buf[65536];
    bool set = false;

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
    }
    assert_true(pid > 0);
    tool = start_tool(pid, &fd);
    while (!set && waitpid(tool, &status, WNOHANG) == 0 && dlr_now_ms() < deadline)
        set = signals_are_set(tool);
    assert_true(set);
    fcntl(fd, F_SETFL, 0);
    while (read(fd, buf, sizeof(buf)) > 0)
        ;
    assert_int_equal(waitpid(tool, &status, 0), tool);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1); /* 1: must not trace */
    close(fd);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tool_reads_whatever_signals_it_inherits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
