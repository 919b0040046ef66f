/* SPDX-License-Identifier: Apache-2.0 */
/* The way from a task to its node's agent, also out of a container. */
#ifndef DLR_COMMON_LOCAL_AGENT_SOCKET_H
#define DLR_COMMON_LOCAL_AGENT_SOCKET_H

#include <stdint.h>

#include "common/base/err.h"

/* Connects to the agent that the environment names: the socket DLROVER_AGENT_SOCKET, or
 * where that path leads nowhere the file behind descriptor DLROVER_AGENT_FD. timeout_ms
 * and *ret_fd as in dlr_local_connect(). -errno with text.
 */
int dlr_agent_socket_connect(int64_t timeout_ms, int *ret_fd, struct dlr_err *err);

#endif
