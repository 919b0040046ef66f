/* SPDX-License-Identifier: Apache-2.0 */
/* What several engines tell, or ask, in the same way. */
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/step_plan/step_plan.h"
#include "mpi_launcher/supervisor/copies/requests.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/saved_state.h"
#include "mpi_launcher/supervisor/supervisor.h"

void dlr_sup_state_changed(void *arg, bool lasting)
{
    if (lasting)
        dlr_sup_save_state(arg);
    else
        dlr_sup_save_takeover_state(arg);
}

bool dlr_sup_is_over(void *arg)
{
    const struct dlr_sup *s = arg;

    return dlr_sup_ending_over(s->ending);
}

bool dlr_sup_has_ended(void *arg)
{
    const struct dlr_sup *s = arg;

    return dlr_sup_ending_finished(s->ending);
}

uint32_t dlr_sup_round_now(void *arg)
{
    const struct dlr_sup *s = arg;

    return dlr_policy_round(s->policy);
}

void dlr_sup_lost_before(void *arg, unsigned node)
{
    struct dlr_sup *s = arg;

    dlr_policy_lost_before(s->policy, node);
}

bool dlr_sup_is_barred(void *arg, unsigned node)
{
    const struct dlr_sup *s = arg;

    return dlr_step_plan_bars(s->step, node);
}

int64_t dlr_sup_phase_since(void *arg)
{
    const struct dlr_sup *s = arg;

    return dlr_sup_phase_ms(s->rounds);
}

uint32_t dlr_sup_running_now(void *arg)
{
    const struct dlr_sup *s = arg;

    return dlr_sup_running_round(s->rounds);
}

uint64_t dlr_sup_next_request(void *arg)
{
    return dlr_sup_ids(((struct dlr_sup *)arg)->copies, 1);
}
