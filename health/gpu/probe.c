/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the driver, which may never answer, and the library, which is not ours: in
 * dlrover-gpu, a process of its own. A thread (bounded.c) would not do: one that hangs
 * in the driver's part of the kernel keeps its process, here a rank of MPI, from ending.
 */
#include "health/gpu/gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/install_path.h"
#include "common/base/str.h"
#include "health/checks.h"

#define HELPER "dlrover-gpu"
#define ANSWER_MAX (256u << 10)
/* Without nvidia-persistenced each GPU takes a second or two to begin with: eight may
 * not be through by then, and have said something all the while.
 */
#define GPU_ANSWER_MS 8000
/* The kernel's part of a call cannot be broken off. */
#define GPU_KILL_MS 3000

extern char **environ;

static void take(struct dlr_gpu_facts *facts, char *text)
{
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (!next)
            return; /* cut off */
        *next++ = '\0';
        dlr_gpu_facts_line(facts, line);
    }
}

/* Beside the program that runs, else where it is installed. */
static int find(char *path, size_t size)
{
    if (dlr_install_path_sibling(HELPER, path, size) == 0 && access(path, X_OK) == 0)
        return 0;
    if (dlr_format(path, size, "%s/" HELPER, DLR_LIBEXECDIR) < 0)
        return -ENAMETOOLONG;
    return access(path, X_OK) < 0 ? -errno : 0;
}

static int spawn(const char *path, const char *word, int out, pid_t *ret_pid)
{
    char *argv[] = {(char *)path, (char *)word, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int rc;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
    rc = posix_spawn(ret_pid, path, &files, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return -rc;
}

/* Reads to the end of file. When the time is up -ETIMEDOUT, or -EBUSY if something was
 * said in its second half: a driver that is slow and does not hang.
 */
static int read_answer(int fd, int64_t timeout_ms, char *text, size_t size)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int64_t until_ms = dlr_now_ms() + timeout_ms, said_ms = 0;
    size_t n = 0;

    for (;;) {
        int64_t left_ms = until_ms - dlr_now_ms();
        ssize_t got;

        if (left_ms <= 0)
            return said_ms > until_ms - timeout_ms / 2 ? -EBUSY : -ETIMEDOUT;
        if (n + 1 == size)
            return -EFBIG;
        if (poll(&p, 1, (int)left_ms) <= 0)
            continue;
        got = read(fd, text + n, size - n - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0 ? 0 : -errno;
        said_ms = dlr_now_ms();
        n += (size_t)got;
        text[n] = '\0';
    }
}

/* False: it is still there after that time. */
static bool reap(pid_t pid, int64_t timeout_ms, siginfo_t *ret)
{
    DLR_AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};

    if (pidfd >= 0)
        poll(&p, 1, (int)timeout_ms);
    memset(ret, 0, sizeof(*ret));
    return waitid(P_PID, (id_t)pid, ret, WEXITED | WNOHANG) == 0 && ret->si_pid == pid;
}

/* Whoever has said all may take long to end: the driver puts its GPUs to rest. */
static void how_it_ended(struct dlr_health_gpus *ret, pid_t pid, int rc)
{
    siginfo_t info;
    bool gone = reap(pid, ret->facts.ended ? 0 : GPU_KILL_MS, &info);

    if (ret->facts.ended)
        ret->asked = DLR_GPU_ASKED;
    else if (rc == -EBUSY)
        ret->asked = DLR_GPU_LATE;
    else if (rc == -ETIMEDOUT)
        ret->asked = gone ? DLR_GPU_SILENT : DLR_GPU_STUCK;
    else
        ret->asked = DLR_GPU_BROKEN;
    if (gone && info.si_code == CLD_EXITED)
        dlr_format(ret->why, sizeof(ret->why), "exit code %d", info.si_status);
    else
        dlr_format(ret->why, sizeof(ret->why), "signal %d (%s)", info.si_status,
                   strsignal(info.si_status));
}

static void ask(const char *path, const char *word, int64_t timeout_ms, char *text,
                struct dlr_health_gpus *ret)
{
    DLR_AUTO_CLOSE int in = -1;
    DLR_AUTO_CLOSE int out = -1;
    int fds[2], rc;
    pid_t pid;

    rc = pipe2(fds, O_CLOEXEC) < 0 ? -errno : 0;
    if (rc == 0) {
        in = fds[0];
        out = fds[1];
        rc = spawn(path, word, out, &pid);
    }
    if (rc < 0) {
        dlr_format(ret->why, sizeof(ret->why), "%s", strerror(-rc));
        return;
    }
    close(out);
    out = -1;
    rc = read_answer(in, timeout_ms, text, ANSWER_MAX);
    if (rc < 0)
        kill(pid, SIGKILL);
    take(&ret->facts, text);
    how_it_ended(ret, pid, rc);
}

static void from_file(const char *root, const char *word, struct dlr_health_gpus *ret)
{
    DLR_AUTO_FREE char *text = NULL;
    char path[PATH_MAX];
    size_t size;

    ret->asked = DLR_GPU_ASKED;
    if (dlr_format(path, sizeof(path), "%s/gpu%s%s", root, word ? "-" : "",
                   word ? word : "") == 0 &&
        dlr_file_load(AT_FDCWD, path, ANSWER_MAX, &text, &size, NULL) == 0)
        take(&ret->facts, text);
}

void dlr_health_gpus_ask(const struct dlr_health_env *env, const char *word,
                         int64_t timeout_ms, struct dlr_health_gpus *ret)
{
    DLR_AUTO_FREE char *text = calloc(1, ANSWER_MAX);
    char path[PATH_MAX];
    int rc;

    memset(ret, 0, sizeof(*ret));
    ret->asked = DLR_GPU_FAILED;
    dlr_gpu_facts_init(&ret->facts);
    rc = env->gpu_helper ? dlr_format(path, sizeof(path), "%s", env->gpu_helper)
                         : find(path, sizeof(path));
    if (env->root[0])
        from_file(env->root, word, ret);
    else if (rc < 0 || !text)
        dlr_format(ret->why, sizeof(ret->why), "%s", strerror(text ? -rc : ENOMEM));
    else
        ask(path, word, timeout_ms, text, ret);
    dlr_health_gpus_scope(env, ret);
    dlr_health_gpus_inject(env, word != NULL, ret);
}

struct dlr_health_gpus *dlr_health_gpus_new(void)
{
    return calloc(1, sizeof(struct dlr_health_gpus));
}

const struct dlr_health_gpus *dlr_health_gpus(const struct dlr_health_env *env)
{
    if (env->gpus->asked == DLR_GPU_NOT_ASKED)
        dlr_health_gpus_ask(env, NULL, GPU_ANSWER_MS, env->gpus);
    return env->gpus;
}
