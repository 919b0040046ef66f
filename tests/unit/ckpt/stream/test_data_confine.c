/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-data */
/* What the data process can no longer do, each thing in a process of its own and in a
 * thread that was there before; and that the program itself is confined so.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/confine/confine.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "tests/unit/ckpt/stream/data_pair.h"

static char memory[64], run_dir[128], beside[128], outside[64];

static int result(long rc)
{
    return rc < 0 ? -errno : 0;
}

static int runs_a_program(void)
{
    char *const argv[] = {"true", NULL};

    return result(execv("/bin/true", argv)); /* which ends with 0 */
}

static int forks(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return result(pid);
}

static int signals_its_parent(void)
{
    return result(kill(getppid(), 0));
}

static int signals_a_thread_of_its_parent(void)
{
    return result(syscall(SYS_tgkill, getppid(), getppid(), 0));
}

static int signals_itself(void)
{
    return result(syscall(SYS_tgkill, getpid(), gettid(), 0));
}

static int signals_its_parent_by_a_file(void)
{
    int pair[2];

    return pipe(pair) < 0 ? -errno : result(fcntl(pair[0], F_SETOWN, getppid()));
}

static int signals_its_parent_by_a_socket(void)
{
    int parent = getppid(), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return fd < 0 ? -errno : result(ioctl(fd, FIOSETOWN, &parent));
}

static int reads_its_own_memory(void)
{
    char from = 1, to = 0;
    const struct iovec a = {&to, 1}, b = {&from, 1};

    return result(process_vm_readv(getpid(), &a, 1, &b, 1, 0));
}

static int reads_its_parents_limits(void)
{
    struct rlimit limit;

    return result(prlimit(getppid(), RLIMIT_NOFILE, NULL, &limit));
}

/* ESRCH where it may ask: it traces nobody. */
static int traces(void)
{
    ptrace(PTRACE_CONT, getppid(), NULL, NULL);
    return errno == ESRCH ? 0 : -errno;
}

static int opens_itself_again(void)
{
    return result(prctl(PR_SET_DUMPABLE, 1));
}

static int is_open_to_others(void)
{
    return prctl(PR_GET_DUMPABLE) ? 0 : -EPERM;
}

static int gains_privileges(void)
{
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) ? -EPERM : 0;
}

static int dumps_core(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_max > 0 ? 0 : -EPERM;
}

static int unshares(void)
{
    return result(unshare(CLONE_FILES));
}

static int changes_its_personality(void)
{
    return result(personality(0xffffffff));
}

