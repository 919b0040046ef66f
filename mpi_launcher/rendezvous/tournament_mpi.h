/* SPDX-License-Identifier: Apache-2.0 */
/* The tournament of health/network/tournament.h over MPI: one rank per node measures its link
 * with its partner of each round.
 */
#ifndef DLR_MPI_LAUNCHER_RENDEZVOUS_TOURNAMENT_MPI_H
#define DLR_MPI_LAUNCHER_RENDEZVOUS_TOURNAMENT_MPI_H

#include <stdbool.h>

#include "common/json/message.h"
#include "health/health.h"
#include "hwloc_topo/topo.h"

struct dlr_net_result {
    struct dlr_health_result check; /* of this node: "network" */
    json_t *links; /* docs/protocol.md section 5; NULL but on rank 0. The caller's */
    /* a message never came: MPI cannot take it back, and may wait for it at its end */
    bool hung;
};

/* Collective over MPI_COMM_WORLD: every rank calls it. self is this node's name and
 * its place in the network (path "" unknown). Blocking: a round takes milliseconds, at most
 * three times EXCHANGE_MS where messages do not come, and no round begins after
 * limit_ms. What fails here is a verdict "skip", never an error.
 */
void dlr_net_tournament(const struct dlr_topo_node *self, bool no_stragglers,
                        int64_t limit_ms, struct dlr_net_result *ret);

#endif
