/* SPDX-License-Identifier: Apache-2.0 */
/* What srun's pid becomes: small, no network. It starts the supervisor, adopts the children
 * of one that died, starts another, passes signals on, and returns its exit code.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/self.h"
#include "common/str.h"

#define MAX_LIVES 5     /* supervisors started for one run */
#define QUIET_MS 600000 /* one that lived so long does not count */
#define STATE_FD 9      /* where the supervisor finds the memory file */
#define CHILDREN_MS                                                                    \
    15000              /* for sruns to cancel their steps when no supervisor is left */
#define EXIT_REFUSED 2 /* the supervisor's word that starting it again is no use */

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

static void usage(FILE *out)
{
    fputs("usage: dlrover-keeper [--OPTION=VALUE]... -- SRUN-ARGUMENT...\n"
          "Started by the plugin in place of a supervised srun; not meant for people.\n"
          "It starts dlrover-supervisor with the same arguments and starts it again\n"
          "when it dies.\n",
          out);
}

static int block_signals(int *ret_fd)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (unsigned i = 0; i < sizeof(passed_on) / sizeof(*passed_on); i++)
        sigaddset(&set, passed_on[i]);
    if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
        return -errno;
    *ret_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return *ret_fd < 0 ? -errno : 0;
}

/* Signals stay blocked: the supervisor reads them when it is ready, and one that comes while it
 * starts does not kill it.
 */
static void become_supervisor(char **argv, int state_fd, pid_t parent)
{
    char path[PATH_MAX];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* the keeper is gone already */
    if (dup2(state_fd, STATE_FD) < 0)
        _exit(127);
    if (dlr_self_sibling("dlrover-supervisor", path, sizeof(path)) < 0)
        _exit(127);
    argv[0] = path;
    execv(argv[0], argv);
    dlr_error("cannot start '%s': %s", argv[0], strerror(errno));
    _exit(127);
}

static pid_t start_supervisor(char **argv, int state_fd)
{
    pid_t self = getpid(), pid = fork();

    if (pid == 0)
        become_supervisor(argv, state_fd, self);
    if (pid < 0)
        dlr_error("cannot start the supervisor: %s", strerror(errno));
    return pid;
}

/* Reaps what has ended; true when the supervisor did. Others are the sruns of a supervisor
 * that died: they became ours.
 */
static bool reap(pid_t supervisor, int *ret_status)
{
    bool ended = false;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == supervisor) {
            *ret_status = status;
            ended = true;
        }
    }
    return ended;
}

/* Passes signals on until the supervisor has ended; its wait status. *ret_told: the newest
 * signal that means the end.
 */
static int watch(pid_t supervisor, int signal_fd, int *ret_told)
{
    struct pollfd pfd = {.fd = signal_fd, .events = POLLIN};
    struct signalfd_siginfo info;
    int status = 0;

    for (;;) {
        if (poll(&pfd, 1, -1) < 0 && errno != EINTR)
            dlr_warn("poll: %s", strerror(errno));
        while (read(signal_fd, &info, sizeof(info)) == sizeof(info)) {
            if (info.ssi_signo == SIGCHLD)
                continue;
            kill(supervisor, info.ssi_signo);
            if (info.ssi_signo != SIGUSR1 && info.ssi_signo != SIGUSR2)
                *ret_told = info.ssi_signo;
        }
        if (reap(supervisor, &status))
            return status;
    }
}

/* No supervisor will end what the last one left: its sruns are our children now. They cancel
 * their steps when they are told to end.
 */
static void end_children(int signal_fd)
{
    struct pollfd pfd = {.fd = signal_fd, .events = POLLIN};
    struct signalfd_siginfo info;
    int64_t until = dlr_now_ms() + CHILDREN_MS;
    char path[64], text[4096] = "";
    DLR_AUTO_CLOSE int fd = -1;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    for (char *at = text, *end; *at; at = *end ? end + 1 : end) {
        pid_t pid = (pid_t)strtol(at, &end, 10);

        if (pid <= 1 || end == at)
            break;
        kill(pid, SIGTERM);
    }
    for (;;) {
        int64_t left = until - dlr_now_ms();
        pid_t pid;

        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (pid < 0 || left <= 0)
            return;
        poll(&pfd, 1, (int)left);
        while (read(signal_fd, &info, sizeof(info)) == sizeof(info))
            ; /* a child has ended, or somebody is impatient */
    }
}

/* The exit code when no supervisor is to be started any more, -1 otherwise. */
static int last_word(int status, unsigned lives, int signal_fd)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) != 127)
        return WEXITSTATUS(status);
    if (WIFSIGNALED(status) && lives < MAX_LIVES)
        return -1;
    if (WIFSIGNALED(status))
        dlr_error("the supervisor died %u times, giving up", lives);
    end_children(signal_fd);
    return WIFSIGNALED(status) ? 1 : 127;
}

static int run(char **argv)
{
    DLR_AUTO_CLOSE int state_fd = memfd_create("dlrover-state", MFD_CLOEXEC);
    DLR_AUTO_CLOSE int signal_fd = -1;
    int status, code, told = 0;

    dlr_self_keep_secrets(); /* the key pair is in the memory file */
    if (state_fd < 0 || block_signals(&signal_fd) < 0 ||
        prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) {
        dlr_error("cannot prepare the keeper: %s", strerror(errno));
        return 1;
    }
    for (unsigned lives = 1;; lives++) {
        int64_t begun = dlr_now_ms();
        pid_t pid = start_supervisor(argv, state_fd);

        if (pid < 0) {
            end_children(signal_fd);
            return 1;
        }
        if (told) /* the one that died may not have heeded it */
            kill(pid, told);
        status = watch(pid, signal_fd, &told);
        if (dlr_now_ms() - begun > QUIET_MS)
            lives = 1;
        code = last_word(status, lives, signal_fd);
        if (code >= 0)
            return code;
        dlr_warn("the supervisor was killed by signal %d, starting it again",
                 WTERMSIG(status));
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && dlr_streq(argv[1], "--help")) {
        usage(stdout);
        return 0;
    }
    if (argc == 2 && dlr_streq(argv[1], "--version")) {
        puts("dlrover-keeper " DLR_VERSION);
        return 0;
    }
    if (argc < 3) {
        usage(stderr);
        return EXIT_REFUSED;
    }
    return run(argv);
}
