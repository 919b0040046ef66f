/* SPDX-License-Identifier: Apache-2.0 */
/* The data process: a child of the agent, started again when it dies. The engine knows
 * none of those who keep slots, and says by its events what has happened.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_DATA_DATA_PROCESS_H
#define DLR_MPI_LAUNCHER_AGENT_DATA_DATA_PROCESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/err.h"
#include "common/local/message.h"
#include "mpi_launcher/agent/base/base.h"
#include "mpi_launcher/agent/base/round.h"
#include "mpi_launcher/agent/base/self.h"
#include "mpi_launcher/agent/data/requests.h"

struct dlr_agent_data; /* opaque */

/* What happened; arg is dlr_agent_data_new()'s. None may be NULL. */
struct dlr_agent_data_ops {
    /* It has said hello, and knows nothing of a round. */
    void (*ready)(void *arg);
    /* It has gone, or is stopped: all requests have been told so. */
    void (*gone)(void *arg, const char *why);
    /* None comes for a while: slots that were asked of it will not be. */
    void (*refused)(void *arg, const char *why);
    /* What others are told of it is not true any more. */
    void (*changed)(void *arg);
    /* D_RESERVED: of a rank, from this slot on. */
    void (*reserved)(void *arg, int32_t rank, uint64_t slot, int rc, const char *why);
    /* D_COPIED, before the supervisor is told; D_BAD. */
    void (*copied)(void *arg, int32_t rank);
    void (*bad)(void *arg, const struct dlr_local_msg *msg);
    /* D_USES, before the supervisor is told: it may be added to. */
    void (*uses)(void *arg, json_t *msg);
    /* Asked for D_CONFIG, lists of ranks and the caller's: those that run here, and
     * those whose copies may come.
     */
    json_t *(*own)(void *arg);
    json_t *(*fetch)(void *arg);
};

/* Not started. All that it is given must live as long. NULL: out of memory. */
struct dlr_agent_data *dlr_agent_data_new(struct dlr_agent_base *base,
                                          const struct dlr_agent_self *self,
                                          const struct dlr_agent_round *round,
                                          const struct dlr_agent_data_ops *ops,
                                          void *arg);
/* It is stopped. Accepts NULL, returns NULL. */
struct dlr_agent_data *dlr_agent_data_free(struct dlr_agent_data *d);

/* Nothing with checkpoint=off. */
int dlr_agent_data_start(struct dlr_agent_data *d, struct dlr_err *err);
void dlr_agent_data_stop(struct dlr_agent_data *d);

bool dlr_agent_data_runs(const struct dlr_agent_data *d);
/* It runs, or is about to be started again: what is asked of it waits for its hello. */
bool dlr_agent_data_comes(const struct dlr_agent_data *d);
pid_t dlr_agent_data_pid(const struct dlr_agent_data *d); /* while it runs */
/* Where others send to; "" until it said hello. */
const char *dlr_agent_data_address(const struct dlr_agent_data *d);

/* Not running: nothing. */
void dlr_agent_data_send(struct dlr_agent_data *d, const struct dlr_local_msg *msg);
void dlr_agent_data_peers(struct dlr_agent_data *d); /* there are others */
/* A message "peers": where it says that copies go over the control plane's network from
 * now on, it is started again for that; what it was doing has failed.
 */
void dlr_agent_data_network(struct dlr_agent_data *d, const json_t *msg);
/* D_CONFIG of the current round; with its sums, and with drop also D_DROP. */
void dlr_agent_data_config(struct dlr_agent_data *d);
void dlr_agent_data_round(struct dlr_agent_data *d, bool drop);
/* Who keeps slots asks by snapshots/slot_requests.c instead. */
void dlr_agent_data_request(struct dlr_agent_data *d,
                            const struct dlr_agent_request *q);

#endif
