/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that stay when their round ends because a node is lost. Each parks, and goes
 * on as the task of the next round that stands for it (dlrover-relay): that one gives it
 * its environment and output, and ends as it ends. A node's processes stay all, or none.
 */
#include <errno.h>

#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/tasks/tasks_state.h"

#define RELAY_FDS 3 /* stdout, stderr, environment */

static bool is_left(const struct dlr_agent_task *t, uint32_t round)
{
    return t->pidfd >= 0 && t->serves <= round;
}

static bool all_can(const struct dlr_agent_tasks *tasks, uint32_t round)
{
    unsigned n = 0;

    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all)) {
        if (!is_left(t, round))
            continue;
        if (!dlr_agent_stay_find(tasks, DLR_CONN_STAY, t->rank))
            return false;
        n++;
    }
    return n > 0;
}

static void give_up(struct dlr_agent_tasks *tasks)
{
    dlr_agent_tasks_doom(tasks, (uint32_t)tasks->kill_up_to_round);
}

static int late(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_tasks *tasks = arg;

    tasks->park_timer = -1;
    give_up(tasks);
    return 0;
}

/* Each is asked once: who is parked already is not again. */
static void ask(struct dlr_agent_tasks *tasks, uint32_t round)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, DLR_LOCAL_PARK);
    m.round = round;
    for (struct dlr_agent_conn *c = zlistx_first(tasks->conns); c;
         c = zlistx_next(tasks->conns)) {
        m.rank = c->rank;
        if (c->kind == DLR_CONN_STAY && !c->parked)
            dlr_agent_local_send(c, &m, NULL, 0);
    }
}

void dlr_agent_tasks_park(struct dlr_agent_tasks *tasks, uint32_t round,
                          int64_t limit_ms)
{
    if (!all_can(tasks, round)) {
        dlr_agent_tasks_kill(tasks, round, true);
        return;
    }
    tasks->spare_srun = true;
    if ((int64_t)round > tasks->kill_up_to_round)
        tasks->kill_up_to_round = round;
    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all))
        if (is_left(t, round))
            t->stays = true;
    dlr_agent_timer(tasks->base, &tasks->park_timer, (size_t)limit_ms, late, tasks);
    ask(tasks, round);
    if (!dlr_agent_stay_waits(tasks)) { /* once more, and they are */
        dlr_agent_timer_end(tasks->base, &tasks->park_timer);
        dlr_agent_tasks_kill_ordered(tasks);
    }
}

void dlr_agent_stay_parked(struct dlr_agent_conn *c)
{
    struct dlr_agent_tasks *tasks = c->owner;

    c->parked = true;
    if (tasks->park_timer < 0 || dlr_agent_stay_waits(tasks))
        return;
    dlr_agent_timer_end(tasks->base, &tasks->park_timer);
    dlr_agent_tasks_kill_ordered(tasks);
}

static bool stays(const struct dlr_agent_tasks *tasks, int32_t rank)
{
    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all))
        if (t->stays && t->rank == rank)
            return true;
    return false;
}

void dlr_agent_stay_gone(struct dlr_agent_tasks *tasks, const struct dlr_agent_conn *c)
{
    if (stays(tasks, c->rank))
        give_up(tasks);
}

static bool has_rank(const struct dlr_agent_node *node, int32_t rank)
{
    for (unsigned i = 0; node && i < node->nranks; i++)
        if (node->ranks[i] == rank)
            return true;
    return false;
}

void dlr_agent_stay_round(struct dlr_agent_tasks *tasks)
{
    const struct dlr_agent_node *here =
        dlr_agent_round_node(tasks->round, tasks->self->node);

    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all))
        if (t->stays && !has_rank(here, t->rank)) {
            give_up(tasks);
            return;
        }
}

/* --- in the next round ------------------------------------------------------------ */

static bool hand_over(struct dlr_agent_conn *stay, const struct dlr_agent_conn *relay,
                      const int *fds)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, DLR_LOCAL_JOIN);
    m.round = relay->round;
    m.rank = relay->rank;
    m.arg[0] = (uint64_t)relay->pid;
    if (!dlr_agent_local_send(stay, &m, fds, RELAY_FDS))
        return false;
    stay->round = relay->round;
    stay->parked = false;
    return true;
}

int dlr_agent_stay_relay(struct dlr_agent_conn *c, const struct dlr_local_msg *m,
                         const int *fds, unsigned nfds)
{
    struct dlr_agent_tasks *tasks = c->owner;
    struct dlr_agent_conn *stay;

    if (!dlr_agent_round_is(tasks->round, m->round))
        return -ESTALE;
    if (nfds != RELAY_FDS || dlr_agent_stay_find(tasks, DLR_CONN_RELAY, m->rank) == c)
        return -EBADMSG;
    c->kind = DLR_CONN_RELAY;
    c->round = m->round;
    c->rank = m->rank;
    stay = dlr_agent_stay_find(tasks, DLR_CONN_STAY, c->rank);
    if (!stay || !stay->parked || !stays(tasks, c->rank) || !hand_over(stay, c, fds)) {
        dlr_agent_stay_tell(c, DLR_LOCAL_REFUSED, 0);
        return -ECONNRESET;
    }
    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all)) {
        if (t->rank != c->rank)
            continue;
        t->relay = t->relay || t->round == c->round;
        t->serves = t->stays ? c->round : t->serves;
        t->stays = false;
    }
    dlr_agent_stay_tell(c, DLR_LOCAL_RELAYED, (uint64_t)stay->pid);
    dlr_agent_stay_say(tasks, c->rank);
    return 0;
}
