/* SPDX-License-Identifier: Apache-2.0 */
/* SIGTERM from Slurm: the tasks of this node have it, too, and what Slurm leaves them
 * until SIGKILL. Nothing is killed here meanwhile and no memory is removed. The
 * supervisor decides what comes of it where it lives. Where it went with the script,
 * nobody is elected to bring the job back: the lowest-named live agent has the newest
 * version written, and each agent ends after its tasks.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/succession/succession_state.h"
#include "mpi_launcher/agent/tasks/tasks.h"
#include "mpi_launcher/policy/grace_turn.h"
#include "mpi_launcher/wire/heartbeat.h"

#define MS 1000000ll

bool dlr_agent_in_grace(const struct dlr_agent_succession *su)
{
    return su->grace.until_ns > dlr_now_ns();
}

/* In grace, and without a supervisor. */
static bool is_alone(const struct dlr_agent_succession *su)
{
    return dlr_agent_in_grace(su) &&
           su->ops->unheard_ms(su->arg) > dlr_agent_dead_ms(su);
}

void dlr_agent_grace_resend(struct dlr_agent_succession *su)
{
    if (dlr_agent_in_grace(su))
        dlr_agent_send_supervisor(
            su->base, json_pack("{s:i, s:s, s:I}", "v", DLR_MSG_VERSION, "t", "term",
                                "round", (json_int_t)su->grace.round));
}

/* The lowest-named writes. One that is dead says nothing: each of the next waits twice
 * the dead-time longer.
 */
static bool is_turn(const struct dlr_agent_succession *su)
{
    unsigned lower = 0;

    while (lower < dlr_agent_peer_list(su->base)->n &&
           strcmp(dlr_agent_peer_list(su->base)->all[lower].node, su->self->node) <
               0) /* order of names */
        lower++;
    return dlr_grace_is_turn(
        lower, su->grace.led_ns ? (dlr_now_ns() - su->grace.led_ns) / MS : -1,
        su->ops->unheard_ms(su->arg), dlr_agent_dead_ms(su));
}

static void say_to_others(struct dlr_agent_succession *su, const char *what)
{
    dlr_agent_peers_send_all(su->base, su->self->node,
                             json_pack("{s:i, s:s, s:I}", "v", DLR_MSG_VERSION, "t",
                                       what, "gen", (json_int_t)su->self->run.gen));
}

/* So that another one begins when this one dies. */
static void say_writing(struct dlr_agent_succession *su)
{
    if (dlr_now_ns() - su->grace.said_ns < dlr_agent_dead_ms(su) * MS)
        return;
    su->grace.said_ns = dlr_now_ns();
    say_to_others(su, "writing");
}

static int look(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_succession *su = arg;

    su->grace.timer = -1;
    if (!dlr_agent_in_grace(su) || dlr_agent_ends(su->base))
        return 0;
    dlr_agent_timer(su->base, &su->grace.timer, dlr_agent_dead_ms(su) / 4, look, su);
    if (!is_alone(su))
        return 0;
    if (!su->grace.over && !su->successor && is_turn(su)) {
        dlr_warn("%s: the job is being ended: writing what is in memory",
                 su->self->node);
        dlr_agent_succeed_write_only(su, dlr_agent_grace_over);
    }
    if (!su->grace.over && su->successor)
        say_writing(su);
    if (su->grace.over && dlr_agent_tasks_left(su->tasks) == 0)
        dlr_agent_end(su->base);
    return 0;
}

void dlr_agent_grace(struct dlr_agent_succession *su)
{
    if (su->given) { /* what is to be kept is written, the round is gone */
        dlr_agent_leave(su->base);
        return;
    }
    su->grace.round = su->round->known ? (int64_t)su->round->round : -1;
    su->grace.until_ns = dlr_now_ns() + dlr_term_hold_ms(getenv(DLR_KILL_WAIT)) * MS;
    su->ops->hold(su->arg, su->grace.until_ns);
    dlr_agent_grace_resend(su);
    if (su->grace.timer < 0)
        dlr_agent_timer(su->base, &su->grace.timer, dlr_agent_dead_ms(su) / 4, look,
                        su);
}

void dlr_agent_warned(struct dlr_agent_succession *su, int sig)
{
    if (su->round->known)
        dlr_agent_send_supervisor(
            su->base,
            json_pack("{s:i, s:s, s:I, s:i}", "v", DLR_MSG_VERSION, "t", "warned",
                      "round", (json_int_t)su->round->round, "signal", sig));
}

void dlr_agent_grace_over(struct dlr_agent_succession *su)
{
    if (su->grace.over)
        return;
    su->grace.over = true;
    if (su->successor)
        say_to_others(su, "over");
}

void dlr_agent_grace_stop(struct dlr_agent_succession *su)
{
    dlr_agent_timer_end(su->base, &su->grace.timer);
}
