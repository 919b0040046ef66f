/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of other processes, which go on as they were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "mpi_launcher/unwind/process.h"

#define LIMIT_MS 60000 /* a loaded machine, sanitizers */
#define SIGNALS 20000

#if __has_include(<elfutils/libdwfl.h>)
#define HAVE_DW true
#else
#define HAVE_DW false
#endif

/* What the process under test shows. */
static struct shared {
    volatile unsigned long turns;
    volatile unsigned ready, signals;
} * shared;

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
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED || sigprocmask(SIG_BLOCK, &child, NULL) < 0 ? -1 : 0;
}

/* --- a process of eight threads --------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int empty[2];

__attribute__((noinline)) static void turn_for_ever(void)
{
    for (;;)
        shared->turns++;
}

static void *turn(void *arg)
{
    pthread_setname_np(pthread_self(), "turn");
    __atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST);
    turn_for_ever();
    return arg;
}

static void *lock(void *arg)
{
    pthread_setname_np(pthread_self(), "lock");
    __atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&mutex);
    return arg;
}

static void *receive(void *arg)
{
    char c;

    pthread_setname_np(pthread_self(), "receive");
    __atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST);
    return read(empty[0], &c, 1) < 0 ? NULL : arg;
}

static void *rest(void *arg)
{
    pthread_setname_np(pthread_self(), "rest");
    __atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST);
    for (;;)
        sleep(1000);
    return arg;
}

static void count_signal(int number)
{
    __atomic_add_fetch(&shared->signals, 1, __ATOMIC_SEQ_CST); /* any thread's */
}

static void eight_threads(void)
{
    void *(*const run[])(void *) = {lock, receive, rest, lock, receive, rest, turn};
    pthread_t thread;

    signal(SIGRTMIN + 5, count_signal);
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < sizeof(run) / sizeof(*run); i++)
        pthread_create(&thread, NULL, run[i], NULL);
    for (;;)
        pause();
}

static pid_t start(void (*run)(void))
{
    pid_t pid;

    if (!may_trace())
        skip();
    memset(shared, 0, sizeof(*shared));
    assert_int_equal(pipe(empty), 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run();
        _exit(0);
    }
    assert_true(pid > 0);
    close(empty[0]);
    return pid;
}

/* Who died while it was read is no child any more: its reader is its parent here. */
static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(empty[1]);
}

static char state_of(pid_t pid)
{
    char path[64], line[256], *at;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof(line), f));
    fclose(f);
    at = strrchr(line, ')');
    assert_non_null(at);
    return at[2];
}

static void wait_for_turns(void)
{
    unsigned long turns = shared->turns;
    int64_t deadline = dlr_now_ms() + LIMIT_MS;

    while (shared->turns == turns && dlr_now_ms() < deadline)
        usleep(1000);
    assert_true(shared->turns != turns);
}

static pid_t start_eight(void)
{
    pid_t pid = start(eight_threads);
    int64_t deadline = dlr_now_ms() + LIMIT_MS;

    while (shared->ready < 7 && dlr_now_ms() < deadline)
        usleep(1000);
    assert_int_equal(shared->ready, 7);
    wait_for_turns();
    return pid;
}

static json_t *stacks_of(pid_t pid, int want)
{
    int rc;
    json_t *j = dlr_unwind_json(pid, dlr_now_ms() + LIMIT_MS, &rc);

    assert_non_null(j);
    assert_int_equal(rc, want);
    return j;
}

static bool has_frame(const json_t *thread, const char *kind, const char *name)
{
    const json_t *frame;
    size_t i;

    json_array_foreach(json_object_get(thread, kind), i, frame)
    {
        if (dlr_after(json_string_value(frame), name))
            return true;
    }
    return false;
}

static unsigned count_threads(const json_t *j, const char *comm, const char *frame,
                              const char *waits)
{
    const json_t *thread;
    unsigned n = 0;
    size_t i;

    json_array_foreach(json_object_get(j, "threads"), i, thread)
    {
        const char *says = json_string_value(json_object_get(thread, "waits"));

        n += dlr_streq(json_string_value(json_object_get(thread, "comm")), comm) &&
             (!HAVE_DW || has_frame(thread, "native", frame)) &&
             (waits[0] ? dlr_after(says, waits) != NULL : true);
    }
    return n;
}