static int connects_to_a_daemon(void)
{
    return result(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int opens_a_socket(void)
{
    return result(socket(AF_INET, SOCK_STREAM, 0));
}

static void *nothing(void *arg)
{
    return NULL;
}

static int starts_a_thread(void)
{
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, nothing, NULL);

    return rc ? -rc : -pthread_join(thread, NULL);
}

static int opens(const char *dir, int flags)
{
    char path[256];
    int fd;

    dlr_format(path, sizeof(path), "%s/file", dir);
    fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return result(fd);
}

static int reads_outside(void)
{
    return opens(outside, O_RDONLY);
}

static int writes_outside(void)
{
    return opens(outside, O_WRONLY | O_CREAT);
}

static int writes_its_memory(void)
{
    return opens(memory, O_RDWR | O_CREAT | O_TRUNC);
}

static int removes_and_renames(void)
{
    char from[256], to[256];

    if (opens(run_dir, O_WRONLY | O_CREAT) < 0)
        return -errno;
    dlr_format(from, sizeof(from), "%s/file", run_dir);
    dlr_format(to, sizeof(to), "%s/other", run_dir);
    return rename(from, to) < 0 ? -errno : result(unlink(to));
}

static int reads_another_jobs_state(void)
{
    return opens(beside, O_RDONLY);
}

static int writes_another_jobs_state(void)
{
    return opens(beside, O_WRONLY);
}

static int reads_devices(void)
{
    return result(open("/dev/zero", O_RDWR | O_CLOEXEC));
}

static int lists_terminals(void)
{
    return result(open("/dev/pts", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static const struct {
    const char *name;
    int (*fn)(void);
    int want; /* of a confined process; free, each works */
} rows[] = {
    {"run a program", runs_a_program, -EPERM},
    {"fork", forks, -EPERM},
    {"signal another process", signals_its_parent, -EPERM},
    {"signal a thread of another", signals_a_thread_of_its_parent, -EPERM},
    {"signal another as a file's owner", signals_its_parent_by_a_file, -EPERM},
    {"signal another as a socket's owner", signals_its_parent_by_a_socket, -EPERM},
    {"change limits of another", reads_its_parents_limits, -EPERM},
    {"trace", traces, -EPERM},
    {"be open to others of its user", is_open_to_others, -EPERM},
    {"open itself to them again", opens_itself_again, -EPERM},
    {"gain privileges", gains_privileges, -EPERM},
    {"dump core", dumps_core, -EPERM},
    {"unshare", unshares, -EPERM},
    {"change its personality", changes_its_personality, -EPERM},
    {"connect to a daemon", connects_to_a_daemon, -EAFNOSUPPORT},
    {"read a file outside", reads_outside, -EACCES},
    {"write a file outside", writes_outside, -EACCES},
    {"list its user's terminals", lists_terminals, -EACCES},
    {"write another job's state", writes_another_jobs_state, -EACCES},
    {"signal itself", signals_itself, 0},
    {"read its own memory", reads_its_own_memory, 0},
    {"open a socket", opens_a_socket, 0},
    {"start a thread", starts_a_thread, 0},
    {"write into its memory directory", writes_its_memory, 0},
    {"remove and rename in the run's", removes_and_renames, 0},
    {"read another job's state", reads_another_jobs_state, 0},
    {"use a device", reads_devices, 0},
};

struct older { /* a thread that is there when the process is confined */
    pthread_barrier_t confined;
    int (*fn)(void);
};

static void *in_older(void *arg)
{
    struct older *o = arg;

    pthread_barrier_wait(&o->confined);
    return (void *)(intptr_t)o->fn();
}

/* 0 or -errno of fn in a process of its own; thread: in a thread that it had before. */
static int try_it(int (*fn)(void), bool confined, bool thread)
{
    const struct dlr_confine c = {memory, run_dir, "", ""};
    struct older o = {.fn = fn};
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        pthread_t id;
        char missing[256];
        void *rc;

        pthread_barrier_init(&o.confined, NULL, 2);
        if (thread)
            pthread_create(&id, NULL, in_older, &o);
        if (confined)
            dlr_confine(&c, missing, sizeof(missing));
        if (confined && missing[0])
            _exit(255);
        if (!thread)
            _exit(-fn());
        pthread_barrier_wait(&o.confined);
        pthread_join(id, &rc);
        _exit(-(int)(intptr_t)rc);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), 255); /* a step of it is missing here */
    return -WEXITSTATUS(status);
}

static void what_a_confined_process_cannot_do(void **state)
{
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        for (unsigned thread = 0; thread < 2; thread++) {
            int rc = try_it(rows[i].fn, true, thread), was;

            if (rc != rows[i].want)
                fail_msg("%s%s: %s", rows[i].name, thread ? ", in a thread" : "",
                         strerror(-rc));
            was = try_it(rows[i].fn, false, thread);
            if (was != 0)
                fail_msg("%s, free%s: %s", rows[i].name, thread ? ", in a thread" : "",
                         strerror(-was));
        }
    }
}

/* A state directory that is not there, or does not answer, costs that one step and no
 * other.
 */
static void a_missing_directory_leaves_the_other_steps(void **state)
{
    const struct dlr_confine c = {memory, "/nonexistent/a/b", "", ""};
    char missing[256];
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        dlr_confine(&c, missing, sizeof(missing));
        _exit(!dlr_streq(missing, "files (No such file or directory)") ||
              forks() != -EPERM || reads_outside() != 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* The value of a line of /proc/PID/task/TID/status; -1: none. */
static int field(const char *path, const char *name)
{
    DLR_AUTO_FCLOSE FILE *f = fopen(path, "re");
    char line[256];

    while (f && fgets(line, sizeof(line), f)) {
        const char *rest = dlr_after(line, name);

        if (rest)
            return atoi(rest + 1);
    }
    return -1;
}

static void every_thread_of_the_program_is_confined(void **state)
{
    char path[512], words[512];
    DLR_AUTO_CLOSEDIR DIR *dir = NULL;
    struct dirent *e;
    struct pair p;
    unsigned n = 0;

    dlr_format(words, sizeof(words), "--memory=/dev/shm --run-dir=%s", run_dir);
    pair_up(&p, MIB, words);
    dlr_format(path, sizeof(path), "/proc/%d/task", p.from.pid);
    dir = opendir(path);
    while (dir && (e = readdir(dir))) {
        if (e->d_name[0] == '.')
            continue;
        dlr_format(path, sizeof(path), "/proc/%d/task/%.20s/status", p.from.pid,
                   e->d_name);
        assert_int_equal(field(path, "NoNewPrivs:"), 1);
        assert_int_equal(field(path, "Seccomp:"), 2);
        n++;
    }
    assert_true(n > 3);
    /* It copies, writes and reads where it is told to, and nowhere else. */
    pair_send(&p, (struct dlr_version){ROUND, 7}, 1);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), 0);
    pair_expect_copy(&p, p.src);
    dlr_format(path, sizeof(path), "%s/a.safetensors", run_dir);
    rig_save(&p.from, ROUND, RANK, (struct dlr_version){ROUND, 7}, 2, path, 0);
    assert_int_equal(rig_done(&p.from, 2, NULL, 0), 0);
    unlink(path);
    dlr_format(path, sizeof(path), "%s/a.safetensors", outside);
    rig_save(&p.from, ROUND, RANK, (struct dlr_version){ROUND, 7}, 3, path, 0);
    assert_int_equal(rig_done(&p.from, 3, NULL, 0), EACCES);
    pair_down(&p);
}

static int make_directories(void **state)
{
    char path[160];

    dlr_format(memory, sizeof(memory), "/dev/shm/dlr-confine-XXXXXX");
    dlr_format(outside, sizeof(outside), "/tmp/dlr-outside-XXXXXX");
    if (!mkdtemp(memory) || !mkdtemp(outside) || opens(outside, O_CREAT | O_WRONLY) < 0)
        return -1;
    dlr_format(beside, sizeof(beside), "%s/state/job-2", outside);
    dlr_format(run_dir, sizeof(run_dir), "%s/state/job-1/run", outside);
    dlr_format(path, sizeof(path), "mkdir -p %s %s", beside, run_dir);
    return system(path) || opens(beside, O_CREAT | O_WRONLY) < 0;
}

static int remove_directories(void **state)
{
    char path[160];

    dlr_format(path, sizeof(path), "rm -r %s %s", memory, outside);
    return system(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_confined_process_cannot_do),
        cmocka_unit_test(a_missing_directory_leaves_the_other_steps),
        cmocka_unit_test(every_thread_of_the_program_is_confined),
    };

    setenv("UCX_TLS", "tcp,self", 1); /* shared memory would hide the network */
    setenv(RIG_TRANSPORT, "ucx", 1);  /* the more there is to confine */
    return cmocka_run_group_tests(tests, make_directories, remove_directories);
}
