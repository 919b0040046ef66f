/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes are parked, and which tasks stand for them: stay.c makes them so. */
#include <signal.h>

#include "common/json/message.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/tasks/tasks_state.h"

struct dlr_agent_conn *dlr_agent_stay_find(const struct dlr_agent_tasks *tasks,
                                           enum dlr_agent_conn_kind kind, int32_t rank)
{
    for (struct dlr_agent_conn *c = zlistx_first(tasks->conns); c;
         c = zlistx_next(tasks->conns))
        if (c->kind == kind && c->rank == rank)
            return c;
    return NULL;
}

bool dlr_agent_conn_has_stepd(const struct dlr_agent_tasks *tasks, uint32_t round)
{
    for (struct dlr_agent_conn *c = zlistx_first(tasks->conns); c;
         c = zlistx_next(tasks->conns))
        if (c->kind == DLR_CONN_STEPD && c->round == round)
            return true;
    return false;
}

bool dlr_agent_stay_relays(const struct dlr_agent_tasks *tasks, uint32_t round,
                           int32_t rank)
{
    for (struct dlr_agent_conn *c = zlistx_first(tasks->conns); c;
         c = zlistx_next(tasks->conns))
        if (c->kind == DLR_CONN_RELAY && c->rank == rank && c->round == round)
            return true;
    return false;
}

unsigned dlr_agent_stay_count(const struct dlr_agent_tasks *tasks)
{
    unsigned n = 0;

    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all))
        n += t->pidfd >= 0 && t->stays && !t->relay;
    return n;
}

bool dlr_agent_stay_waits(const struct dlr_agent_tasks *tasks)
{
    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all)) {
        const struct dlr_agent_conn *c =
            t->stays ? dlr_agent_stay_find(tasks, DLR_CONN_STAY, t->rank) : NULL;

        if (t->stays && !(c && c->parked))
            return true;
    }
    return false;
}

void dlr_agent_stay_say(const struct dlr_agent_tasks *tasks, int32_t rank)
{
    dlr_agent_send_supervisor(tasks->base,
                              json_pack("{s:i, s:s, s:I, s:i}", "v", DLR_MSG_VERSION,
                                        "t", "can_stay", "round",
                                        (json_int_t)tasks->round->round, "rank", rank));
}

void dlr_agent_stay_resend(const struct dlr_agent_tasks *tasks)
{
    for (struct dlr_agent_conn *c = zlistx_first(tasks->conns); c;
         c = zlistx_next(tasks->conns))
        if (c->kind == DLR_CONN_STAY && !c->parked &&
            dlr_agent_round_is(tasks->round, c->round))
            dlr_agent_stay_say(tasks, c->rank);
}

void dlr_agent_stay_tell(const struct dlr_agent_conn *c, enum dlr_local_type type,
                         uint64_t arg)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, type);
    m.round = c->round;
    m.rank = c->rank;
    m.arg[0] = arg;
    dlr_agent_local_send(c, &m, NULL, 0);
}

void dlr_agent_stay_ended(struct dlr_agent_tasks *tasks, int32_t rank, int status)
{
    for (struct dlr_agent_conn *c = zlistx_first(tasks->conns); c;
         c = zlistx_next(tasks->conns))
        if (c->kind == DLR_CONN_RELAY && c->rank == rank)
            dlr_agent_stay_tell(c, DLR_LOCAL_RELAY_END,
                                (uint64_t)(status < 0 ? SIGKILL : status));
}
