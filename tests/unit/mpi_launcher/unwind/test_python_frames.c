/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of Python code, whatever the interpreter does; and what else is read of a
 * process: its lines, its sockets, whether it is a task.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "mpi_launcher/unwind/process.h"
#include "mpi_launcher/unwind/python.h"
#include "mpi_launcher/unwind/socket_peer.h"
#include "mpi_launcher/unwind/tasks.h"

#define LIMIT_MS 60000

/* Line 9 waits for ever, line 12 turns, line 15 backtracks with the lock held. */
static const char program[] =
    "import os, re, sys, threading\n"
    "\n"
    "def say():\n"
    "    os.write(1, b'x')\n"
    "\n"
    "def wait():\n"
    "    lock = threading.Lock()\n"
    "    lock.acquire()\n"
    "    lock.acquire()\n"
    "\n"
    "def turn():\n"
    "    while True: pass\n"
    "\n"
    "def match():\n"
    "    re.match('(a+)+$', 'a' * 64 + 'b')\n"
    "\n"
    "class Model:\n"
    "    def forward(self, what):\n"
    "        say()\n"
    "        what()\n"
    "\n"
    "threading.Thread(target=wait, daemon=True).start()\n"
    "Model().forward({'turn': turn, 'match': match}[sys.argv[1]])\n";

/* Whether this machine lets a process be traced at all: some containers do not. */
static bool may_trace(void)
{
    pid_t pid = fork();
    bool may;

    if (pid == 0) {
        pause();
        _exit(0);
    }
    may = pid > 0 && ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, __WALL);
    return may;
}

static int block_children(void **state)
{
    sigset_t child;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    return sigprocmask(SIG_BLOCK, &child, NULL);
}

/* -1 when there is no such interpreter. */
static pid_t start(const char *python, const char *what)
{
    int ready[2];
    char c;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ready[1], STDOUT_FILENO);
        close(ready[0]);
        close(ready[1]);
        execlp(python, python, "-c", program, what, (char *)NULL);
        _exit(127);
    }
    close(ready[1]);
    if (read(ready[0], &c, 1) != 1) {
        waitpid(pid, NULL, 0);
        pid = -1;
    }
    close(ready[0]);
    return pid;
}

/* The frames of Python of the first or second thread, with " < " between them. */
static void frames_of(const json_t *j, size_t thread, char *buf, size_t size)
{
    const json_t *frame,
        *frames = json_object_get(json_array_get(json_object_get(j, "threads"), thread),
                                  "python");
    size_t i;

    buf[0] = '\0';
    json_array_foreach(frames, i, frame)
    {
        if (i < 3)
            snprintf(buf + strlen(buf), size - strlen(buf), "%s%s", i ? " < " : "",
                     json_string_value(frame));
    }
}

/* It may just be on its way there: asked until it is. */
static void assert_frames(pid_t pid, size_t thread, const char *want)
{
    int64_t deadline = dlr_now_ms() + LIMIT_MS;
    char text[512] = "";

    while (!dlr_after(text, want)) {
        int rc;
        json_t *j = dlr_unwind_json(pid, dlr_now_ms() + LIMIT_MS, &rc);

        assert_int_equal(rc, 0);
        frames_of(j, thread, text, sizeof(text));
        json_decref(j);
        if (dlr_now_ms() > deadline)
            fail_msg("frames are '%s', not '%s'", text, want);
    }
}

static void python_is_read_without_its_lock(void **state)
{
    static const char *const pythons[] = {"/usr/bin/python3", "python3.12",
                                          "python3.13"};
    unsigned read = 0;

    if (!may_trace())
        skip();
#if !__has_include(<elfutils/libdwfl.h>)
    skip();
#endif
    for (size_t i = 0; i < sizeof(pythons) / sizeof(*pythons); i++) {
        pid_t pid = start(pythons[i], "turn");

        if (pid < 0) {
            print_message("[   NOTE   ] no %s here\n", pythons[i]);
            continue;
        }
        assert_frames(pid, 0,
                      "turn (<string>:12) < Model.forward (<string>:20) < <module> "
                      "(<string>:23)");
        assert_frames(pid, 1, "wait (<string>:9) < Thread.run (threading.py:");
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        pid = start(pythons[i], "match");
        assert_frames(pid, 0, "match (__init__.py:");
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        read++;
    }
    if (read == 0)
        skip();
}

/* --- what is read besides --------------------------------------------------------- */

