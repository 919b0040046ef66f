/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/agent.h"

#include <czmq.h>
#include <errno.h>
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
#include "common/json/message.h"
#include "mpi_launcher/agent/adopt.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/config.h"
#include "mpi_launcher/agent/directory.h"
#include "mpi_launcher/agent/host/host.h"
#include "mpi_launcher/agent/restarter.h"
#include "mpi_launcher/agent/snapshots/fetch.h"
#include "mpi_launcher/agent/snapshots/orders.h"
#include "mpi_launcher/agent/snapshots/ranks.h"
#include "mpi_launcher/agent/snapshots/save.h"
#include "mpi_launcher/agent/startup.h"
#include "mpi_launcher/agent/tasks/watch.h"

#define EXIT_USAGE 2
#define SUCCEED_FD 3 /* where succession/successor.c's child reads what to do */

static int on_signal(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent *a = arg;
    struct signalfd_siginfo info;

    while (read(a->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGTSTP) {
            dlr_agent_suspend(a->suspend);
            continue;
        }
        if (info.ssi_signo == SIGCONT) {
            dlr_agent_suspend_awake(a->suspend);
            continue;
        }
        if (info.ssi_signo != SIGTERM) {
            dlr_agent_warned(a->succession, (int)info.ssi_signo);
            continue;
        }
        a->keep_memory = true;
        if (info.ssi_code == SI_QUEUE && info.ssi_int == DLR_HOST_END)
            dlr_agent_leave(a->base); /* by our supervisor, not by Slurm */
        else
            dlr_agent_grace(a->succession);
    }
    dlr_agent_changed(a->base);
    if (dlr_agent_leaves(a->base) && !dlr_agent_succeed_holds(a->succession))
        dlr_agent_end(a->base);
    return 0;
}

static void on_supervisor(void *arg, const struct dlr_packet *packet)
{
    dlr_agent_on_supervisor(arg, packet);
}

/* The memory is taken away when the loop has ended. */
static void on_end(void *arg)
{
    struct dlr_agent *a = arg;

    dlr_agent_tasks_kill_all(a->tasks);
}

