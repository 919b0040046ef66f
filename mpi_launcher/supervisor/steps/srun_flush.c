/* SPDX-License-Identifier: Apache-2.0 */
/* The srun of a round that a failure of the program has ended. What its tasks printed last is on
 * its way to it when we hear of the failure, and an srun that is killed loses that. So it may end
 * by itself, which it does when its tasks are gone; the agents end those meanwhile. Where a node
 * is lost it would wait for that node's tasks, and is let go at once. The next round starts when it
 * has ended.
 */
#include "mpi_launcher/supervisor/supervisor.h"

#define DRAIN_MS 1000

static int drained(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup *s = arg;

    dlr_sup_unwatch(s->io, s->draining.pidfd);
    dlr_proc_reap(&s->draining);
    dlr_sup_transfers_check(s);
    return dlr_sup_is_over(s) ? -1 : 0;
}

static void start(struct dlr_sup *s)
{
    s->drain_deadline_ms = dlr_sup_now() + DRAIN_MS;
    dlr_sup_watch(s->io, s->draining.pidfd, drained, s);
}

void dlr_sup_drain(struct dlr_sup *s, struct dlr_proc *srun)
{
    dlr_sup_drain_end(s);
    if (!srun->pid)
        return;
    dlr_sup_unwatch(s->io, srun->pidfd);
    s->draining = *srun;
    *srun = (struct dlr_proc){.pidfd = -1};
    start(s);
}

void dlr_sup_drain_state(const struct dlr_sup *s, json_t *state)
{
    json_object_set_new(state, "draining_pid", json_integer(s->draining.pid));
}

void dlr_sup_drain_adopt(struct dlr_sup *s)
{
    if (s->draining.pid)
        start(s);
}

void dlr_sup_drain_end(struct dlr_sup *s)
{
    dlr_sup_let_go(s, &s->draining);
}

void dlr_sup_drain_tick(struct dlr_sup *s, int64_t now_ms)
{
    if (s->draining.pid && now_ms >= s->drain_deadline_ms)
        dlr_sup_drain_end(s);
}
