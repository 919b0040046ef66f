/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a job whose steps had SIGTERM (termination.c): slurmctld's word, or its time is over. */
#include <stdio.h>

#include "mpi_launcher/policy/state.h"

static const char *why_it_ended(const struct dlr_policy *p, enum dlr_fate fate)
{
    if (p->told.wanted || fate == DLR_FATE_ENDS)
        return "ended by signal 15 (Terminated)";
    return p->told.limit ? "the step's time was over (srun --time)"
                         : "the program has ended after SIGTERM";
}

static void conclude(struct dlr_policy *p, enum dlr_fate fate, int64_t now_ms)
{
    const char *why = why_it_ended(p, fate);

    p->told.settling = false;
    p->told.over = true;
    p->told.back = fate == DLR_FATE_PREEMPTED;
    p->told.taken = fate == DLR_FATE_ENDS;
    dlr_policy_end_round(p, DLR_CAUSE_SIGNAL, p->told.back ? "preempted" : why, now_ms);
}

void dlr_policy_fate(struct dlr_policy *p, enum dlr_fate fate, int64_t now_ms)
{
    switch (p->phase) {
    case DLR_PHASE_RUN:
        if (p->told.settling)
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
        p->told.over = true;
        p->told.back = fate == DLR_FATE_PREEMPTED;
        p->exit_code = 128 + 15;
        snprintf(p->why, sizeof(p->why), "%s",
                 p->told.back ? "preempted" : "ended by signal 15 (Terminated)");
        dlr_policy_told_over(p, now_ms);
        break;
    default:
        break;
    }
}

bool dlr_policy_told_late(struct dlr_policy *p, int64_t now_ms)
{
    if (p->told.settling) {
        conclude(p, DLR_FATE_RUNS, now_ms);
        return true;
    }
    if (p->told.wanted) {
        p->exit_code = 128 + 15;
        dlr_policy_end_round(p, DLR_CAUSE_SIGNAL, "ended by signal 15 (Terminated)",
                             now_ms);
        return true;
    }
    if (!p->told.code)
        return false;
    p->exit_code = p->told.code;
    p->killed = p->exit_code == 128 + 15;
    dlr_policy_end_round(p, DLR_CAUSE_PROGRAM, p->told.why, now_ms);
    return true;
}
