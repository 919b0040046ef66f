/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/startup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/cleanup.h"

/* A signal sent to the whole job (scancel -s, --signal) must not take the snapshots
 * away.
 */
int dlr_agent_take_signals(int *ret_fd, struct dlr_err *err)
{
    static const int wanted[] = {SIGTERM, SIGTSTP, SIGCONT, SIGHUP, SIGINT,
                                 SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM};
    sigset_t set;

    for (int sig = 1; sig < NSIG; sig++)
        if (sig != SIGCHLD && sig != SIGSEGV && sig != SIGBUS && sig != SIGFPE &&
            sig != SIGILL && sig != SIGABRT && sig != SIGTRAP)
            signal(sig, SIG_IGN);
    sigemptyset(&set);
    for (unsigned i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
        signal(wanted[i], SIG_DFL);
        sigaddset(&set, wanted[i]);
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    *ret_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (*ret_fd < 0)
        return dlr_fail(err, -errno, "signalfd: %s", strerror(errno));
    return 0;
}

void dlr_agent_boot_id(char *buf, size_t size)
{
    DLR_AUTO_CLOSE int fd =
        open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

    while (n > 0 && (buf[n - 1] == '\n' || buf[n - 1] == '\0'))
        n--;
    buf[n > 0 ? n : 0] = '\0';
}

int dlr_agent_identify(const struct dlr_run_id *run, char ret_key[DLR_KEY_TEXT],
                       struct dlr_identity **ret_id, char **ret_cred,
                       struct dlr_err *err)
{
    const char *cred = getenv("DLROVER_CRED");
    int rc;

    rc = dlr_identity_verify(cred, run, ret_key, err);
    if (rc < 0)
        return rc;
    unsetenv("DLROVER_CRED");
    rc = dlr_identity_new(ret_id, err);
    return rc < 0 ? rc : dlr_identity_credential(*ret_id, run, ret_cred, err);
}
