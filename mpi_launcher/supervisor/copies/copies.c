/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's beginning and end. */
#include "mpi_launcher/supervisor/copies/copies.h"

#include <stdlib.h>

#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/copies/fetch.h"
#include "mpi_launcher/supervisor/copies/reprotect.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"

struct dlr_sup_copies *dlr_sup_copies_new(const struct dlr_sup_copies_env *env,
                                          const struct dlr_sup_copies_ops *ops,
                                          void *arg)
{
    static const struct dlr_sup_copies_ops none;
    struct dlr_sup_copies *copies = calloc(1, sizeof(*copies));

    if (!copies)
        return NULL;
    copies->env = *env;
    copies->ops = ops ? ops : &none;
    copies->arg = arg;
    copies->members = dlr_sup_members(env->nodes);
    copies->step = dlr_sup_step(env->planning);
    copies->plan = dlr_sup_plan(env->planning);
    copies->reprotect.deadline_ms = INT64_MAX;
    return copies;
}

struct dlr_sup_copies *dlr_sup_copies_free(struct dlr_sup_copies *copies)
{
    if (!copies)
        return NULL;
    dlr_reprotect_stop(copies);
    dlr_sup_fetch_round(copies);
    dlr_parity_sets_done(&copies->sets);
    free(copies->holders);
    free(copies->slot_bytes);
    free(copies->holders_of_last_round);
    free(copies->transfers.list);
    free(copies->rejected);
    free(copies->retried);
    free(copies->requests);
    free(copies);
    return NULL;
}

void dlr_sup_copies_open(struct dlr_sup_copies *copies, const struct dlr_policy *policy,
                         struct dlr_commit *commit)
{
    copies->policy = policy;
    copies->commit = commit;
}
