/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/planning/verdicts.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "health/inject.h"
#include "health/run/drain.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"

/* What an administrator may run; "" where there is no reason to. */
static void propose(const struct dlr_plan_verdict *v, char *buf, size_t size)
{
    char reason[DLR_DRAIN_TEXT];

    buf[0] = '\0';
    if (v->check.verdict != DLR_HEALTH_DRAIN ||
        dlr_after(v->check.reason, DLR_INJECTED))
        return;
    dlr_drain_reason(v->check.check, v->check.reason, reason);
    dlr_format(buf, size, "scontrol update NodeName=%s State=DRAIN Reason=\"%s\"",
               v->node, reason);
}

void dlr_sup_tell_verdicts(const struct dlr_sup_planning *planning,
                           const struct dlr_plan *plan)
{
    for (unsigned i = 0; i < plan->nverdicts; i++) {
        const struct dlr_plan_verdict *v = &plan->verdicts[i];
        char drain[DLR_DRAIN_TEXT + DLR_TOPO_NAME + 64];

        propose(v, drain, sizeof(drain));
        dlr_journal_note(dlr_sup_journal(planning->env.io), "check",
                         "s:s,s:s,s:s,s:s,s:s*", "node", v->node, "check",
                         v->check.check, "verdict",
                         dlr_health_verdict_name(v->check.verdict), "reason",
                         v->check.reason, "drain", drain[0] ? drain : NULL);
    }
}

int dlr_sup_inject_check(struct dlr_err *err)
{
    return dlr_inject_check(getenv("DLROVER_INJECT"), dlr_health_checks, err);
}

void dlr_sup_inject_tell(const struct dlr_sup_planning *planning)
{
    const char *text = getenv("DLROVER_INJECT");

    if (!text || !text[0])
        return;
    dlr_journal_note(dlr_sup_journal(planning->env.io), "inject", "s:s", "faults",
                     text);
    dlr_user_line(planning->env.io, "faults are injected (DLROVER_INJECT): %s", text);
}