static bool all_are_where_they_are(const json_t *j)
{
    return json_array_size(json_object_get(j, "threads")) == 8 &&
           count_threads(j, "turn", "turn_for_ever (", "") == 1 &&
           count_threads(j, "lock", "lock (", "futex") == 2 &&
           count_threads(j, "receive", "receive (", "read of pipe:") == 2 &&
           count_threads(j, "rest", "rest (", "sleep") == 2;
}

/* They may just be on their way there. */
static void each_of_eight_threads_is_where_it_is(void **state)
{
    pid_t pid = start_eight();
    int64_t deadline = dlr_now_ms() + LIMIT_MS;
    bool good = false;

    while (!good && dlr_now_ms() < deadline) {
        json_t *j = stacks_of(pid, 0);

        good = all_are_where_they_are(j);
        json_decref(j);
    }
    assert_true(good);
    wait_for_turns();
    end(pid);
}

static void equal_threads_are_merged(void **state)
{
    struct dlr_stack_tree *tree = dlr_stack_tree_new(DLR_STACK_BYTES);
    json_t *notes = json_array();
    pid_t pid = start_eight();
    unsigned locks = 0;

    for (uint32_t rank = 0; rank < 3; rank++)
        assert_int_equal(
            dlr_unwind_into(tree, pid, rank, dlr_now_ms() + LIMIT_MS, notes), 0);
    for (size_t i = 0; i < dlr_stack_tree_count(tree); i++) {
        const struct dlr_stack_node *node = dlr_stack_tree_node(tree, i);

        if (dlr_streq(node->frame, "thread 'lock'"))
            locks++;
        if (i == 0 || dlr_streq(node->frame, "thread 'lock'"))
            assert_int_equal(node->threads, i ? 6 : 24);
    }
    assert_int_equal(locks, 1);
    assert_int_equal(json_array_size(notes), HAVE_DW ? 0 : 3);
    json_decref(notes);
    dlr_stack_tree_free(tree);
    end(pid);
}

/* --- they go on ------------------------------------------------------------------- */

/* Sends them all, as fast as the process takes them. */
static pid_t start_sender(pid_t to)
{
    union sigval none = {0};
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    for (unsigned i = 0; i < SIGNALS; i++)
        while (sigqueue(to, SIGRTMIN + 5, none) < 0 && errno == EAGAIN)
            usleep(100);
    _exit(0);
}

static void no_signal_is_lost_while_stacks_are_read(void **state)
{
    pid_t pid = start_eight(), sender = start_sender(pid);
    int64_t deadline = dlr_now_ms() + LIMIT_MS;

    while (waitpid(sender, NULL, WNOHANG) == 0)
        json_decref(stacks_of(pid, 0));
    while (shared->signals < SIGNALS && dlr_now_ms() < deadline)
        usleep(1000);
    assert_int_equal(shared->signals, SIGNALS);
    wait_for_turns();
    end(pid);
}

static void trap(void)
{
    signal(SIGTRAP, count_signal);
    shared->ready = 1;
    for (unsigned i = 0; i < SIGNALS; i++)
        raise(SIGTRAP);
    shared->ready = 2;
    for (;;)
        pause();
}

/* As debuggers' and profilers' break points are. */
static void no_trap_of_the_program_is_lost(void **state)
{
    pid_t pid = start(trap);
    int64_t deadline = dlr_now_ms() + LIMIT_MS;

    while (shared->ready < 2 && dlr_now_ms() < deadline)
        json_decref(stacks_of(pid, 0));
    assert_int_equal(shared->signals, SIGNALS);
    end(pid);
}

static void a_stopped_process_stays_stopped(void **state)
{
    pid_t pid = start_eight();
    int64_t deadline = dlr_now_ms() + LIMIT_MS;
    json_t *j;

    assert_int_equal(kill(pid, SIGSTOP), 0);
    while (state_of(pid) != 'T' && dlr_now_ms() < deadline)
        usleep(1000);
    j = stacks_of(pid, 0);
    assert_int_equal(count_threads(j, "turn", "turn_for_ever (", ""), 1);
    json_decref(j);
    while (state_of(pid) != 'T' && dlr_now_ms() < deadline)
        usleep(1000);
    assert_int_equal(state_of(pid), 'T');
    assert_int_equal(kill(pid, SIGCONT), 0);
    wait_for_turns();
    end(pid);
}

