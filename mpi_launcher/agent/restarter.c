/* SPDX-License-Identifier: Apache-2.0 */
/* An agent that dies is not a node that dies: its parent, which does nothing else,
 * starts it again. The snapshots are files and wait for the next one; what else there
 * was of the round the parent has kept for it (base/kept.h).
 */
#include "mpi_launcher/agent/restarter.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/open_files.h"
#include "mpi_launcher/agent/base/kept.h"

#define NAME "dlrover-nanny" /* as ps shows it */
#define MAX_LIVES 5          /* of agents that die */
#define QUIET_MS 600000      /* one that lived so long does not count */

struct nanny {
    const char *node;
    sigset_t set, before; /* our signals; those of the agent */
    int signal_fd;
    struct dlr_kept *kept; /* NULL: nothing is */
};

static void become_agent(const struct nanny *n, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    close(n->signal_fd);
    dlr_kept_begin(n->kept);
    sigprocmask(SIG_SETMASK, &n->before, NULL);
}

/* Signals to the step are passed on to the agent, and, since proctrack/cgroup tells our
 * own parent alone, that the job is suspended and resumed.
 */
static void pass_signals(const struct nanny *n, pid_t child)
{
    struct signalfd_siginfo info;

    while (read(n->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            continue;
        if (info.ssi_code == SI_QUEUE)
            sigqueue(child, (int)info.ssi_signo,
                     (union sigval){.sival_int = info.ssi_int});
        else
            kill(child, (int)info.ssi_signo);
    }
}

/* Its wait status, when it has ended. */
static int watch(const struct nanny *n, pid_t child)
{
    struct pollfd fds[2] = {
        {.fd = n->signal_fd, .events = POLLIN},
        {.fd = n->kept ? dlr_kept_inbox(n->kept) : -1, .events = POLLIN}};
    int status = 0;

    for (;;) {
        if (waitpid(child, &status, WNOHANG) == child)
            return status;
        poll(fds, 2, -1);
        pass_signals(n, child);
        if (n->kept)
            dlr_kept_take(n->kept);
    }
}

static int take_signals(struct nanny *n)
{
    sigprocmask(SIG_BLOCK, NULL, &n->set); /* those that the agent reads */
    sigaddset(&n->set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &n->set, &n->before);
    n->signal_fd = signalfd(-1, &n->set, SFD_CLOEXEC | SFD_NONBLOCK);
    return n->signal_fd < 0 ? -errno : 0;
}

static void keep(struct nanny *n)
{
    struct dlr_err err;

    dlr_open_files_raise(); /* all of the agent's connections are ours, too */
    if (dlr_kept_new(&n->kept, &err) < 0)
        dlr_warn("%s: %s", n->node, err.text);
}

/* As of dlr_agent_restarter(). */
static int run(struct nanny *n, int *ret_code)
{
    pid_t self = getpid();

    for (unsigned lives = 1;; lives++) {
        int64_t begun = dlr_now_ms();
        pid_t child = fork();
        int status;

        if (child == 0) {
            become_agent(n, self);
            return 0;
        }
        if (child < 0)
            return -errno;
        prctl(PR_SET_NAME, NAME);
        status = watch(n, child);
        if (dlr_now_ms() - begun > QUIET_MS)
            lives = 1;
        *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (WIFEXITED(status) || lives >= MAX_LIVES)
            return 1;
        if (n->kept)
            dlr_kept_died(n->kept);
        prctl(PR_SET_NAME, "dlrover-agent"); /* what its child is to be called */
        dlr_warn("%s: the agent was killed by signal %d, starting it again", n->node,
                 WTERMSIG(status));
    }
}

int dlr_agent_restarter(const char *node, int *ret_code, struct dlr_kept **ret_kept)
{
    struct nanny n = {.node = node};
    int rc = take_signals(&n);

    if (rc < 0)
        return rc;
    keep(&n);
    rc = run(&n, ret_code);
    *ret_kept = n.kept;
    return rc;
}