static void the_line_is_that_of_the_instruction(void **state)
{
    /* 2 units of line 10 (no columns, +0), 1 of 12 (short, +2), 1 without a line */
    static const unsigned char table[] = {
        0x80 | 13 << 3 | 1, 0, 0x80 | 12 << 3, 0, 0, 0x80 | 15 << 3, 0x80 | 13 << 3, 3};
    static const struct {
        uint64_t offset;
        unsigned line;
    } rows[] = {{0, 10}, {2, 10}, {4, 12}, {6, 10}, {8, 11}, {10, 10}, {1u << 20, 10}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_int_equal(dlr_python_line(table, sizeof(table), 10, rows[i].offset),
                         rows[i].line);
    assert_int_equal(dlr_python_line(table, 0, 10, 0), 10);
}

static void a_socket_is_named_by_its_peer(void **state)
{
    static const char line[] =
        "   1: 0100007F:1A0B 0200000A:0050 01 00000000:00000000 00:00000000 00000000  "
        "1000        0 4711 1 0000000000000000 20 4 30 10 -1\n";
    static const char listens[] =
        "   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000  "
        "   0        0 17 1 0000000000000000 100 0 0 10 0\n";
    char buf[128];

    assert_int_equal(dlr_socket_peer_line(line, 4711, buf, sizeof(buf)), 0);
    assert_string_equal(buf, "TCP to 10.0.0.2:80");
    assert_int_equal(dlr_socket_peer_line(line, 4712, buf, sizeof(buf)), -ENOENT);
    assert_int_equal(dlr_socket_peer_line(listens, 17, buf, sizeof(buf)), 0);
    assert_string_equal(buf, "TCP port 22");
    assert_int_equal(dlr_socket_peer_line("sl local", 0, buf, sizeof(buf)), -ENOENT);
}

#define TEXT(s) s, sizeof(s)

static void an_environment_tells_a_task(void **state)
{
    static const struct {
        const char *env;
        size_t size;
        int rank; /* -1: none of job 7 */
    } rows[] = {
        {TEXT("SLURM_JOB_ID=7\0SLURM_STEP_ID=3\0SLURM_PROCID=5"), 5},
        {TEXT("SLURM_JOB_ID=7\0SLURM_STEP_ID=3\0SLURM_PROCID=5\0RANK=2"), 2},
        {TEXT("SLURM_JOB_ID=7\0SLURM_STEP_ID=3\0SLURM_PROCID=5\0RANK=x"), 5},
        {TEXT("SLURM_JOB_ID=8\0SLURM_STEP_ID=3\0SLURM_PROCID=5"), -1},
        {TEXT("SLURM_JOB_ID=7\0SLURM_PROCID=0"), -1}, /* the batch script */
        {TEXT("SLURM_JOB_ID=7\0SLURM_STEP_ID=3"), -1},
        {TEXT("SLURM_JOB_ID=7\0SLURM_STEP_ID=3\0SLURM_PROCID=x"), -1},
        {"", 0, -1},
        {"SLURM_JOB_ID=7\0SLURM_STEP_ID=3\0SLURM_PROCID=5", 44, -1}, /* cut */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint32_t rank = 0;
        bool is = dlr_unwind_task_read(rows[i].env, rows[i].size, "7", NULL, &rank);

        if (is != (rows[i].rank >= 0) || (is && rank != (uint32_t)rows[i].rank))
            fail_msg("row %zu: %s, rank %u", i, is ? "a task" : "none", rank);
    }
}

static void a_task_of_another_run_is_none_of_ours(void **state)
{
    static const char env[] =
        "SLURM_JOB_ID=7\0SLURM_STEP_ID=3\0SLURM_PROCID=5\0DLROVER_RUN=train";
    uint32_t rank;

    assert_true(dlr_unwind_task_read(TEXT(env), "7", "train", &rank));
    assert_false(dlr_unwind_task_read(TEXT(env), "7", "eval", &rank));
    assert_false(dlr_unwind_task_read(env, 44, "7", "train", &rank));
}

static void tasks_of_a_job_are_found(void **state)
{
    struct dlr_unwind_task *tasks = calloc(DLR_UNWIND_TASKS, sizeof(*tasks));
    int ready[2];
    unsigned more;
    char c;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ready[1], STDOUT_FILENO);
        execle("/bin/sh", "sh", "-c", "echo; while :; do :; done", (char *)NULL,
               (char *[]){"SLURM_JOB_ID=4000000123", "SLURM_STEP_ID=0",
                          "SLURM_PROCID=9", NULL});
        _exit(127);
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    assert_int_equal(dlr_unwind_find_tasks("", "4000000123", NULL, tasks, &more), 1);
    assert_int_equal(tasks[0].pid, pid);
    assert_int_equal(tasks[0].rank, 9);
    assert_int_equal(dlr_unwind_find_tasks("", "4000000124", NULL, tasks, &more), 0);
    assert_int_equal(more, 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    free(tasks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_is_read_without_its_lock),
        cmocka_unit_test(the_line_is_that_of_the_instruction),
        cmocka_unit_test(a_socket_is_named_by_its_peer),
        cmocka_unit_test(an_environment_tells_a_task),
        cmocka_unit_test(a_task_of_another_run_is_none_of_ours),
        cmocka_unit_test(tasks_of_a_job_are_found),
    };

    return cmocka_run_group_tests(tests, block_children, NULL);
}
