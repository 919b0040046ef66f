/* SPDX-License-Identifier: Apache-2.0 */
/* What the reactor wakes us for: a message, or time that has passed. Who is asked in
 * each tick, and in which order.
 */
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/copies/preparation.h"
#include "mpi_launcher/supervisor/copies/reprotect.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/io/outbox.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/auth_failures.h"
#include "mpi_launcher/supervisor/nodes/failure_detector.h"
#include "mpi_launcher/supervisor/nodes/hello.h"
#include "mpi_launcher/supervisor/nodes/peers.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/planning.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/rounds/warm.h"
#include "mpi_launcher/supervisor/steps/agent_step.h"
#include "mpi_launcher/supervisor/steps/controller.h"
#include "mpi_launcher/supervisor/steps/network.h"
#include "mpi_launcher/supervisor/steps/rejoin.h"
#include "mpi_launcher/supervisor/steps/srun_flush.h"
#include "mpi_launcher/supervisor/succession.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions.h"
#include "mpi_launcher/supervisor/will.h"

static void on_message(void *arg, const struct dlr_packet *packet)
{
    dlr_sup_hear(((struct dlr_sup *)arg)->nodes, packet);
}

void dlr_sup_moves_check(struct dlr_sup *s)
{
    if (!dlr_sup_persist_check(s->disk))
        dlr_sup_transfers_check(s->copies);
}

static bool on_taken(void *arg)
{
    struct dlr_sup *s = arg;

    dlr_sup_moves_check(s);
    return !dlr_sup_is_over(s);
}

static void tend(struct dlr_sup *s, int64_t now_ms)
{
    if (dlr_sup_outbox_tend(s->io, now_ms))
        dlr_user_line(s->io,
                      "no descriptor is left for agents that connect (ulimit -n): they "
                      "have to wait until a connection ends");
}

static bool on_tick(void *arg)
{
    struct dlr_sup *s = arg;
    int64_t now;

    dlr_sup_end_hold(s->nodes);
    now = dlr_sup_now();
    dlr_journal_tick(dlr_sup_journal(s->io));
    dlr_srun_flush_tick(s->steps, now);
    if (dlr_sup_has_ended(s)) {
        dlr_sup_agents_wait(s->steps, now);
        return !dlr_sup_is_over(s);
    }
    dlr_failure_detector_check(s->nodes, now);
    dlr_sup_rejoin_tick(s->steps, now,
                        !dlr_sup_adopting(s->rounds) && !dlr_sup_is_deposed(s));
    dlr_sup_will_tick(s);
    dlr_sup_peers_tick(s->nodes, now);
    tend(s, now);
    dlr_joint_requeue_tick(s->ending, now);
    dlr_sup_adopt_tick(s->rounds, now);
    dlr_sup_controller_tick(s->steps, now);
    dlr_sup_network_tick(s->steps, now);
    dlr_sup_versions_tick(s->versions, now);
    if (now >= dlr_policy_deadline_ms(s->policy) &&
        (!s->deposed || dlr_policy_phase(s->policy) == DLR_PHASE_END))
        dlr_policy_tick(s->policy, now);
    dlr_sup_restore_tick(s->rounds, now);
    dlr_sup_progress(s->rounds, now);
    dlr_sup_watch_round(s, now);
    dlr_sup_auth_failures(s->nodes, now);
    dlr_sup_disk_tick(s->disk);
    dlr_sup_rendezvous_tick(s->planning, now);
    dlr_reprotect_tick(s->copies, now);
    dlr_sup_ranks_tick(s->rounds, now);
    dlr_sup_warm_tick(s->rounds);
    dlr_sup_moves_check(s);
    return true;
}

static void on_late(void *arg)
{
    struct dlr_sup *s = arg;

    dlr_user_line(s->io, "the state directory '%s' hangs: going on without it",
                  s->info.job_dir);
}

static bool is_busy(void *arg)
{
    const struct dlr_sup *s = arg;

    return s->policy && dlr_policy_phase(s->policy) != DLR_PHASE_DONE;
}

const struct dlr_sup_io_ops dlr_sup_io_ops = {
    .message = on_message,
    .taken = on_taken,
    .tick = on_tick,
    .late = on_late,
    .busy = is_busy,
};
