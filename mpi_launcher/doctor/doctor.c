/* SPDX-License-Identifier: Apache-2.0 */
/* The table of checks, and running one of them within its limit. */
#include "mpi_launcher/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/str.h"

#define SLOW_MS 1000 /* a terminal is told what is waited for */

extern char **environ;

#define HOST DLR_DOCTOR_HOST
#define NODE DLR_DOCTOR_NODE
#define JOB DLR_DOCTOR_JOB
// clang-format off
const struct dlr_doctor_check dlr_doctor_checks[] = {
    {"plugstack", "plugstack.conf loads the plugin, as optional", HOST | NODE, dlr_doctor_plugstack},
    {"plugin", "the plugin's file is there and built for this Slurm", HOST | NODE, dlr_doctor_plugin},
    {"programs", "programs and library are there, all of one version", HOST | NODE, dlr_doctor_programs},
    {"slurmd", "slurmd was started since the plugin was installed", HOST | NODE, dlr_doctor_slurmd},
    {"slurmctld", "slurmctld answers and is of the release of the commands", HOST, dlr_doctor_slurmctld},
    {"munge", "a credential can be made and read", HOST | NODE, dlr_doctor_munge},
    {"pmix", "srun can start MPI programs with PMIx", HOST, dlr_doctor_pmix},
    {"ports", "srun may listen, on enough ports of SrunPortRange", HOST, dlr_doctor_ports},
    {"shm", "/dev/shm is there and has room", HOST | NODE, dlr_doctor_shm},
    {"tmpfs", "each job's own tmpfs in /run/dlrover can be mounted", HOST | NODE, dlr_doctor_tmpfs},
    {"memory", "memory for snapshots, uncorrected errors", HOST | NODE, dlr_doctor_memory},
    {"memlock", "the limit of locked memory, where RDMA needs it", HOST | NODE, dlr_doctor_memlock},
    {"ipc", "logind does not remove snapshots (RemoveIPC)", HOST | NODE, dlr_doctor_ipc},
    {"ucx", "networks that UCX finds", HOST | NODE, dlr_doctor_ucx},
    {"proctrack", "ProctrackType finds every process of a step", HOST, dlr_doctor_proctrack},
    {"container", "JobContainerType leaves /dev/shm to the job", HOST, dlr_doctor_container},
    {"task", "TaskPlugin and memory limits", HOST, dlr_doctor_task},
    {"topology", "TopologyPlugin knows switches", HOST, dlr_doctor_topology},
    {"prolog", "PrologFlags and node failures", HOST, dlr_doctor_prolog},
    {"requeue", "JobRequeue and the time a requeue takes", HOST, dlr_doctor_requeue},
    {"supervised", "an srun of this job would be supervised", JOB, dlr_doctor_supervised},
    {"state", "the state directory answers and can be written", JOB, dlr_doctor_state},
    {"budget", "memory of the job for snapshots", JOB, dlr_doctor_budget},
    {"nodes", "the checks above on each node of the job, and equal versions", JOB, dlr_doctor_nodes},
    {"clock", "the nodes' clocks", JOB, dlr_doctor_clock},
    {"network", "each node reaches this host, as beats have to", JOB, dlr_doctor_network},
    {"shared", "each node sees the state directory", JOB, dlr_doctor_shared},
    {NULL, NULL, 0, NULL},
};
// clang-format on

const char *dlr_doctor_verdict_name(enum dlr_doctor_verdict v)
{
    static const char *const names[] = {"ok", "note", "skip", "problem"};

    return names[v];
}

void dlr_doctor_say(struct dlr_doctor_result *ret, enum dlr_doctor_verdict verdict,
                    const char *fmt, ...)
{
    va_list ap;

    ret->verdict = verdict;
    va_start(ap, fmt);
    vsnprintf(ret->text, sizeof(ret->text), fmt, ap);
    va_end(ap);
    dlr_plain(ret->text);
}

/* --- within a limit ------------------------------------------------------------------ */

static void child(void (*fn)(const struct dlr_doctor *d, void *ret),
                  const struct dlr_doctor *d, void *ret, size_t size, int out)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(null_fd, STDIN_FILENO);
    dup2(null_fd, STDOUT_FILENO);
    dup2(null_fd, STDERR_FILENO);
    fn(d, ret);
    _exit(dlr_write_all(out, ret, size) < 0);
}

