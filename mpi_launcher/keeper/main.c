/* SPDX-License-Identifier: Apache-2.0 */
/* What srun's pid becomes: small, no network. It starts the supervisor, adopts the
 * children of one that died, starts another, passes signals on, and returns its exit
 * code.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/file.h"
#include "common/base/install_path.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "mpi_launcher/keeper/child_exits.h"

#define MAX_LIVES 5     /* supervisors started for one run */
#define QUIET_MS 600000 /* one that lived so long does not count */
#define STATE_FD 9      /* where the supervisor finds the memory file */
#define BELL_FD 10      /* and the eventfd that rings for each of child_exits.h */
#define ABOVE_FDS 16    /* what is passed on is first moved out of their way */
/* for sruns to cancel their steps when no supervisor is left */
#define CHILDREN_MS 15000
#define EXIT_REFUSED 2 /* the supervisor's word that starting it again is no use */

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

struct keeper {
    char **argv;
    int state_fd, bell_fd, signal_fd;
    unsigned ended; /* processes of former supervisors */
    int told;       /* the newest signal that means the end */
};

static void usage(FILE *out)
{
    fputs("usage: dlrover-keeper [--OPTION=VALUE]... -- SRUN-ARGUMENT...\n"
          "Started by the plugin in place of a supervised srun; not meant for people.\n"
          "It starts dlrover-supervisor with the same arguments and starts it again\n"
          "when it dies.\n",
          out);
}

/* Where stderr is a file its server may hang, and the run needs us: then a child says
 * it.
 */
static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
    pid_t pid = dlr_is_file(STDERR_FILENO) ? fork() : -1;
    char text[256];
    va_list ap;

    if (pid > 0)
        return; /* it is reaped as any other child */
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    dlr_warn("%s", text);
    if (pid == 0)
        _exit(0);
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

/* True when both are where the supervisor looks for them. Close-on-exec is off there.
 */
static bool pass_on(int state_fd, int bell_fd)
{
    int state = fcntl(state_fd, F_DUPFD_CLOEXEC, ABOVE_FDS);
    int bell = fcntl(bell_fd, F_DUPFD_CLOEXEC, ABOVE_FDS);

    return state >= 0 && bell >= 0 && dup2(state, STATE_FD) == STATE_FD &&
           dup2(bell, BELL_FD) == BELL_FD;
}

/* Signals stay blocked: the supervisor reads them when it is ready, and one that comes
 * while it starts does not kill it. Without us it ends the run: SIGTERM when we are
 * gone.
 */
static void become_supervisor(const struct keeper *k, pid_t parent)
{
    char path[PATH_MAX];

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1); /* the keeper is gone already */
    if (!pass_on(k->state_fd, k->bell_fd) ||
        dlr_install_path_sibling("dlrover-supervisor", path, sizeof(path)) < 0)
        _exit(127);
    k->argv[0] = path;
    execv(path, k->argv);
    dlr_error("cannot start '%s': %s", path, strerror(errno));
    _exit(127);
}

static pid_t start_supervisor(const struct keeper *k)
{
    pid_t self = getpid(), pid = fork();

    if (pid == 0)
        become_supervisor(k, self);
    if (pid < 0)
        dlr_error("cannot start the supervisor: %s", strerror(errno));
    return pid;
}

/* Reaps what has ended; true when the supervisor did. Others are the sruns of a
 * supervisor that died: they became ours, and the next one is told how they ended.
 */
static bool reap(struct keeper *k, pid_t supervisor, int *ret_status)
{
    bool ended = false;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == supervisor) {
            *ret_status = status;
            ended = true;
            continue;
        }
        if (dlr_child_exits_add(k->state_fd, ++k->ended, pid, status) < 0)
            dlr_warn("the end of process %d is not told", (int)pid);
        eventfd_write(k->bell_fd, 1);
    }
    return ended;
}

/* Passes signals on until the supervisor has ended; its wait status. */
static int watch(struct keeper *k, pid_t supervisor)
{
    struct pollfd pfd = {.fd = k->signal_fd, .events = POLLIN};
    struct signalfd_siginfo info;
    int status = 0;

    for (;;) {
        if (poll(&pfd, 1, -1) < 0 && errno != EINTR)
            dlr_warn("poll: %s", strerror(errno));
        while (read(k->signal_fd, &info, sizeof(info)) == sizeof(info)) {
            if (info.ssi_signo == SIGCHLD)
                continue;
            kill(supervisor, info.ssi_signo);
            if (info.ssi_signo != SIGUSR1 && info.ssi_signo != SIGUSR2)
                k->told = info.ssi_signo;
        }
        if (reap(k, supervisor, &status))
            return status;
    }
}

/* No supervisor will end what the last one left: its sruns are our children now. They
 * cancel their steps when they are told to end.
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
        say("the supervisor died %u times, giving up", lives);
    end_children(signal_fd);
    return WIFSIGNALED(status) ? 1 : 127;
}

static int prepare(struct keeper *k)
{
    int rc;

    dlr_process_keep_secrets(); /* the key pair is in the memory file */
    k->state_fd = memfd_create("dlrover-state", MFD_CLOEXEC);
    k->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (k->state_fd < 0 || k->bell_fd < 0)
        return -errno;
    rc = block_signals(&k->signal_fd);
    if (rc < 0)
        return rc;
    return prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? -errno : 0;
}

static int run(struct keeper *k)
{
    int status, code;

    for (unsigned lives = 1;; lives++) {
        int64_t begun = dlr_now_ms();
        pid_t pid = start_supervisor(k);

        if (pid < 0) {
            end_children(k->signal_fd);
            return 1;
        }
        if (k->told) /* the one that died may not have heeded it */
            kill(pid, k->told);
        status = watch(k, pid);
        if (dlr_now_ms() - begun > QUIET_MS)
            lives = 1;
        code = last_word(status, lives, k->signal_fd);
        if (code >= 0)
            return code;
        say("the supervisor was killed by signal %d, starting it again",
            WTERMSIG(status));
    }
}

int main(int argc, char **argv)
{
    struct keeper k = {.argv = argv};
    int rc;

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
    rc = prepare(&k);
    if (rc < 0) {
        dlr_error("cannot prepare the keeper: %s", strerror(-rc));
        return 1;
    }
    return run(&k);
}
