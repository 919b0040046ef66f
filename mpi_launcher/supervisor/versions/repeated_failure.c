/* SPDX-License-Identifier: Apache-2.0 */
/* A program that fails in the same way again and again is restored from older versions. */
#include <stdio.h>

#include "mpi_launcher/supervisor/supervisor.h"

/* Which of the ranks was heard first is chance. */
static const char *without_rank(const char *why)
{
    int n = 0;

    return sscanf(why, "rank %*u %n", &n) == 0 && n > 0 ? why + n : why;
}

void dlr_sup_repeat_look(struct dlr_sup *s)
{
    const char *why = dlr_policy_failure(s->policy);
    uint32_t round = dlr_policy_round(s->policy);
    struct dlr_version from = s->plan->version;
    unsigned n = s->nstruck;

    if (!why || !dlr_sup_has_plan(s->plan) || !s->plan->restore || !s->go_told ||
        s->repeat_looked == round)
        return;
    s->repeat_looked = round;
    why = without_rank(why);
    if (dlr_repeat_failed(&s->repeat, from, why) == DLR_REPEAT_ON)
        return;
    dlr_sup_strike(s, "*", -1, (struct dlr_version){round, from.step});
    if (s->nstruck > n)
        s->struck[n].later = true;
    dlr_journal_note(dlr_sup_journal(s->io), "gone_back", "s:o,s:s", "version",
                     dlr_sup_version(&from), "why", why);
    dlr_sup_say(s->io,
                "%s again after a restore of step %llu: an older version is next", why,
                (unsigned long long)from.step);
}

bool dlr_sup_repeat_stops(struct dlr_sup *s, const struct dlr_plan *plan)
{
    char why[600];

    if (plan->restore || !dlr_repeat_is_over(&s->repeat, why, sizeof(why)))
        return false;
    dlr_policy_give_up(s->policy, why);
    return true;
}
