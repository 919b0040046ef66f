/* SPDX-License-Identifier: Apache-2.0 */
/* A program that fails in the same way again and again is restored from older versions;
 * one that fails on the same node first, without that node.
 */
#include <stdio.h>

#include "common/base/str.h"
#include "mpi_launcher/supervisor/planning/version_json.h"
#include "mpi_launcher/supervisor/versions/versions_state.h"

/* Which of the ranks was heard first is chance. */
static const char *without_rank(const char *why)
{
    int n = 0;

    return sscanf(why, "rank %*u %n", &n) == 0 && n > 0 ? why + n : why;
}

void dlr_sup_repeated_failure_look(struct dlr_sup_versions *versions)
{
    const char *why = dlr_policy_failure(versions->policy);
    uint32_t round = dlr_policy_round(versions->policy);
    struct dlr_version from = versions->env.plan->version;

    if (!why || !dlr_sup_has_plan(versions->env.plan) || !versions->env.plan->restore ||
        versions->repeat_looked == round)
        return;
    versions->repeat_looked = round;
    why = without_rank(why);
    if (dlr_repeated_failure_add(&versions->repeat, from, why) == DLR_REPEATED_ON)
        return;
    dlr_sup_strike_version(versions->env.copies, (struct dlr_version){round, from.step},
                           false, true);
    dlr_journal_note(dlr_sup_journal(versions->env.io), "gone_back", "s:o,s:s",
                     "version", dlr_sup_version(&from), "why", why);
    dlr_user_line(versions->env.io,
                  "%s again after a restore of step %llu: an older version is next",
                  why, (unsigned long long)from.step);
}

bool dlr_sup_repeated_failure_stops(const struct dlr_sup_versions *versions,
                                    const struct dlr_plan *plan, char *buf, size_t size)
{
    return !plan->restore && dlr_repeated_failure_is_over(&versions->repeat, buf, size);
}

/* The kernel of a bad node may live: the program fails there first, again and again,
 * while a spare is idle. At its start once is enough to try another node, as there is
 * nothing to move.
 */
void dlr_sup_blame_node(struct dlr_sup_versions *versions, unsigned node, bool by_class)
{
    struct dlr_restart_budget_failure how = dlr_policy_failed_how(versions->policy);
    bool start = dlr_restart_budget_is_start(&how);
    bool elsewhere =
        by_class || dlr_failure_rules_exit(&versions->env.conf->on, how.code) ==
                        DLR_FAILURE_ELSEWHERE;
    struct dlr_plan_out out = {.last = true};

    versions->blamed_times = versions->blamed_times && versions->blamed == node
                                 ? versions->blamed_times + 1
                                 : 1;
    versions->blamed = node;
    dlr_format(out.node, sizeof(out.node), "%s",
               versions->members->list[node].node.name);
    if (versions->blamed_times < (start || elsewhere ? 1 : 2) ||
        dlr_sup_is_left_out(versions->env.planning, out.node))
        return;
    dlr_format(out.reason, sizeof(out.reason), "the program has failed there first%s",
               start || versions->blamed_times == 1 ? "" : ", twice");
    dlr_sup_leave_out(versions->env.planning, &out);
}
