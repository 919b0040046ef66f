/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes for the next step. */
#include "mpi_launcher/supervisor/steps/steps_state.h"

bool dlr_sup_is_candidate(const struct dlr_sup_steps *steps, unsigned node)
{
    if (dlr_policy_phase(steps->policy) == DLR_PHASE_AGENTS)
        return !dlr_policy_is_lost(steps->policy, node); /* who may come */
    return steps->members->list[node].here && dlr_policy_is_alive(steps->policy, node);
}
