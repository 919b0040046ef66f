/* SPDX-License-Identifier: Apache-2.0 */
/* The next round: its nodes meet, fewer of them where the user allows it; copies move,
 * and it is launched.
 */
#include <stdio.h>

#include "mpi_launcher/policy/guards.h"
#include "mpi_launcher/policy/rule_actions.h"
#include "mpi_launcher/policy/state.h"

DLR_ACTION(stop_rendezvous)
{
    p->ops.stop_rendezvous(p->arg);
}

/* --- its size --------------------------------------------------------------------- */

/* As many places as nodes are left: fewer where the user allowed it, more when some are
 * back.
 */
DLR_ACTION(fit_places)
{
    unsigned up = dlr_policy_count(p, NODE_UP);
    unsigned n = up < p->conf.nplaces ? up : p->conf.nplaces;

    p->fit_why[0] = '\0';
    if (p->conf.group > 1 && n < p->conf.nplaces)
        n -= n % p->conf.group;
    if (n < p->conf.min_places) {
        snprintf(p->fit_why, sizeof(p->fit_why), "%u nodes are left and %u are needed",
                 up, p->conf.min_places);
        return;
    }
    if (n == p->places)
        return;
    if (p->ops.resize(p->arg, n) == 0)
        p->places = n;
    else if (n < p->places) /* else as few as before are still enough */
        snprintf(p->fit_why, sizeof(p->fit_why),
                 "%u nodes are left, and the step cannot be made for them", up);
}

/* --- rendezvous ------------------------------------------------------------------- */

DLR_ACTION(rendezvous)
{
    dlr_policy_count_fruitless(p, e->now_ms);
    p->ops.rendezvous(p->arg, dlr_policy_if_another_try_is_left(p, e));
    if (dlr_policy_heeds(p, e->now_ms))
        p->ops.ask_fate(p->arg); /* a job that ends starts nothing */
}

/* The program's failures have a budget of their own. */
DLR_ACTION(count_it_no_more)
{
    p->fruitless.spent -= p->fruitless.spent > 0;
}

DLR_ACTION(note_it_leads_nowhere)
{
    if (!p->exit_code)
        p->exit_code = 1;
    snprintf(p->failed_why, sizeof(p->failed_why),
             "begun anew %u times within an hour without a newer version%s%s",
             p->fruitless.spent, p->why[0] ? ", last: " : "", p->why);
}

DLR_ACTION(hold)
{
    p->deadline_ms = e->now_ms + e->limit_ms;
}

DLR_ACTION(forget_failed_tries)
{
    p->failed_rendezvous = 0;
}

DLR_ACTION(count_failed_try)
{
    p->failed_rendezvous++;
}

DLR_ACTION(stop_and_count_failed_try)
{
    p->ops.stop_rendezvous(p->arg);
    p->failed_rendezvous++;
}

DLR_ACTION(finish_no_rendezvous)
{
    char text[384];

    snprintf(text, sizeof(text), "no rendezvous: %s", e->why);
    dlr_policy_finish(p, 1, text);
}

DLR_ACTION(stop_and_finish_no_rendezvous)
{
    p->ops.stop_rendezvous(p->arg);
    dlr_policy_do_finish_no_rendezvous(p, e);
}

DLR_ACTION(finish_given_up)
{
    dlr_policy_finish(p, p->exit_code ? p->exit_code : 1, e->why);
}

/* --- preparation and launch ------------------------------------------------------- */

DLR_ACTION(prepare)
{
    p->failed_rendezvous = 0;
    p->round = p->next_round++;
    p->begun = true;
    for (unsigned i = 0; i < p->conf.nnodes; i++)
        p->nodes[i].member = e->member[i];
    p->ops.prepare(p->arg, p->round);
}

/* The next plan does without what failed. */
DLR_ACTION(count_setback)
{
    p->failed_restores++;
    snprintf(p->failed_why, sizeof(p->failed_why), "%s",
             p->phase == DLR_PHASE_PREPARE ? e->why : p->why);
}

DLR_ACTION(finish_no_copy)
{
    char text[640];

    snprintf(text, sizeof(text), "no copy could be used %u times in a row, last: %s",
             p->failed_restores, p->failed_why);
    dlr_policy_finish(p, 1, text);
}

DLR_ACTION(launch)
{
    p->ended = p->ended_early = p->exit_unexplained = p->started = p->stepped =
        p->killed = p->said_stop = p->sigterm.asked = false;
    p->launch_ms = e->now_ms;
    p->exit_code = p->sigterm.code = 0;
    p->ops.launch(p->arg, p->round);
}