static const struct dlr_agent_base_ops base_ops = {
    .supervisor = on_supervisor,
    .peer = dlr_agent_from_peer,
    .answer = dlr_agent_from_answer,
    .end = on_end,
    .note = dlr_agent_note,
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

static json_t *fetch_ranks(void *arg)
{
    const struct dlr_agent *a = arg;

    return dlr_agent_fetch_ranks(a->snapshots);
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
    .fetch = fetch_ranks,
};

/* --- what happens to slots and pages, and who hears of it --- */

static void on_reserved(void *arg, int32_t rank, int rc, const char *why)
{
    struct dlr_agent *a = arg;

    dlr_agent_rebuild_reserved(a->snapshots, rank, rc, why);
}

static void on_page(void *arg, struct dlr_page *page)
{
    struct dlr_agent *a = arg;

    dlr_agent_lease_show(a->lease, page);
}

static void each_task(void *arg, void (*fn)(void *fn_arg, pid_t pid), void *fn_arg)
{
    struct dlr_agent *a = arg;

    dlr_agent_tasks_each(a->tasks, fn, fn_arg);
}

static const struct dlr_agent_snapshots_ops snapshots_ops = {
    .reserved = on_reserved,
    .page = on_page,
    .tasks = each_task,
};

/* --- the lease --- */

static void on_answered(void *arg)
{
    struct dlr_agent *a = arg;

    dlr_agent_watchdog_answered(a->succession);
}

/* In grace the end of the supervisor is Slurm's doing. */
static void on_silent(void *arg)
{
    struct dlr_agent *a = arg;

    if (!dlr_agent_in_grace(a->succession))
        dlr_agent_watchdog_silence(a->succession);
}

static void on_lease_over(void *arg)
{
    struct dlr_agent *a = arg;

    dlr_agent_tasks_kill_with_srun(a->tasks);
}

static void on_lease_changed(void *arg)
{
    struct dlr_agent *a = arg;

    dlr_agent_ranks_pages(a->snapshots, on_page, a);
}

static void on_beat(void *arg)
{
    struct dlr_agent *a = arg;

    dlr_agent_group_flush(a->group);
    dlr_agent_pace_look(a->snapshots);
    dlr_agent_save_wanted_look(a->snapshots);
}

static void get_steps(void *arg, uint64_t *ret_min, uint64_t *ret_max)
{
    struct dlr_agent *a = arg;

    dlr_agent_ranks_steps(a->snapshots, ret_min, ret_max);
    if (*ret_max == DLR_PAGE_NEVER) /* it keeps no snapshots */
        dlr_agent_tasks_steps(a->tasks, ret_min, ret_max);
}

static void before_task_ends(void *arg)
{
    dlr_agent_lease_look(((struct dlr_agent *)arg)->lease);
}

static unsigned count_tasks(void *arg)
{
    struct dlr_agent *a = arg;

    return dlr_agent_tasks_left(a->tasks);
}

static const struct dlr_agent_lease_ops lease_ops = {
    .answered = on_answered,
    .silent = on_silent,
    .over = on_lease_over,
    .changed = on_lease_changed,
    .beat = on_beat,
    .elsewhere = dlr_agent_by_group,
    .steps = get_steps,
    .tasks = count_tasks,
};

/* --- without a supervisor --- */

static int64_t dead_ms(void *arg)
{
    const struct dlr_agent *a = arg;

    return dlr_agent_lease_dead_ms(a->lease);
}

static int64_t unheard_ms(void *arg)
{
    const struct dlr_agent *a = arg;

    return dlr_agent_lease_unheard_ms(a->lease);
}

static int64_t silent_ms(void *arg)
{
    const struct dlr_agent *a = arg;

    return dlr_agent_lease_silent_ms(a->lease);
}

static bool is_suspended(void *arg)
{
    const struct dlr_agent *a = arg;

    return dlr_agent_is_suspended(a->suspend);
}

static void hold(void *arg, int64_t until_ns)
{
    struct dlr_agent *a = arg;

    dlr_agent_lease_extend(a->lease, until_ns);
}

static void want_report(void *arg, const struct dlr_agent_origin *from)
{
    struct dlr_agent *a = arg;

    dlr_agent_report(a->reports, from);
}

static void on_own_report(void *arg, const json_t *report)
{
    struct dlr_agent *a = arg;

    dlr_agent_succeed_report(a->succession, a->self.node, report);
}

static const struct dlr_agent_succession_ops succession_ops = {
    .dead_ms = dead_ms,
    .unheard_ms = unheard_ms,
    .silent_ms = silent_ms,
    .suspended = is_suspended,
    .hold = hold,
    .report = want_report,
    .follow = dlr_agent_control_follow,
};

/* --- a new round --- */

/* The supervisor drops what was said before it hears this, then hears of those that
 * stay.
 */
static void turned(struct dlr_agent *a)
{
    dlr_agent_send_supervisor(a->base, json_pack("{s:i, s:s, s:I, s:I}", "v",
                                                 DLR_MSG_VERSION, "t", "turned",
                                                 "round", (json_int_t)a->round.round,
                                                 "turn", (json_int_t)a->round.turn));
}

/* The same turn of a round once more (a supervisor that came back) changes addresses
 * and partners, not what the workers have.
 */
static void enter(struct dlr_agent *a, struct dlr_agent_round *round)
{
    bool again = dlr_agent_round_is(&a->round, round->round);
    bool turn = again && round->turn != a->round.turn;

    dlr_agent_round_done(&a->round);
    a->round = *round;
    memset(round, 0, sizeof(*round));
    if (!again) {
        dlr_agent_snapshots_leave(a->snapshots);
        dlr_agent_tasks_round(a->tasks);
        dlr_agent_ranks_round(a->snapshots);
    }
    if (turn)
        dlr_agent_snapshots_turn(a->snapshots);
    dlr_agent_data_round(a->data, !again || turn);
    if (a->round.turn)
        turned(a);
    if (turn) {
        dlr_agent_ranks_resend(a->snapshots);
        dlr_agent_claims_turn(a->tasks);
    }
}

/* --- begin and end --- */

/* From the lowest engine to the highest. */
static int make_engines(struct dlr_agent *a)
{
    a->base = dlr_agent_base_new(&base_ops, a);
    if (a->base)
        a->group = dlr_agent_group_new(a->base, &a->self);
    if (a->group)
        a->data = dlr_agent_data_new(a->base, &a->self, &a->round, &data_ops, a);
    if (a->data)
        a->snapshots = dlr_agent_snapshots_new(a->base, &a->self, &a->round, a->data,
                                               &snapshots_ops, a);
    if (a->snapshots)
        a->tasks = dlr_agent_tasks_new(a->base, &a->self, &a->round, a->snapshots);
    if (a->tasks)
        a->succession = dlr_agent_succession_new(
            a->base, &a->self, &a->round, a->snapshots, a->tasks, &succession_ops, a);
    if (a->succession)
        a->lease = dlr_agent_lease_new(a->base, &a->self, &a->round, &lease_ops, a);
    if (a->lease) {
        dlr_agent_tasks_before_end(a->tasks, before_task_ends, a);
        a->suspend = dlr_agent_suspend_new(a->base, &a->self, &a->round, a->lease);
    }
    if (a->suspend)
        a->reports = dlr_agent_reports_new(a->base, &a->self, on_own_report, a);
    return a->reports ? 0 : -ENOMEM;
}

static void free_engines(struct dlr_agent *a)
{
    a->suspend = dlr_agent_suspend_free(a->suspend);
    a->lease = dlr_agent_lease_free(a->lease);
    a->succession = dlr_agent_succession_free(a->succession);
    a->snapshots = dlr_agent_snapshots_free(a->snapshots);
    a->data = dlr_agent_data_free(a->data);
    a->group = dlr_agent_group_free(a->group);
    a->base = dlr_agent_base_free(a->base);
}

static int start(struct dlr_agent *a, struct dlr_err *err)
{
    char key[DLR_KEY_TEXT];
    int rc = dlr_agent_identify(&a->self.run, key, &a->id, &a->cred, err);

    rc = rc < 0 ? rc
                : dlr_agent_memory_take(&a->self, a->foreign_memory_name,
                                        sizeof(a->foreign_memory_name), err);
    if (rc < 0)
        return rc;
    dlr_agent_boot_id(a->boot, sizeof(a->boot));
    dlr_endpoint_prepare();
    zsys_handler_set(NULL);
    if (make_engines(a) < 0)
        return dlr_fail(err, -ENOMEM, "out of memory");
    dlr_agent_base_keep(a->base, a->kept);
    dlr_agent_adopt(a);
    dlr_agent_watch(a->base, a->signal_fd, on_signal, a);
    rc = dlr_agent_tasks_start(a->tasks, err);
    rc = rc < 0 ? rc : dlr_agent_peers_open(a->base, a->id, &a->self, err);
    rc = rc < 0 ? rc : dlr_agent_data_start(a->data, err);
    rc = rc < 0 ? rc : dlr_agent_control_start(a, key, err);
    rc = rc < 0 ? rc : dlr_agent_lease_start(a->lease, err);
    if (rc == 0)
        dlr_agent_adopt_lease(a);
    return rc;
}

/* All engines are there. Whether the run ends with us: else another agent comes. */
static bool stop_engines(struct dlr_agent *a)
{
    dlr_agent_lease_stop(a->lease);
    if (dlr_agent_leaves(a->base))
        dlr_agent_end(a->base);
    dlr_agent_succession_stop(a->succession);
    a->reports = dlr_agent_reports_free(a->reports);
    dlr_agent_fetch_end(a->snapshots, "the agent ends");
    dlr_agent_tasks_stop(a->tasks);
    dlr_agent_data_stop(a->data);
    dlr_agent_peers_close(a->base);
    return dlr_agent_ends(a->base);
}

static void stop(struct dlr_agent *a)
{
    bool ended = a->reports && stop_engines(a);

    if (a->self.dir_fd >= 0)
        dlr_agent_memory_remove(
            a->self.conf.memory,
            ended && !(a->keep_memory && dlr_memory_is_kept(a->self.conf.memory)));
    a->tasks =
        dlr_agent_tasks_free(a->tasks); /* until here it is seen that we are there */
    if (a->base)
        dlr_agent_control_stop(a);
    dlr_agent_round_done(&a->round);
    free_engines(a);
    if (a->self.dir_fd >= 0)
        close(a->self.dir_fd);
    if (a->signal_fd >= 0)
        close(a->signal_fd);
    a->id = dlr_identity_free(a->id);
    free(a->cred);
}

int main(int argc, char **argv)
{
    static struct dlr_agent agent = {
        .enter = enter, .self.dir_fd = -1, .signal_fd = -1}; /* large */
    struct dlr_err err = {0};
    bool kept = argc > 1 && dlr_streq(argv[1], "--kept"); /* by restarter.c */
    int rc, code;

    dlr_process_keep_secrets();
    if (argc > 2 && dlr_streq(argv[1], "--host"))
        return dlr_host_main(argv + 2);
    if (argc == 2 && dlr_streq(argv[1], "--succeed"))
        return dlr_agent_succeed_main(SUCCEED_FD);
    rc = dlr_agent_conf_parse(argc - kept, argv + kept, &agent.self, &err);
    if (rc > 0)
        return EXIT_SUCCESS;
    if (rc < 0) {
        dlr_error("%s", err.text);
        return EXIT_USAGE;
    }
    dlr_process_keep_code();
    rc = dlr_agent_take_signals(&agent.signal_fd, &err);
    if (rc == 0 && kept &&
        (rc = dlr_agent_restarter(agent.self.node, &code, &agent.kept)) > 0)
        return code;
    if (kept)
        dlr_process_keep_code(); /* a child of the one above */
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
