/* SPDX-License-Identifier: Apache-2.0 */
/* The srun of a round that a failure of the program has ended. What its tasks printed
 * last is on its way to it when we hear of the failure, and an srun that is killed
 * loses that. So it may end by itself, which it does when its tasks are gone; the
 * agents end those meanwhile. Where a node is lost it would wait for that node's tasks,
 * and is let go at once. The next round starts when it has ended.
 */
#include "mpi_launcher/supervisor/steps/srun_flush.h"

#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"
#include "mpi_launcher/supervisor/steps/steps_state.h"

#define DRAIN_MS 1000

static int flushed(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup_steps *steps = arg;

    dlr_sup_unwatch(steps->env.io, steps->flushing_srun.pidfd);
    dlr_proc_reap(&steps->flushing_srun);
    steps->ops->flushed(steps->arg);
    return dlr_sup_steps_go_on(steps);
}

static void start(struct dlr_sup_steps *steps)
{
    steps->flush_deadline_ms = dlr_sup_now() + DRAIN_MS;
    dlr_sup_watch(steps->env.io, steps->flushing_srun.pidfd, flushed, steps);
}

void dlr_srun_flush(struct dlr_sup_steps *steps, struct dlr_proc *srun)
{
    dlr_srun_flush_end(steps);
    if (!srun->pid)
        return;
    dlr_sup_unwatch(steps->env.io, srun->pidfd);
    steps->flushing_srun = *srun;
    *srun = (struct dlr_proc){.pidfd = -1};
    start(steps);
}

bool dlr_srun_is_flushed(const struct dlr_sup_steps *steps)
{
    return steps->flushing_srun.pid != 0;
}

void dlr_srun_flush_adopt(struct dlr_sup_steps *steps)
{
    if (steps->flushing_srun.pid)
        start(steps);
}

void dlr_srun_flush_end(struct dlr_sup_steps *steps)
{
    dlr_srun_abandon(steps, &steps->flushing_srun);
}

void dlr_srun_flush_tick(struct dlr_sup_steps *steps, int64_t now_ms)
{
    if (steps->flushing_srun.pid && now_ms >= steps->flush_deadline_ms)
        dlr_srun_flush_end(steps);
}
