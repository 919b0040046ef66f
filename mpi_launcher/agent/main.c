/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/install_path.h"
#include "common/base/log.h"
#include "common/base/node_memory.h"
#include "common/base/str.h"
#include "mpi_launcher/agent/host/host.h"

#define EXIT_USAGE 2
#define SUCCEED_FD 3 /* where succession/successor.c's child reads what to do */

static int on_signal(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent *a = arg;
    struct signalfd_siginfo info;

    while (read(a->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGTSTP) {
            dlr_agent_suspend(a);
            continue;
        }
        if (info.ssi_signo == SIGCONT) {
            dlr_agent_suspend_awake(a);
            continue;
        }
        a->stays = true;
        if (info.ssi_code == SI_QUEUE && info.ssi_int == DLR_HOST_END)
            dlr_agent_leave(a->base); /* by our supervisor, not by Slurm */
        else
            dlr_agent_grace(a);
    }
    if (dlr_agent_leaves(a->base) && !dlr_agent_succeed_holds(a))
        dlr_agent_end(a->base);
    return 0;
}

/* A signal sent to the whole job (scancel -s, --signal) must not take the snapshots away. */
static int take_signals(struct dlr_agent *a, struct dlr_err *err)
{
    static const int wanted[] = {SIGTERM, SIGTSTP, SIGCONT};
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
    a->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (a->signal_fd < 0)
        return dlr_fail(err, -errno, "signalfd: %s", strerror(errno));
    return 0;
}

static void read_boot_id(struct dlr_agent *a)
{
    DLR_AUTO_CLOSE int fd =
        open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, a->boot, sizeof(a->boot) - 1);

    while (n > 0 && (a->boot[n - 1] == '\n' || a->boot[n - 1] == '\0'))
        n--;
    a->boot[n > 0 ? n : 0] = '\0';
}

static void on_supervisor(void *arg, const struct dlr_packet *packet)
{
    dlr_agent_on_supervisor(arg, packet);
}

static void on_peer(void *arg, const struct dlr_packet *packet)
{
    dlr_agent_on_peer(arg, packet);
}

static void on_answer(void *arg, const char *node, const struct dlr_packet *packet)
{
    dlr_agent_on_peer_answer(arg, node, packet);
}

/* The memory is taken away when the loop has ended. */
static void on_end(void *arg)
{
    struct dlr_agent *a = arg;

    dlr_agent_tasks_kill_all(a->tasks);
}

static const struct dlr_agent_base_ops base_ops = {
    .supervisor = on_supervisor,
    .peer = on_peer,
    .answer = on_answer,
    .end = on_end,
};

/* --- what the data process says, and who hears of it --- */

static void on_data_ready(void *arg)
{
    struct dlr_agent *a = arg;

    if (dlr_agent_supervisor_is_open(a->base))
        dlr_agent_hello(a); /* else the first one is still to come */
    dlr_agent_snapshots_data_ready(a->snapshots);
}

static void on_data_gone(void *arg, const char *why)
{
    struct dlr_agent *a = arg;

    dlr_agent_snapshots_data_gone(a->snapshots, why);
}

static void on_data_refused(void *arg, const char *why)
{
    struct dlr_agent *a = arg;

    dlr_agent_snapshots_data_refused(a->snapshots, why);
}

static void on_data_changed(void *arg)
{
    dlr_agent_hello(arg);
}

static void on_data_reserved(void *arg, int32_t rank, uint64_t slot, int rc,
                             const char *why)
{
    struct dlr_agent *a = arg;

    dlr_agent_snapshots_reserved(a->snapshots, rank, slot, rc, why);
}

static void on_copied(void *arg, int32_t rank)
{
    struct dlr_agent *a = arg;

    dlr_agent_scrub_copied(a->snapshots, rank);
}

static void on_bad(void *arg, const struct dlr_local_msg *msg)
{
    struct dlr_agent *a = arg;

    dlr_agent_scrub_bad(a->snapshots, msg);
}

static void on_uses(void *arg, json_t *msg)
{
    struct dlr_agent *a = arg;

    dlr_agent_helpers_uses(a->snapshots, msg);
}

static json_t *own_ranks(void *arg)
{
    const struct dlr_agent *a = arg;

    return dlr_agent_ranks_own(a->snapshots);
}

static json_t *bring_ranks(void *arg)
{
    const struct dlr_agent *a = arg;

    return dlr_agent_bring_ranks(a->snapshots);
}

static const struct dlr_agent_data_ops data_ops = {
    .ready = on_data_ready,
    .gone = on_data_gone,
    .refused = on_data_refused,
    .changed = on_data_changed,
    .reserved = on_data_reserved,
    .copied = on_copied,
    .bad = on_bad,
    .uses = on_uses,
    .own = own_ranks,
    .bring = bring_ranks,
};

/* --- what happens to slots and pages, and who hears of it --- */

static void on_reserved(void *arg, int32_t rank, int rc, const char *why)
{
    struct dlr_agent *a = arg;

    dlr_agent_rebuild_reserved(a->snapshots, rank, rc, why);
}

static void each_task(void *arg, void (*fn)(void *fn_arg, pid_t pid), void *fn_arg)
{
    struct dlr_agent *a = arg;

    dlr_agent_tasks_each(a->tasks, fn, fn_arg);
}

static const struct dlr_agent_snapshots_ops snapshots_ops = {
    .reserved = on_reserved,
    .page = dlr_agent_lease_show,
    .tasks = each_task,
};