static void die(struct dlr_held *held, void *arg)
{
    kill(getpid(), SIGKILL);
}

static void a_reader_that_is_killed_leaves_nobody_stopped(void **state)
{
    pid_t pid = start_eight(), reader;
    int status;

    for (unsigned i = 0; i < 5; i++) {
        reader = fork();
        if (reader == 0) {
            struct dlr_held held[8] = {0};
            struct dlr_unwind_thread threads[DLR_UNWIND_THREADS];
            unsigned more;
            int n = dlr_unwind_threads(pid, threads, &more);

            for (int t = 0; t < n && t < 8; t++)
                held[t].tid = threads[n - 1 - t].tid;
            dlr_hold_threads(held, (unsigned)n, dlr_now_ms() + LIMIT_MS, die, NULL);
            _exit(0);
        }
        assert_int_equal(waitpid(reader, &status, 0), reader);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        wait_for_turns();
    }
    end(pid);
}

/* --- those that cannot be read ---------------------------------------------------- */

static void assert_note(json_t *j, const char *want)
{
    assert_int_equal(json_array_size(json_object_get(j, "threads")), 0);
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(j, "notes"), 0)), want);
    json_decref(j);
}

static void exit_at_once(void)
{
}

static void one_that_has_ended_is_named(void **state)
{
    pid_t pid = start(exit_at_once);
    siginfo_t info;
    char want[128];
    json_t *j;
    int rc;

    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    j = dlr_unwind_json(pid, dlr_now_ms() + LIMIT_MS, &rc);
    assert_true(rc < 0);
    snprintf(want, sizeof(want), "process %d has ended and is not waited for (zombie)",
             (int)pid);
    assert_note(j, want);
    end(pid);
    j = stacks_of(pid, -ESRCH);
    snprintf(want, sizeof(want), "process %d is not there", (int)pid);
    assert_note(j, want);
}

static void one_of_another_user_is_refused(void **state)
{
    pid_t pid, reader;
    int status;

    if (geteuid() != 0)
        skip();
    pid = start_eight();
    reader = fork();
    if (reader == 0) {
        char want[128];
        json_t *j;
        int rc;

        if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
            _exit(2);
        j = dlr_unwind_json(pid, dlr_now_ms() + LIMIT_MS, &rc);
        snprintf(want, sizeof(want), "process %d belongs to user 0, not to 65534",
                 (int)pid);
        _exit(rc == -EPERM && dlr_streq(json_string_value(json_array_get(
                                            json_object_get(j, "notes"), 0)),
                                        want)
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
    wait_for_turns();
    end(pid);
}

static void one_that_ends_meanwhile_does_no_harm(void **state)
{
    for (unsigned i = 0; i < 30; i++) {
        pid_t pid = start(eight_threads);
        pid_t killer = fork();
        int rc;

        if (killer == 0) {
            usleep(i * 300);
            kill(pid, SIGKILL);
            _exit(0);
        }
        json_decref(dlr_unwind_json(pid, dlr_now_ms() + LIMIT_MS, &rc));
        assert_int_equal(waitpid(killer, NULL, 0), killer);
        end(pid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_of_eight_threads_is_where_it_is),
        cmocka_unit_test(equal_threads_are_merged),
        cmocka_unit_test(no_signal_is_lost_while_stacks_are_read),
        cmocka_unit_test(no_trap_of_the_program_is_lost),
        cmocka_unit_test(a_stopped_process_stays_stopped),
        cmocka_unit_test(a_reader_that_is_killed_leaves_nobody_stopped),
        cmocka_unit_test(one_that_has_ended_is_named),
        cmocka_unit_test(one_of_another_user_is_refused),
        cmocka_unit_test(one_that_ends_meanwhile_does_no_harm),
    };

    return cmocka_run_group_tests(tests, block_children, NULL);
}