static void show_wait(const char *label, bool *shown)
{
    if (isatty(STDERR_FILENO) && !*shown) {
        fprintf(stderr, "waiting for %s ...", label);
        *shown = true;
    }
}

/* Reads size bytes until deadline; -ETIMEDOUT, -EIO at an early end. */
static int read_until(int fd, char *buf, size_t size, int64_t deadline,
                      const char *label)
{
    int64_t slow = dlr_now_ms() + SLOW_MS;
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    bool shown = false;
    size_t used = 0;
    int rc = 0;

    while (used < size && rc == 0) {
        int64_t now = dlr_now_ms(), until = !shown && slow < deadline ? slow : deadline;
        ssize_t n;

        if (poll(&pfd, 1, until > now ? (int)(until - now) : 0) <= 0) {
            if (dlr_now_ms() >= deadline)
                rc = -ETIMEDOUT;
            else if (dlr_now_ms() >= slow)
                show_wait(label, &shown);
            slow = shown ? slow : deadline;
            continue;
        }
        n = read(fd, buf + used, size - used);
        if (n > 0)
            used += (size_t)n;
        else if (n == 0 || errno != EINTR)
            rc = -EIO;
    }
    if (shown)
        fputs("\r\033[K", stderr);
    return rc;
}

int dlr_doctor_bounded(void (*fn)(const struct dlr_doctor *d, void *ret),
                       const struct dlr_doctor *d, void *ret, size_t size,
                       int64_t limit_ms, const char *label)
{
    DLR_AUTO_FREE char *copy = calloc(1, size);
    DLR_AUTO_CLOSE int in = -1;
    int pair[2], rc;
    pid_t pid;

    if (!copy || pipe2(pair, O_CLOEXEC) < 0)
        return -ENOMEM;
    in = pair[0];
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        child(fn, d, copy, size, pair[1]);
    close(pair[1]);
    if (pid < 0)
        return -EAGAIN;
    setpgid(pid, pid); /* whoever comes first */
    rc = read_until(in, copy, size, dlr_now_ms() + limit_ms, label);
    kill(-pid, SIGKILL);
    /* one that hangs in the kernel cannot be waited for: it is left behind */
    waitpid(pid, NULL, rc == -ETIMEDOUT ? WNOHANG : 0);
    if (rc == 0)
        memcpy(ret, copy, size);
    return rc;
}

/* bounded() copies what fn leaves and gives it nothing: the check comes in by this. */
static const struct dlr_doctor_check *running;

static void run_check(const struct dlr_doctor *d, void *ret)
{
    running->run(d, ret);
}

void dlr_doctor_run(const struct dlr_doctor *d, const struct dlr_doctor_check *check,
                    struct dlr_doctor_result *ret)
{
    int rc;

    memset(ret, 0, sizeof(*ret));
    running = check;
    rc = dlr_doctor_bounded(run_check, d, ret, sizeof(*ret), d->limit_ms, check->name);
    if (rc == -ETIMEDOUT)
        dlr_doctor_say(ret, DLR_DOCTOR_PROBLEM,
                       "no answer within %.1f s: what this looks at hangs (%s)",
                       (double)d->limit_ms / 1000, check->help);
    else if (rc < 0)
        dlr_doctor_say(ret, DLR_DOCTOR_SKIP, "the check itself failed: %s",
                       strerror(-rc));
}

int dlr_doctor_capture(const char *const argv[], char *buf, size_t size)
{
    posix_spawn_file_actions_t actions;
    size_t used = 0;
    int pair[2], status, rc;
    ssize_t n;
    pid_t pid;
    char rest[4096];

    buf[0] = '\0';
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pair[1], STDERR_FILENO);
    rc = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    while (rc == 0) {
        bool full = used >= size - 1;

        n = read(pair[0], full ? rest : buf + used,
                 full ? sizeof(rest) : size - 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        used += full ? 0 : (size_t)n;
    }
    close(pair[0]);
    if (rc != 0)
        return -rc;
    buf[used] = '\0';
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return status;
}
