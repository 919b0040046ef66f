/* SPDX-License-Identifier: Apache-2.0 */
/* Who is silent for too long. Nobody is judged for what the supervisor did not look at
 * itself.
 */
#include "mpi_launcher/supervisor/nodes/failure_detector.h"

#include <stdio.h>

#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"

#define LATE_MS 10 /* our own loop was late by more: that time counts for nobody */
#define WAITING_MAX 10000 /* messages that are read before anybody is judged */
/* on top of dead time: the lease has run out before the verdict */
#define JUDGE_EXTRA_MS 50

void dlr_failure_detector_start(struct dlr_sup_nodes *nodes, int64_t now_ms)
{
    nodes->tick_ms = now_ms;
}

static void drop(struct dlr_sup_nodes *nodes, unsigned node, const char *why,
                 const char *reason, int64_t silent_ms)
{
    struct dlr_member *m = &nodes->members.list[node];

    m->here = false;
    nodes->losses.nodes++;
    dlr_user_line(nodes->env.io, "%s", why);
    dlr_journal_note(dlr_sup_journal(nodes->env.io), "node_dead", "s:s,s:s,s:I", "node",
                     m->node.name, "why", reason, "silent_ms", (json_int_t)silent_ms);
}

void dlr_node_mark_dead(struct dlr_sup_nodes *nodes, unsigned node, const char *why,
                        const char *reason)
{
    drop(nodes, node, why, reason, 0);
    nodes->ops->lost(nodes->arg, node, NULL, dlr_sup_now());
}

void dlr_node_lost(struct dlr_sup_nodes *nodes, unsigned node, int64_t silent_ms,
                   int64_t now_ms)
{
    char why[300];

    nodes->ops->silent(nodes->arg, node);
    snprintf(why, sizeof(why), "node %.200s was silent for %lld ms",
             nodes->members.list[node].node.name, (long long)silent_ms);
    drop(nodes, node, why, "silent", silent_ms);
    nodes->ops->lost(nodes->arg, node, why, now_ms);
}

/* A node was given up whose processes did not end. It counts again when it says
 * that they have.
 */
static void give_up_unclean(struct dlr_sup_nodes *nodes)
{
    char why[300];

    for (unsigned i = 0; i < nodes->members.n; i++) {
        if (!nodes->members.list[i].here || !nodes->ops->given_up(nodes->arg, i))
            continue;
        snprintf(why, sizeof(why),
                 "node %.200s did not get rid of the round's processes in time",
                 nodes->members.list[i].node.name);
        dlr_node_mark_dead(nodes, i, why, "unclean");
    }
}

/* Half of the nodes or more silent at once is more likely our own link: acting on it
 * could only take the job from the majority, which elects a successor meanwhile. And of
 * more than the spares can replace, to act sooner is no help: they may come back, a
 * requeue takes minutes. Who has been silent for half of the limit counts here: no two
 * fall silent at the same moment.
 */
static bool is_partition(const struct dlr_sup_nodes *nodes, int64_t now_ms,
                         int64_t limit)
{
    unsigned least = nodes->env.conf->nodes.min ? nodes->env.conf->nodes.min
                                                : nodes->ops->places(nodes->arg);
    unsigned here = 0, silent = 0;

    for (unsigned i = 0; i < nodes->members.n; i++) {
        const struct dlr_member *m = &nodes->members.list[i];

        here += m->here;
        silent += m->here && now_ms - m->heard_ms > limit / 2;
    }
    return silent && (2 * silent >= here || here - silent < least);
}

/* Time in which we did not look is nobody's silence: the sum of many small delays, on a
 * busy machine, as well as one long one.
 */
static void compensate_loop_delay(struct dlr_sup_nodes *nodes, int64_t now_ms)
{
    int64_t late = now_ms - nodes->tick_ms - DLR_SUP_TICK_MS;

    nodes->tick_ms = now_ms;
    for (unsigned i = 0; late > LATE_MS && i < nodes->members.n; i++)
        nodes->members.list[i].heard_ms += late;
}

/* The loop takes one message in each turn: a beat may be there, behind others. */
static void read_waiting(struct dlr_sup_nodes *nodes)
{
    for (unsigned n = 0; n < WAITING_MAX && dlr_sup_take_message(nodes->env.io) != 0;
         n++)
        ;
}

static bool anybody_silent(const struct dlr_sup_nodes *nodes, int64_t now_ms,
                           int64_t limit)
{
    for (unsigned i = 0; i < nodes->members.n; i++)
        if (nodes->members.list[i].here &&
            now_ms - nodes->members.list[i].heard_ms > limit)
            return true;
    return false;
}

void dlr_failure_detector_check(struct dlr_sup_nodes *nodes, int64_t now_ms)
{
    int64_t limit = dlr_job_config_dead_ms(nodes->env.conf) + JUDGE_EXTRA_MS;

    compensate_loop_delay(nodes, now_ms);
    give_up_unclean(nodes);
    if (!anybody_silent(nodes, now_ms, limit))
        return;
    read_waiting(nodes);
    if (is_partition(nodes, now_ms, limit))
        limit += nodes->env.conf->partition_grace_ms;
    for (unsigned i = 0; i < nodes->members.n && !nodes->ops->over(nodes->arg); i++) {
        struct dlr_member *m = &nodes->members.list[i];

        if (m->here && now_ms - m->heard_ms > limit &&
            !nodes->ops->start_retried(nodes->arg, now_ms))
            dlr_node_lost(nodes, i, now_ms - m->heard_ms, now_ms);
    }
}
