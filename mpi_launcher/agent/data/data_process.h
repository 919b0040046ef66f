/* SPDX-License-Identifier: Apache-2.0 */
/* The data process: a child of the agent, started again when it dies. It calls none of
 * those who keep slots, and says by its events what has happened.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_DATA_DATA_PROCESS_H
#define DLR_MPI_LAUNCHER_AGENT_DATA_DATA_PROCESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/local/message.h"
#include "mpi_launcher/agent/data/requests.h"

struct dlr_agent;

/* What happened. None may be NULL. */
struct dlr_agent_data_ops {
    /* It has said hello, and knows nothing of a round. */
    void (*ready)(struct dlr_agent *a);
    /* It has gone, or is stopped: all requests have been told so. */
    void (*gone)(struct dlr_agent *a, const char *why);
    /* None comes for a while: slots that were asked of it will not be. */
    void (*refused)(struct dlr_agent *a, const char *why);
    /* What others are told of it is not true any more. */
    void (*changed)(struct dlr_agent *a);
    /* D_RESERVED: slots of a rank, or room for one that is brought. */
    void (*reserved)(struct dlr_agent *a, int32_t rank, int rc, const char *why);
    void (*room)(struct dlr_agent *a, int32_t rank, int rc, const char *why);
    /* D_COPIED, before the supervisor is told; D_BAD. */
    void (*copied)(struct dlr_agent *a, int32_t rank);
    void (*bad)(struct dlr_agent *a, const struct dlr_local_msg *msg);
    /* D_USES, before the supervisor is told: it may be added to. */
    void (*uses)(struct dlr_agent *a, json_t *msg);
    /* Asked for D_CONFIG: ranks whose copies may come; the caller's. */
    json_t *(*bring)(const struct dlr_agent *a);
};

/* dlr_agent.data.ops is set. */
int dlr_agent_data_start(struct dlr_agent *a, struct dlr_err *err);
/* In place of the one that runs; what that was doing has failed, why says why. */
void dlr_agent_data_restart(struct dlr_agent *a, const char *why);
void dlr_agent_data_stop(struct dlr_agent *a);
void dlr_agent_data_send(struct dlr_agent *a, const struct dlr_local_msg *msg);
void dlr_agent_data_peers(struct dlr_agent *a); /* there are others */
/* D_CONFIG of the current round; with its sums, and with drop also D_DROP. */
void dlr_agent_data_config(struct dlr_agent *a);
void dlr_agent_data_round(struct dlr_agent *a, bool drop);
/* Of whom keeps slots snapshots/slot_requests.h is asked instead. */
void dlr_agent_data_request(struct dlr_agent *a, const struct dlr_agent_request *q);

#endif
