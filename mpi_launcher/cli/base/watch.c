/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/cli/base/watch.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define MASK (IN_MODIFY | IN_MOVE_SELF | IN_DELETE_SELF | IN_ATTRIB)

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};

int dlr_cli_watch_init(struct dlr_cli_watch *w, const char *path, struct dlr_err *err)
{
    sigset_t set;

    *w = (struct dlr_cli_watch){.inotify_fd = -1, .signal_fd = -1};
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
        sigaddset(&set, signals[i]);
    w->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (w->signal_fd < 0)
        return dlr_fail(err, -errno, "signalfd: %s", strerror(errno));
    sigprocmask(SIG_BLOCK, &set, &w->before);
    w->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (w->inotify_fd >= 0)
        inotify_add_watch(w->inotify_fd, path, MASK);
    return 0;
}

void dlr_cli_watch_done(struct dlr_cli_watch *w)
{
    if (w->inotify_fd >= 0)
        close(w->inotify_fd);
    close(w->signal_fd);
    sigprocmask(SIG_SETMASK, &w->before, NULL);
}

static enum dlr_cli_news take_signal(struct dlr_cli_watch *w)
{
    struct signalfd_siginfo info;

    if (read(w->signal_fd, &info, sizeof(info)) != sizeof(info))
        return DLR_CLI_QUIET;
    if (info.ssi_signo == SIGWINCH)
        return DLR_CLI_RESIZED;
    if (info.ssi_signo == SIGTSTP)
        return DLR_CLI_SUSPEND;
    w->signal = (int)info.ssi_signo;
    return DLR_CLI_STOP;
}

enum dlr_cli_news dlr_cli_watch_wait(struct dlr_cli_watch *w, int64_t timeout_ms)
{
    struct pollfd fds[] = {{.fd = w->signal_fd, .events = POLLIN},
                           {.fd = w->inotify_fd, .events = POLLIN}};
    char events[4096];

    if (poll(fds, 2, timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms) <= 0)
        return DLR_CLI_QUIET;
    if (fds[0].revents)
        return take_signal(w);
    while (read(w->inotify_fd, events, sizeof(events)) > 0)
        ;
    return DLR_CLI_CHANGED;
}
