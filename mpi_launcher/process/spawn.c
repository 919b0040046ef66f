/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/open_files.h"

#define PASS_FD 3

/* What is sent to all of a job's processes is not for these: whoever has started one
 * ends it.
 */
static const int others[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGUSR1,
                             SIGUSR2, SIGALRM, SIGTERM};

/* Between fork and exec in a process with threads: async-signal-safe calls only. */
static void child(const struct dlr_spawn *spawn, int null_fd, int report_fd,
                  pid_t parent)
{
    sigset_t none;
    int rc;

    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    for (unsigned i = 0; i < sizeof(others) / sizeof(*others); i++)
        signal(others[i], SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dlr_open_files_restore();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    report_fd = fcntl(report_fd, F_DUPFD_CLOEXEC, PASS_FD + 1);
    dup2(null_fd, STDIN_FILENO);
    dup2(spawn->out_fd >= 0 ? spawn->out_fd : null_fd, STDOUT_FILENO);
    if (spawn->pass_fd == PASS_FD)
        fcntl(PASS_FD, F_SETFD, 0);
    else if (spawn->pass_fd >= 0)
        dup2(spawn->pass_fd, PASS_FD);
    close_range(spawn->pass_fd >= 0 ? PASS_FD + 1 : PASS_FD, ~0U,
                spawn->at_once ? 0 : CLOSE_RANGE_CLOEXEC);
    execv(spawn->argv[0], (char *const *)spawn->argv);
    rc = errno;
    (void)!write(report_fd, &rc, sizeof(rc));
    _exit(127);
}

int dlr_spawn(const struct dlr_spawn *spawn, pid_t *ret_pid, int *ret_pidfd,
              struct dlr_err *err)
{
    DLR_AUTO_CLOSE int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    DLR_AUTO_CLOSE int out = -1;
    DLR_AUTO_CLOSE int in = -1;
    DLR_AUTO_CLOSE int pidfd = -1;
    pid_t pid, parent = getpid();
    int pipefd[2], failed = 0;

    if (null_fd < 0 || pipe2(pipefd, O_CLOEXEC) < 0)
        return dlr_fail(err, -errno, "cannot start '%s': %s", spawn->argv[0],
                        strerror(errno));
    in = pipefd[0];
    out = pipefd[1];
    pid = fork();
    if (pid < 0)
        return dlr_fail(err, -errno, "cannot fork: %s", strerror(errno));
    if (pid == 0)
        child(spawn, null_fd, out, parent);
    close(out);
    out = -1;
    if (!spawn->at_once && dlr_read_all(in, &failed, sizeof(failed)) == 0) {
        waitpid(pid, NULL, 0);
        return dlr_fail(err, -failed, "cannot run '%s': %s", spawn->argv[0],
                        strerror(failed));
    }
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        int rc = -errno;

        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return dlr_fail(err, rc, "pidfd_open: %s", strerror(-rc));
    }
    *ret_pid = pid;
    *ret_pidfd = dlr_steal_fd(&pidfd);
    return 0;
}

int dlr_spawn_reap(int pidfd, int *ret_status)
{
    siginfo_t info = {0};

    if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG) < 0)
        return -errno;
    if (info.si_pid == 0)
        return -EAGAIN;
    close(pidfd);
    *ret_status =
        info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : info.si_status;
    return 0;
}
