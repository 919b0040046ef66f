/* SPDX-License-Identifier: Apache-2.0 */
/* SIGTERM from Slurm: the tasks of this node have it, too, and what Slurm leaves them until SIGKILL.
 * Nothing is killed here meanwhile and no memory is removed. The supervisor decides what comes of it
 * where it lives. Where it went with the script, nobody is elected to bring the job back: the
 * lowest-named live agent has the newest version written, and each agent ends after its tasks.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/agent.h"
#include "mpi_launcher/policy/grace_turn.h"
#include "mpi_launcher/wire/heartbeat.h"

#define MS 1000000ll

bool dlr_agent_in_grace(const struct dlr_agent *a)
{
    return a->grace.until_ns > dlr_now_ns();
}

/* In grace, and without a supervisor. */
static bool is_alone(const struct dlr_agent *a)
{
    return dlr_agent_in_grace(a) && (dlr_now_ns() - a->heard_ns) / MS > a->dead_ms;
}

void dlr_agent_grace_retell(struct dlr_agent *a)
{
    if (dlr_agent_in_grace(a))
        dlr_agent_say(a->base, json_pack("{s:i, s:s, s:I}", "v", DLR_MSG_VERSION, "t",
                                         "term", "round", (json_int_t)a->grace.round));
}

/* The lowest-named writes. One that is dead says nothing: each of the next waits twice the dead-time longer. */
static bool is_turn(const struct dlr_agent *a)
{
    unsigned lower = 0;

    while (lower < dlr_agent_peer_list(a->base)->n &&
           strcmp(dlr_agent_peer_list(a->base)->all[lower].node, a->self.node) <
               0) /* order of names */
        lower++;
    return dlr_grace_is_turn(
        lower, a->grace.led_ns ? (dlr_now_ns() - a->grace.led_ns) / MS : -1,
        (dlr_now_ns() - a->heard_ns) / MS, a->dead_ms);
}

static void say_to_others(struct dlr_agent *a, const char *what)
{
    for (unsigned i = 0; i < dlr_agent_peer_list(a->base)->n; i++)
        if (!dlr_streq(dlr_agent_peer_list(a->base)->all[i].node, a->self.node))
            dlr_agent_peers_say(a->base, dlr_agent_peer_list(a->base)->all[i].node,
                                json_pack("{s:i, s:s, s:I}", "v", DLR_MSG_VERSION, "t",
                                          what, "gen", (json_int_t)a->self.run.gen));
}

/* So that another one begins when this one dies. */
static void say_writing(struct dlr_agent *a)
{
    if (dlr_now_ns() - a->grace.said_ns < a->dead_ms * MS)
        return;
    a->grace.said_ns = dlr_now_ns();
    say_to_others(a, "writing");
}

static int look(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent *a = arg;

    a->grace.timer = -1;
    if (!dlr_agent_in_grace(a) || dlr_agent_ends(a->base))
        return 0;
    dlr_agent_timer(a->base, &a->grace.timer, a->dead_ms / 4, look, a);
    if (!is_alone(a))
        return 0;
    if (!a->grace.over && !a->successor && is_turn(a)) {
        dlr_warn("%s: the job is being ended: writing what is in memory", a->self.node);
        dlr_agent_succeed_write_only(a);
    }
    if (!a->grace.over && a->successor)
        say_writing(a);
    if (a->grace.over && dlr_agent_tasks_left(a->tasks) == 0)
        dlr_agent_end(a->base);
    return 0;
}

void dlr_agent_grace(struct dlr_agent *a)
{
    if (a->given) { /* what is to be kept is written, the round is gone */
        dlr_agent_leave(a->base);
        return;
    }
    a->grace.round = a->round.known ? (int64_t)a->round.round : -1;
    a->grace.until_ns = dlr_now_ns() + dlr_term_hold_ms(getenv(DLR_KILL_WAIT)) * MS;
    dlr_agent_lease_extend(a, a->grace.until_ns);
    dlr_agent_grace_retell(a);
    if (a->grace.timer < 0)
        dlr_agent_timer(a->base, &a->grace.timer, a->dead_ms / 4, look, a);
}

void dlr_agent_grace_over(struct dlr_agent *a)
{
    if (a->grace.over)
        return;
    a->grace.over = true;
    if (a->successor)
        say_to_others(a, "over");
}

void dlr_agent_grace_stop(struct dlr_agent *a)
{
    dlr_agent_timer_end(a->base, &a->grace.timer);
}