static void init(struct dlr_agent *a)
{
    a->signal_fd = a->self.dir_fd = a->lease_fd = -1;
    a->suspend_timer = a->beat_timer = -1;
    a->grace.timer = -1;
    a->peers.timer = a->peers.probe_fd = a->peers.probe_timer = -1;
    a->peers.witness_pidfd = a->keeper.pidfd = a->keeper.timer = -1;
}

/* Which key the supervisor has, proven by its credential; and a credential of our own. */
static int meet(struct dlr_agent *a, char ret_key[DLR_KEY_TEXT], struct dlr_err *err)
{
    const char *cred = getenv("DLROVER_CRED");
    int rc;

    rc = dlr_identity_verify(cred, &a->self.run, ret_key, err);
    if (rc < 0)
        return rc;
    unsetenv("DLROVER_CRED");
    rc = dlr_identity_new(&a->id, err);
    return rc < 0 ? rc : dlr_identity_credential(a->id, &a->self.run, &a->cred, err);
}

static int start(struct dlr_agent *a, struct dlr_err *err)
{
    char key[DLR_KEY_TEXT];
    int rc = meet(a, key, err);

    if (rc < 0)
        return rc;
    rc = dlr_agent_memory_place(a, err);
    rc = rc < 0 ? rc
                : dlr_agent_memory_wait(a->self.conf.memory, DLR_AGENT_LEAVE_MS, err);
    rc = rc < 0 ? rc : dlr_agent_memory_open(a->self.conf.memory, &a->self.dir_fd, err);
    if (rc < 0)
        return rc;
    a->every_ms = a->self.job.beat.every_ms;
    a->dead_ms = dlr_jobconf_dead_ms(&a->self.job);
    read_boot_id(a);
    dlr_endpoint_prepare();
    zsys_handler_set(NULL);
    a->base = dlr_agent_base_new(&base_ops, a);
    if (a->base)
        a->data = dlr_agent_data_new(a->base, &a->self, &a->round, &data_ops, a);
    if (a->data)
        a->snapshots = dlr_agent_snapshots_new(a->base, &a->self, &a->round, a->data,
                                               &snapshots_ops, a);
    if (a->snapshots)
        a->tasks = dlr_agent_tasks_new(a->base, &a->self, &a->round, a->snapshots);
    if (!a->tasks)
        return dlr_fail(err, -ENOMEM, "out of memory");
    dlr_agent_watch(a->base, a->signal_fd, on_signal, a);
    rc = dlr_agent_tasks_start(a->tasks, err);
    rc = rc < 0 ? rc : dlr_agent_peers_open(a->base, a->id, &a->self, err);
    rc = rc < 0 ? rc : dlr_agent_data_start(a->data, err);
    rc = rc < 0 ? rc : dlr_agent_control_start(a, key, err);
    return rc < 0 ? rc : dlr_agent_lease_start(a, err);
}

static void stop(struct dlr_agent *a)
{
    bool ended = false;

    if (a->base) {
        dlr_agent_lease_stop(a);
        if (dlr_agent_leaves(a->base))
            dlr_agent_end(a->base);
        ended = dlr_agent_ends(a->base);
        dlr_agent_keeper_stop(a);
        dlr_agent_grace_stop(a);
        dlr_agent_succeed_stop(a);
        dlr_agent_report_stop(a);
        if (a->snapshots)
            dlr_agent_bring_end(a->snapshots, "the agent ends");
        if (a->tasks)
            dlr_agent_tasks_stop(a->tasks);
        if (a->data)
            dlr_agent_data_stop(a->data);
        dlr_agent_watchdog_stop(a);
        dlr_agent_peers_close(a->base);
    }
    if (a->self.dir_fd >= 0)
        dlr_agent_memory_remove(
            a->self.conf.memory,
            ended && !(a->stays && dlr_memory_stays(a->self.conf.memory)));
    a->tasks =
        dlr_agent_tasks_free(a->tasks); /* until here it is seen that we are not gone */
    if (a->base)
        dlr_agent_control_stop(a);
    dlr_agent_round_done(&a->round);
    a->snapshots = dlr_agent_snapshots_free(a->snapshots);
    a->data = dlr_agent_data_free(a->data);
    a->base = dlr_agent_base_free(a->base);
    if (a->self.dir_fd >= 0)
        close(a->self.dir_fd);
    if (a->signal_fd >= 0)
        close(a->signal_fd);
    a->id = dlr_identity_free(a->id);
    free(a->cred);
}

int main(int argc, char **argv)
{
    static struct dlr_agent agent; /* large */
    struct dlr_err err = {0};
    bool kept = argc > 1 && dlr_streq(argv[1], "--kept"); /* by restarter.c */
    int rc, code;

    dlr_self_keep_secrets();
    if (argc > 2 && dlr_streq(argv[1], "--host"))
        return dlr_host_main(argv + 2);
    if (argc == 2 && dlr_streq(argv[1], "--succeed"))
        return dlr_agent_succeed_main(SUCCEED_FD);
    init(&agent);
    rc = dlr_agent_conf_parse(argc - kept, argv + kept, &agent, &err);
    if (rc > 0)
        return EXIT_SUCCESS;
    if (rc < 0) {
        dlr_error("%s", err.text);
        return EXIT_USAGE;
    }
    rc = take_signals(&agent, &err);
    if (rc == 0 && kept && (rc = dlr_agent_nanny(agent.self.node, &code)) > 0)
        return code;
    rc = rc < 0 ? rc : start(&agent, &err);
    if (rc < 0)
        dlr_error("%s: %s", agent.self.node, err.text);
    else
        dlr_agent_base_run(agent.base);
    stop(&agent);
    if (rc == -EINVAL)
        return EXIT_USAGE;
    return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
