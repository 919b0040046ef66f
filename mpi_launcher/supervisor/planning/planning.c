/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's beginning and end, and which way a plan comes: by MPI, or by reports
 * where that has failed, or by both where MPI is late.
 */
#include "mpi_launcher/supervisor/planning/planning.h"

#include <stdlib.h>

#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/steps/controller.h"
#include "mpi_launcher/supervisor/steps/network.h"

struct dlr_sup_planning *dlr_sup_planning_new(const struct dlr_sup_planning_env *env,
                                              const struct dlr_sup_planning_ops *ops,
                                              void *arg)
{
    static const struct dlr_sup_planning_ops none;
    struct dlr_sup_planning *planning = calloc(1, sizeof(*planning));

    if (!planning)
        return NULL;
    planning->env = *env;
    planning->ops = ops ? ops : &none;
    planning->arg = arg;
    planning->members = dlr_sup_members(env->nodes);
    planning->mpi.out = planning->mpi.log = -1;
    return planning;
}

struct dlr_sup_planning *dlr_sup_planning_free(struct dlr_sup_planning *planning)
{
    if (!planning)
        return NULL;
    dlr_sup_gather_drop(planning);
    dlr_sup_plan_done(planning);
    dlr_sup_places_done(planning);
    dlr_sup_step_done(planning);
    free(planning->mpi.text);
    free(planning);
    return NULL;
}

static void tell_candidates(struct dlr_sup_planning *planning, bool with_mpi, bool met)
{
    json_t *names = json_array();

    for (unsigned i = 0; i < planning->members->n; i++)
        if (dlr_sup_is_candidate(planning->env.steps, i))
            json_array_append_new(names,
                                  json_string(planning->members->list[i].node.name));
    dlr_journal_note(dlr_sup_journal(planning->env.io), "rendezvous", "s:b,s:o*,s:o",
                     "mpi", with_mpi, "met", met ? json_true() : NULL, "candidates",
                     names);
}

void dlr_sup_agents_begin(struct dlr_sup_planning *planning)
{
    planning->agents_ms = dlr_sup_now();
    planning->check_all = !planning->checked;
}

void dlr_sup_rendezvous(struct dlr_sup_planning *planning, bool with_mpi)
{
    struct dlr_err err = {0};
    bool met = with_mpi && dlr_sup_met_before(planning);

    if (planning->agents_ms)
        dlr_rendezvous_time_expect(&planning->usual[0],
                                   dlr_sup_now() - planning->agents_ms);
    planning->agents_ms = 0;
    if (dlr_sup_network_is_asked(planning->env.steps)) { /* its limit runs */
        planning->held = true;
        planning->held_mpi = with_mpi;
        return;
    }
    dlr_sup_network_tell(planning->env.steps);
    tell_candidates(planning, with_mpi && !met, met);
    planning->by_met = met;
    if (met) {
        planning->check_all = false;
        planning->checked = true;
        dlr_sup_gather_start(planning, true);
    } else if (!with_mpi) {
        dlr_user_line(
            planning->env.io,
            "no rendezvous by MPI; agents report instead, network checks that "
            "need MPI are left out");
        dlr_sup_gather_start(planning, true);
    } else if (dlr_sup_mpi_start(planning, &err) < 0) { /* its limit runs */
        dlr_user_line(planning->env.io, "cannot start the rendezvous: %s", err.text);
    }
}

void dlr_sup_rendezvous_resume(struct dlr_sup_planning *planning)
{
    if (planning->held) {
        planning->held = false;
        dlr_sup_rendezvous(planning, planning->held_mpi);
    }
}

/* PMIx may hang while nodes fall silent. Without slurmctld a plan would be of no use. A
 * measurement of the network has its time, and then its limit.
 */
void dlr_sup_rendezvous_tick(struct dlr_sup_planning *planning, int64_t now_ms)
{
    struct dlr_err err = {0};
    bool late = now_ms - planning->ops->since(planning->arg) >=
                dlr_rendezvous_time_late_ms(dlr_sup_rendezvous_time(planning));

    if (late && planning->mpi.srun.pid && !planning->gather.active &&
        !planning->mpi.network && !dlr_sup_is_asked(planning->env.steps))
        dlr_sup_ask_controller(planning->env.steps, DLR_QUERY_RENDEZVOUS, 0, "", 0);
    if (late && planning->by_met && planning->gather.active) {
        planning->by_met = false;
        dlr_sup_mpi_start(planning, &err); /* if it cannot: the limit runs */
    }
}

void dlr_sup_rendezvous_late(struct dlr_sup_planning *planning)
{
    if (!planning->mpi.srun.pid || planning->gather.active)
        return;
    dlr_user_line(
        planning->env.io,
        "the rendezvous by MPI has not ended after %lld ms: agents report, too",
        (long long)(dlr_sup_now() - planning->ops->since(planning->arg)));
    dlr_sup_gather_start(planning, true);
}
