/* SPDX-License-Identifier: Apache-2.0 */
/* Two sockets: the connection to the supervisor, and the one that peers connect to.
 * What comes in is told by the events of base.h.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_BASE_SOCKETS_H
#define DLR_MPI_LAUNCHER_AGENT_BASE_SOCKETS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "mpi_launcher/agent/base/base.h"
#include "mpi_launcher/wire/identity.h"

/* Connects to "host:port", whose server has this key; errors as of dlr_client_new(). */
int dlr_agent_supervisor_open(struct dlr_agent_base *base,
                              const struct dlr_identity *id, const char *key,
                              const char *hostport, struct dlr_err *err);
bool dlr_agent_supervisor_is_open(const struct dlr_agent_base *base);
/* What was said may be on its way for so long. Not open: nothing. */
void dlr_agent_supervisor_close(struct dlr_agent_base *base, int linger_ms);

/* Sends msg to the supervisor and releases it. A lost supervisor loses it: all that
 * matters is said again after the next welcome. Not open: it is only released.
 */
void dlr_agent_send_supervisor(struct dlr_agent_base *base, json_t *msg);
/* The same of bytes that are no text: a beat. */
void dlr_agent_send_supervisor_bytes(struct dlr_agent_base *base, const void *data,
                                     size_t size);

/* Binds a port of [first, last]; errors as of dlr_server_new(). */
int dlr_agent_server_open(struct dlr_agent_base *base, const struct dlr_identity *id,
                          unsigned first, unsigned last, struct dlr_err *err);
unsigned dlr_agent_server_port(const struct dlr_agent_base *base); /* while open */
/* dlr_server_expect(), dlr_server_tend(). Not open: nothing. */
void dlr_agent_server_expect(struct dlr_agent_base *base, unsigned peers);
void dlr_agent_server_tend(struct dlr_agent_base *base, int64_t now_ms);
/* Bytes back to where a peer's message came from. */
void dlr_agent_peer_send_back(struct dlr_agent_base *base, const struct dlr_route *to,
                              const void *data, size_t size);
void dlr_agent_server_close(struct dlr_agent_base *base); /* not open: nothing */

#endif
