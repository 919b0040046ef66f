/* SPDX-License-Identifier: Apache-2.0 */
/* The other agents: who they are, our socket for them, and connections to them, each
 * made when it is first spoken to. What they say and answer is told by the base's
 * events.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_BASE_PEERS_H
#define DLR_MPI_LAUNCHER_AGENT_BASE_PEERS_H

#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "mpi_launcher/agent/base/base.h"
#include "mpi_launcher/agent/base/self.h"
#include "mpi_launcher/wire/peer_list.h"

/* Finds the supervisor's host and the address that speaks to it, and binds the socket
 * there; id must live as long. -EINVAL, or as of dlr_server_new().
 */
int dlr_agent_peers_open(struct dlr_agent_base *base, const struct dlr_identity *id,
                         const struct dlr_agent_self *self, struct dlr_err *err);
void dlr_agent_peers_close(struct dlr_agent_base *base);

/* Where the supervisor listens; our own "host:port" for the others, "" before it is
 * open.
 */
const struct sockaddr_in *dlr_agent_control_addr(const struct dlr_agent_base *base);
const char *dlr_agent_peers_addr(const struct dlr_agent_base *base);

/* The supervisor is another one now, "ADDRESS:PORT" in digits. -EINVAL. */
int dlr_agent_control_moved(struct dlr_agent_base *base, const char *hostport,
                            struct dlr_err *err);

/* Takes what a message "peers" says of them; errors as of dlr_peer_list_take(). */
int dlr_agent_peers_take(struct dlr_agent_base *base, const json_t *msg);
const struct dlr_peer_list *dlr_agent_peer_list(const struct dlr_agent_base *base);
/* Who has proven this key; NULL: none of them. */
const char *dlr_agent_peer_of(const struct dlr_agent_base *base, const char *key);

/* Sends msg to the peer, or to all but one node, and releases it. */
void dlr_agent_peers_send(struct dlr_agent_base *base, const char *node, json_t *msg);
/* The same of bytes that are no text. False: there is no such peer, or no way to it. */
bool dlr_agent_peers_send_bytes(struct dlr_agent_base *base, const char *node,
                                const void *data, size_t size);
void dlr_agent_peers_send_all(struct dlr_agent_base *base, const char *but,
                              json_t *msg);

#endif
