/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a job whose steps had SIGTERM (termination.c): slurmctld's word, or
 * its time is over.
 */
#include <stdio.h>

#include "mpi_launcher/policy/state.h"

static const char *why_it_ended(const struct dlr_policy *p, enum dlr_fate fate)
{
    if (p->sigterm.wanted || fate == DLR_FATE_ENDS)
        return "ended by signal 15 (Terminated)";
    return p->sigterm.limit ? "the step's time was over (srun --time)"
                            : "the program has ended after SIGTERM";
}

static void conclude(struct dlr_policy *p, enum dlr_fate fate, int64_t now_ms)
{
    const char *why = why_it_ended(p, fate);

    p->sigterm.settling = false;
    p->sigterm.over = true;
    p->sigterm.back = fate == DLR_FATE_PREEMPTED;
    p->sigterm.taken = fate == DLR_FATE_ENDS;
    dlr_policy_end_round(p, DLR_CAUSE_SIGNAL, p->sigterm.back ? "preempted" : why,
                         now_ms);
}

void dlr_policy_fate(struct dlr_policy *p, enum dlr_fate fate, int64_t now_ms)
{
    switch (p->phase) {
    case DLR_PHASE_RUN:
        if (p->sigterm.settling)
            conclude(p, fate, now_ms);
        break;
    case DLR_PHASE_AGENTS:
    case DLR_PHASE_RENDEZVOUS:
    case DLR_PHASE_PREPARE:
    case DLR_PHASE_WAIT:
        if (fate == DLR_FATE_RUNS)
            break;
        if (p->phase == DLR_PHASE_RENDEZVOUS)
            p->ops.stop_rendezvous(p->arg);
        p->sigterm.over = true;
        p->sigterm.back = fate == DLR_FATE_PREEMPTED;
        p->exit_code = 128 + 15;
        snprintf(p->why, sizeof(p->why), "%s",
                 p->sigterm.back ? "preempted" : "ended by signal 15 (Terminated)");
        dlr_policy_sigterm_over(p, now_ms);
        break;
    default:
        break;
    }
}

bool dlr_policy_sigterm_late(struct dlr_policy *p, int64_t now_ms)
{
    if (p->sigterm.settling) {
        conclude(p, DLR_FATE_RUNS, now_ms);
        return true;
    }
    if (p->sigterm.wanted) {
        p->exit_code = 128 + 15;
        dlr_policy_end_round(p, DLR_CAUSE_SIGNAL, "ended by signal 15 (Terminated)",
                             now_ms);
        return true;
    }
    if (!p->sigterm.code)
        return false;
    p->exit_code = p->sigterm.code;
    p->killed = p->exit_code == 128 + 15;
    dlr_policy_end_round(p, DLR_CAUSE_PROGRAM, p->sigterm.why, now_ms);
    return true;
}
