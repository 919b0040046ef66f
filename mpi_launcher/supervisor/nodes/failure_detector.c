/* SPDX-License-Identifier: Apache-2.0 */
/* Who is silent for too long. Nobody is judged for what the supervisor did not look at itself. */
#include "mpi_launcher/supervisor/supervisor.h"

#include <stdio.h>

#define LATE_MS 10 /* our own loop was late by more: that time counts for nobody */
#define WAITING_MAX 10000 /* messages that are read before anybody is judged */
#define JUDGE_EXTRA_MS                                                                 \
    50 /* on top of dead time: the lease has run out before the verdict */

/* From now on the node is not heard, until it comes back. */
void dlr_sup_give_up(struct dlr_sup *s, unsigned node, const char *why,
                     const char *reason, int64_t silent_ms)
{
    struct dlr_member *m = &s->members.list[node];

    m->here = false;
    s->losses.nodes++;
    dlr_sup_say(s->io, "%s", why);
    dlr_journal_note(dlr_sup_journal(s->io), "node_dead", "s:s,s:s,s:I", "node",
                     m->node.name, "why", reason, "silent_ms", (json_int_t)silent_ms);
    dlr_sup_bare(s, node);
    dlr_sup_gather_lost(s, node);
    dlr_sup_transfers_lost(s, node);
    dlr_sup_peers_went(s, node);
    dlr_sup_save_lost(s);
}

void dlr_sup_lose(struct dlr_sup *s, unsigned node, int64_t silent_ms, int64_t now_ms)
{
    struct dlr_member *m = &s->members.list[node];
    char why[300];

    dlr_sup_adopt_failed(s, "the supervisor died, and a node with it");

    snprintf(why, sizeof(why), "node %.200s was silent for %lld ms", m->node.name,
             (long long)silent_ms);
    dlr_sup_rejoin_lost(s, node);
    dlr_sup_give_up(s, node, why, "silent", silent_ms);
    dlr_policy_node_dead(s->policy, node, why, now_ms);
}

/* The policy has given up a node whose processes did not end. It counts again when it says
 * that they have.
 */
static void give_up_unclean(struct dlr_sup *s)
{
    char why[300];

    for (unsigned i = 0; i < s->members.n; i++) {
        if (!s->members.list[i].here || !dlr_policy_is_lost(s->policy, i))
            continue;
        snprintf(why, sizeof(why),
                 "node %.200s did not get rid of the round's processes in time",
                 s->members.list[i].node.name);
        dlr_sup_give_up(s, i, why, "unclean", 0);
    }
}

/* Half of the nodes or more silent at once is more likely our own link: acting on it could
 * only take the job from the majority, which elects a successor meanwhile. And of more than the
 * spares can replace, to act sooner is no help: they may come back, a requeue takes minutes. Who
 * has been silent for half of the limit counts here: no two fall silent at the same moment.
 */
static bool is_mass_silence(const struct dlr_sup *s, int64_t now_ms, int64_t limit)
{
    unsigned least = s->conf.nodes.min ? s->conf.nodes.min : s->step.nplaces;
    unsigned here = 0, silent = 0;

    for (unsigned i = 0; i < s->members.n; i++) {
        const struct dlr_member *m = &s->members.list[i];

        here += m->here;
        silent += m->here && now_ms - m->heard_ms > limit / 2;
    }
    return silent && (2 * silent >= here || here - silent < least);
}

/* Time in which we did not look is nobody's silence: the sum of many small delays, on a busy
 * machine, as well as one long one.
 */
static void forgive_own_lag(struct dlr_sup *s, int64_t now_ms)
{
    int64_t late = now_ms - s->tick_ms - DLR_SUP_TICK_MS;

    s->tick_ms = now_ms;
    for (unsigned i = 0; late > LATE_MS && i < s->members.n; i++)
        s->members.list[i].heard_ms += late;
}

/* The loop takes one message in each turn: a beat may be there, behind others. */
static void read_waiting(struct dlr_sup *s)
{
    for (unsigned n = 0; n < WAITING_MAX && dlr_sup_take_message(s->io) != 0; n++)
        ;
}

static bool anybody_silent(const struct dlr_sup *s, int64_t now_ms, int64_t limit)
{
    for (unsigned i = 0; i < s->members.n; i++)
        if (s->members.list[i].here && now_ms - s->members.list[i].heard_ms > limit)
            return true;
    return false;
}

void dlr_sup_judge(struct dlr_sup *s, int64_t now_ms)
{
    int64_t limit = dlr_jobconf_dead_ms(&s->conf) + JUDGE_EXTRA_MS;

    forgive_own_lag(s, now_ms);
    give_up_unclean(s);
    if (!anybody_silent(s, now_ms, limit))
        return;
    read_waiting(s);
    if (is_mass_silence(s, now_ms, limit))
        limit += s->conf.mass_silence_ms;
    for (unsigned i = 0; i < s->members.n && !s->finished; i++) {
        struct dlr_member *m = &s->members.list[i];

        if (m->here && now_ms - m->heard_ms > limit && !dlr_sup_term_holds(s, now_ms))
            dlr_sup_lose(s, i, now_ms - m->heard_ms, now_ms);
    }
}
