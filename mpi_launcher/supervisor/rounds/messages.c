/* SPDX-License-Identifier: Apache-2.0 */
/* What agents say of a round: of the one that runs, or to be judged later. */
#include "common/json/message.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"

bool dlr_sup_of_round(const struct dlr_sup_rounds *rounds, const json_t *msg,
                      unsigned of, unsigned *ret_rank)
{
    uint64_t round, rank;

    if (!dlr_sup_has_plan(rounds->env.plan) ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        dlr_msg_uint(msg, "rank", of - 1, &rank) < 0 || round != rounds->running_round)
        return false;
    *ret_rank = rank;
    return true;
}

bool dlr_sup_adopt_later(struct dlr_sup_rounds *rounds, unsigned node,
                         const json_t *msg)
{
    if (!rounds->adopt.active)
        return false;
    if (!rounds->adopt.later)
        rounds->adopt.later = json_array();
    json_array_append_new(rounds->adopt.later,
                          json_pack("[i,O]", (int)node, (json_t *)msg));
    return true;
}
