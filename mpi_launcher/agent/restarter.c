/* SPDX-License-Identifier: Apache-2.0 */
/* An agent that dies is not a node that dies: its parent, which does nothing else,
 * starts it again. The snapshots are files and wait for the next one; of the round it
 * knows nothing, which it tells the supervisor (docs/protocol.md, "round_state").
 */
#include "mpi_launcher/agent/restarter.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"

#define NAME "dlrover-nanny" /* as ps shows it */
#define MAX_LIVES 5          /* of agents that die */
#define QUIET_MS 600000      /* one that lived so long does not count */

static void become_agent(pid_t parent, const sigset_t *before)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    sigprocmask(SIG_SETMASK, before, NULL);
}

/* Its wait status, when it has ended. The end of the step is passed on to it, and,
 * since proctrack/cgroup tells our own parent alone, that the job is suspended and
 * resumed.
 */
static int watch(pid_t child, const sigset_t *set)
{
    int status = 0;

    for (;;) {
        siginfo_t info;
        int sig = sigwaitinfo(set, &info);

        if (sig > 0 && sig != SIGCHLD && info.si_code == SI_QUEUE)
            sigqueue(child, sig, info.si_value);
        else if (sig > 0 && sig != SIGCHLD)
            kill(child, sig);
        if (waitpid(child, &status, WNOHANG) == child)
            return status;
    }
}

static void take_signals(sigset_t *ret_set, sigset_t *ret_before)
{
    sigemptyset(ret_set);
    sigaddset(ret_set, SIGTERM);
    sigaddset(ret_set, SIGTSTP);
    sigaddset(ret_set, SIGCONT);
    sigaddset(ret_set, SIGCHLD);
    sigprocmask(SIG_BLOCK, ret_set, ret_before);
}

int dlr_agent_restarter(const char *node, int *ret_code)
{
    sigset_t set, before;
    pid_t self = getpid();

    take_signals(&set, &before);
    for (unsigned lives = 1;; lives++) {
        int64_t begun = dlr_now_ms();
        pid_t child = fork();
        int status;

        if (child == 0) {
            become_agent(self, &before);
            return 0;
        }
        if (child < 0)
            return -errno;
        prctl(PR_SET_NAME, NAME);
        status = watch(child, &set);
        if (dlr_now_ms() - begun > QUIET_MS)
            lives = 1;
        *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (WIFEXITED(status) || lives >= MAX_LIVES)
            return 1;
        prctl(PR_SET_NAME, "dlrover-agent"); /* what its child is to be called */
        dlr_warn("%s: the agent was killed by signal %d, starting it again", node,
                 WTERMSIG(status));
    }
}
