/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/tasks/warm_start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/open_files.h"
#include "common/base/str.h"
#include "common/json/message.h"

static bool are_strings(const json_t *list)
{
    const json_t *word;
    size_t i;

    json_array_foreach(list, i, word)
    {
        if (!json_is_string(word))
            return false;
    }
    return json_array_size(list) > 0;
}

bool dlr_agent_warm_is_order(const json_t *order)
{
    const char *cwd;

    return are_strings(json_object_get(order, "words")) &&
           are_strings(json_object_get(order, "env")) &&
           dlr_msg_str(order, "cwd", &cwd) == 0;
}

/* NULL-terminated, on the heap; the strings are the list's. One may be added. */
static char **strings(const json_t *list)
{
    char **ret = calloc(json_array_size(list) + 2, sizeof(*ret));

    for (size_t i = 0; ret && i < json_array_size(list); i++)
        ret[i] = (char *)json_string_value(json_array_get(list, i));
    return ret;
}

/* Between fork and exec in a process with threads: async-signal-safe calls only. */
static void child(char **words, char **env, const char *cwd, pid_t parent)
{
    sigset_t none;
    int null_fd;

    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dlr_open_files_restore();
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    null_fd = open("/dev/null", O_RDWR);
    if (getppid() != parent || null_fd < 0 || chdir(cwd) < 0)
        _exit(127);
    dup2(null_fd, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    close_range(STDERR_FILENO + 1, ~0U, 0);
    environ = env;
    execvp(words[0], words);
    _exit(127);
}

int dlr_agent_warm_start(const json_t *order, const char *memory, pid_t *ret_pid,
                         int *ret_pidfd, struct dlr_err *err)
{
    DLR_AUTO_FREE char **words = strings(json_object_get(order, "words"));
    DLR_AUTO_FREE char **env = strings(json_object_get(order, "env"));
    const char *cwd = json_string_value(json_object_get(order, "cwd"));
    char socket[PATH_MAX + 64];
    pid_t pid, parent = getpid();
    int pidfd, rc;

    if (!words || !env)
        return dlr_fail(err, -ENOMEM, "out of memory");
    dlr_format(socket, sizeof(socket), "DLROVER_AGENT_SOCKET=%s/agent.sock", memory);
    env[json_array_size(json_object_get(order, "env"))] = socket;
    pid = fork();
    if (pid < 0)
        return dlr_fail(err, -errno, "cannot fork: %s", strerror(errno));
    if (pid == 0)
        child(words, env, cwd, parent);
    setpgid(pid, pid);
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        rc = -errno;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return dlr_fail(err, rc, "pidfd_open: %s", strerror(-rc));
    }
    *ret_pid = pid;
    *ret_pidfd = pidfd;
    return 0;
}

int dlr_agent_warm_reap(int pidfd)
{
    siginfo_t info = {0};

    if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG) < 0 || !info.si_pid)
        return -1;
    return info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : info.si_status;
}
