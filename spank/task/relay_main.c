/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover-relay: a task that stands for a process which stayed when the round before
 * ended. That one gets its environment and output; it passes signals on, and ends as
 * that ends. Where none waits it becomes the program.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/local/message.h"

#define RELAY_MS 5000 /* the agent to take the question, and to answer */

static int environment(void)
{
    DLR_AUTO_CLOSE int fd = memfd_create("dlrover-environment", MFD_CLOEXEC);

    for (char **e = environ; fd >= 0 && *e; e++)
        if (dlr_write_all(fd, *e, strlen(*e) + 1) < 0)
            return -1;
    return dlr_steal_fd(&fd);
}

/* Asks the agent for the process of this rank; its pid, 0: there is none. */
static pid_t ask(int *ret_sock)
{
    const char *path = getenv("DLROVER_AGENT_SOCKET");
    DLR_AUTO_CLOSE int env = environment(), sock = -1;
    int fds[DLR_LOCAL_FDS] = {STDOUT_FILENO, STDERR_FILENO, env};
    struct dlr_local_msg m;
    unsigned round, rank, nfds = 0;

    if (!path || env < 0 ||
        dlr_parse_uint(getenv("DLROVER_ROUND"), UINT32_MAX, &round) < 0 ||
        dlr_parse_uint(getenv("SLURM_PROCID"), INT32_MAX, &rank) < 0 ||
        dlr_local_connect(path, RELAY_MS, &sock, NULL) < 0)
        return 0;
    dlr_local_init(&m, DLR_LOCAL_RELAY);
    m.round = round;
    m.rank = (int32_t)rank;
    if (dlr_local_send(sock, &m, fds, 3) < 0 ||
        dlr_local_recv(sock, &m, fds, &nfds) <= 0 || m.type != DLR_LOCAL_RELAYED ||
        nfds > 0 || m.arg[0] <= 1 || m.arg[0] > INT32_MAX)
        return 0;
    *ret_sock = dlr_steal_fd(&sock);
    return (pid_t)m.arg[0];
}

static void end_as(int status)
{
    struct rlimit none = {0};
    sigset_t all;

    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    setrlimit(RLIMIT_CORE, &none);
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    _exit(128 + WTERMSIG(status));
}

/* False: the agent is gone. What it left is ended by the next one. */
static bool hear(int sock)
{
    int fds[DLR_LOCAL_FDS];
    struct dlr_local_msg m;
    unsigned nfds = 0;
    int rc = dlr_local_recv(sock, &m, fds, &nfds);

    if (rc == -EAGAIN)
        return true;
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
    if (rc > 0 && m.type == DLR_LOCAL_RELAY_END)
        end_as((int)m.arg[0]);
    return rc > 0;
}

static void stand_for(pid_t pid, int sock)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct signalfd_siginfo info;
    struct pollfd fds[2] = {{.fd = sock, .events = POLLIN}, {.events = POLLIN}};
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    fds[1].fd = signalfd(-1, &all, SFD_CLOEXEC);
    for (;;) {
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents & POLLIN &&
            read(fds[1].fd, &info, sizeof(info)) == sizeof(info) && pidfd >= 0)
            syscall(SYS_pidfd_send_signal, pidfd, (int)info.ssi_signo, NULL, 0);
        if (fds[0].fd >= 0 && fds[0].revents && !hear(sock))
            fds[0].fd = -1;
    }
}

int main(int argc, char *argv[])
{
    int sock = -1;
    pid_t pid;

    if (argc < 2 || (argc == 2 && dlr_streq(argv[1], "--help"))) {
        fputs(
            "usage: dlrover-relay PROGRAM [ARGUMENT...]\n"
            "Started by the supervisor; not meant for people. It stands for a process "
            "of its\nrank that stayed on this node, or starts the program.\n",
            argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    if (argc == 2 && dlr_streq(argv[1], "--version")) {
        puts("dlrover-relay " DLR_VERSION);
        return 0;
    }
    pid = ask(&sock);
    if (pid > 0)
        stand_for(pid, sock);
    execvp(argv[1], argv + 1);
    fprintf(stderr, "dlrover-relay: cannot start '%s': %s\n", argv[1], strerror(errno));
    return 127;
}
