/* SPDX-License-Identifier: Apache-2.0 */
/* What the supervisor says a round is: its nodes, their ranks, who keeps whose copies.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_BASE_ROUND_H
#define DLR_MPI_LAUNCHER_AGENT_BASE_ROUND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "ckpt/base/version.h"
#include "mpi_launcher/agent/base/self.h"

#define DLR_AGENT_UCX 4096 /* a UCX address in hex, NUL included */

struct dlr_agent_node { /* one of the round */
    char *name;
    char *data; /* its data process's UCX address in hex */
    int32_t *ranks;
    unsigned nranks;
};

struct dlr_agent_parity {
    int32_t rank; /* its slot's */
    char *terms;  /* text of D_SUM */
};

struct dlr_agent_round {
    bool known; /* a round was announced */
    uint32_t round;
    char token[33];
    struct dlr_agent_node *nodes;
    unsigned nnodes;
    char partners[DLR_COPIES_MAX][DLR_AGENT_NODE]; /* keep our copies */
    unsigned npartners;
    struct dlr_agent_parity *sums; /* parity shards that are made here */
    unsigned nsums;
    int32_t *accept; /* ranks whose copies may come here */
    unsigned naccept;
    bool has_restore;
    struct dlr_version restore;
    /* ranks that made it where their copies may be anywhere; 0: as many as now, each
     * where its rank is
     */
    uint32_t made_by;
    uint32_t world; /* ranks of the program, 0: not told */
    uint32_t turn;  /* of the round: another each time that its ranks are known anew */
    bool gathered;  /* nobody is welcomed before all ranks are known */
};

/* The round that msg tells of, for this node; now is the current one. -EBADMSG,
 * -ENOMEM; -ESTALE: of before now. *ret_round is zero before; dlr_agent_round_done().
 * Foreign bytes: fuzz target msg_agent.
 */
int dlr_agent_round_parse(const struct dlr_agent_round *now, const char *node,
                          const json_t *msg, struct dlr_agent_round *ret_round);
void dlr_agent_round_done(struct dlr_agent_round *round);
/* NULL: the round does not have it. */
const struct dlr_agent_node *dlr_agent_round_node(const struct dlr_agent_round *round,
                                                  const char *name);
bool dlr_agent_round_is(const struct dlr_agent_round *round, uint64_t number);

#endif
