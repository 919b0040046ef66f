/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/host/host.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/install_path.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/process/spawn.h"
#include "mpi_launcher/wire/identity.h"

struct child {
    pid_t pid;
    int pidfd;
    char run[sizeof(((struct dlr_run_id *)0)->run)];
};

struct host {
    char program[4096];
    struct child *children;
    unsigned n;
    char line[DLR_HOST_LINE];
    size_t used;
    bool skipping; /* the rest of a line that was too long */
    bool over;     /* no more orders will come */
    bool ending;   /* told to end */
};

static const char *run_of(const char *const *words)
{
    const char *run = NULL;

    for (; *words && !run; words++)
        run = dlr_after(*words, "--run=");
    return run ? run : "";
}

static int add_child(struct host *h, const char *run, pid_t pid, int pidfd)
{
    struct child *more = realloc(h->children, (h->n + 1) * sizeof(*more));

    if (!more) {
        kill(pid, SIGKILL);
        close(pidfd);
        return -ENOMEM;
    }
    h->children = more;
    more[h->n] = (struct child){.pid = pid, .pidfd = pidfd};
    dlr_format(more[h->n].run, sizeof(more[h->n].run), "%s", run);
    h->n++;
    return 0;
}

/* words: options, NULL-terminated. The credential is in the environment by now. */
static void start(struct host *h, const char *const *words)
{
    const char *argv[DLR_HOST_WORDS + 3] = {h->program, "--kept"};
    struct dlr_spawn spawn = {.argv = argv, .out_fd = STDERR_FILENO, .pass_fd = -1};
    const char *run = run_of(words);
    struct dlr_err err;
    int pidfd;
    pid_t pid;

    for (unsigned i = 0; words[i] && i < DLR_HOST_WORDS; i++)
        argv[i + 2] = words[i];
    if (dlr_spawn(&spawn, &pid, &pidfd, &err) < 0)
        dlr_error("no agent for run '%s': %s", run, err.text);
    else if (add_child(h, run, pid, pidfd) < 0)
        dlr_error("no agent for run '%s': out of memory", run);
}

/* run NULL: to the agents of all. */
static void signal_all(struct host *h, const char *run, int sig)
{
    for (unsigned i = 0; i < h->n; i++)
        if (!run || dlr_streq(h->children[i].run, run))
            sigqueue(h->children[i].pid, sig,
                     (union sigval){.sival_int = run ? DLR_HOST_END : 0});
}

static void obey(struct host *h, const char *line, size_t size)
{
    DLR_AUTO_FREE const char **words = NULL;
    DLR_AUTO_JSON json_t *msg = NULL;
    const char *run, *cred;
    struct dlr_err err;

    if (dlr_msg_parse(line, size, &msg, &err) < 0 ||
        dlr_host_parse(msg, &run, &cred, &words, &err) < 0) {
        dlr_warn("ignoring an order: %s", err.text);
        return;
    }
    if (!words) {
        signal_all(h, run, SIGTERM);
        return;
    }
    setenv("DLROVER_CRED", cred, 1);
    start(h, words);
    unsetenv("DLROVER_CRED");
}

/* --- input ------------------------------------------------------------------------ */

static void take_lines(struct host *h)
{
    char *begin = h->line, *end;

    while ((end = memchr(begin, '\n', h->line + h->used - begin))) {
        if (!h->skipping)
            obey(h, begin, end - begin);
        h->skipping = false;
        begin = end + 1;
    }
    h->used -= begin - h->line;
    memmove(h->line, begin, h->used);
    if (h->used < sizeof(h->line))
        return;
    if (!h->skipping)
        dlr_warn("ignoring an order of more than %zu bytes", sizeof(h->line));
    h->skipping = true;
    h->used = 0;
}

static void read_input(struct host *h)
{
    ssize_t n = read(0, h->line + h->used, sizeof(h->line) - h->used);

    if (n > 0) {
        h->used += n;
        take_lines(h);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        h->over = true; /* srun is gone; agents may have to outlive it */
    }
}

/* --- signals ---------------------------------------------------------------------- */

/* A signal sent to the whole job (scancel -s, --signal) must not take the agents away.
 * That it is suspended, and resumed, proctrack/cgroup tells none but a step's tasks:
 * us.
 */
static int take_signals(void)
{
    static const int wanted[] = {SIGTERM, SIGCHLD, SIGTSTP, SIGCONT};
    sigset_t set;

    for (int sig = 1; sig < NSIG; sig++)
        if (sig != SIGCHLD && sig != SIGSEGV && sig != SIGBUS && sig != SIGFPE &&
            sig != SIGILL && sig != SIGABRT && sig != SIGTRAP)
            signal(sig, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    sigemptyset(&set);
    for (unsigned i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
        sigaddset(&set, wanted[i]);
    sigprocmask(SIG_SETMASK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void bury(struct host *h)
{
    int status;

    for (unsigned i = 0; i < h->n;) {
        if (dlr_spawn_reap(h->children[i].pidfd, &status) < 0)
            i++;
        else
            h->children[i] = h->children[--h->n];
    }
}

static void read_signals(struct host *h, int signal_fd)
{
    struct signalfd_siginfo info;

    while (read(signal_fd, &info, sizeof(info)) == sizeof(info))
        if (info.ssi_signo != SIGCHLD) {
            h->ending |= info.ssi_signo == SIGTERM;
            signal_all(h, NULL, (int)info.ssi_signo);
        }
    bury(h);
}

int dlr_host_main(char **argv)
{
    static struct host host; /* large */
    struct host *h = &host;
    struct pollfd fds[2] = {{.fd = 0, .events = POLLIN}, {.events = POLLIN}};

    fds[1].fd = take_signals();
    if (fds[1].fd < 0 ||
        dlr_install_path_sibling("dlrover-agent", h->program, sizeof(h->program)) < 0) {
        dlr_error("cannot prepare the agents' host: %s", strerror(errno));
        return 1;
    }
    start(h, (const char *const *)argv);
    unsetenv("DLROVER_CRED");
    while (h->n || (!h->over && !h->ending)) {
        fds[0].fd = h->over ? -1 : 0;
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return 1;
        if (fds[0].revents)
            read_input(h);
        if (fds[1].revents)
            read_signals(h, fds[1].fd);
    }
    return 0;
}
