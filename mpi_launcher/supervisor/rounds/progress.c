/* SPDX-License-Identifier: Apache-2.0 */
/* How far the program is: its first step, then a line now and then. */
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/versions/versions.h"
#include "mpi_launcher/wire/heartbeat.h"

#define PROGRESS_EVERY_MS 2000

static json_t *progress_row(struct dlr_sup_rounds *rounds, uint64_t step, double rate,
                            int64_t now_ms)
{
    json_t *row = json_pack("{s:I,s:I,s:f}", "round", (json_int_t)rounds->running_round,
                            "step", (json_int_t)step, "rate", rate);

    if (row)
        dlr_sup_saves_put(rounds->env.versions, now_ms, row);
    return row;
}

void dlr_sup_progress(struct dlr_sup_rounds *rounds, int64_t now_ms)
{
    uint64_t step;
    double rate;

    if (dlr_policy_phase(rounds->policy) != DLR_PHASE_RUN || rounds->adopt.active)
        return;
    if (dlr_sup_launch_late(rounds, now_ms))
        return;
    step = dlr_members_step(rounds->members, rounds->running_round);
    if (step == DLR_HEARTBEAT_NO_STEP)
        return;
    dlr_policy_stepped(rounds->policy, rounds->running_round);
    dlr_sup_versions_watch(rounds->env.versions, step, now_ms);
    if (!rounds->first_step_seen) {
        rounds->first_step_seen = true;
        if (!rounds->nrestored) /* it runs and does not want what there is */
            rounds->restore_deadline_ms = INT64_MAX;
        rounds->progress_ms = now_ms;
        rounds->progress_step = step;
        if (rounds->first_step_reported)
            return; /* by the former supervisor */
        rounds->first_step_reported = true;
        dlr_sup_rounds_changed(rounds);
        dlr_journal_note(dlr_sup_journal(rounds->env.io), "first_step", "s:I,s:I",
                         "round", (json_int_t)rounds->running_round, "step",
                         (json_int_t)step);
        return;
    }
    if (now_ms - rounds->progress_ms < PROGRESS_EVERY_MS ||
        step == rounds->progress_step)
        return;
    rate = (double)(step - rounds->progress_step) * 1000.0 /
           (now_ms - rounds->progress_ms);
    rounds->progress_ms = now_ms;
    rounds->progress_step = step;
    dlr_journal_event(dlr_sup_journal(rounds->env.io), "progress",
                      progress_row(rounds, step, rate, now_ms));
}
