/* SPDX-License-Identifier: Apache-2.0 */
/* The way from a task to its node's agent, also out of a container. */
#ifndef DLR_COMMON_LOCAL_AGENT_SOCKET_H
#define DLR_COMMON_LOCAL_AGENT_SOCKET_H

#include <stdint.h>

#include "common/base/err.h"
#include "common/local/message.h"

/* Connects to the agent that the environment names: the socket DLROVER_AGENT_SOCKET, or
 * where that path leads nowhere the file behind descriptor DLROVER_AGENT_FD. timeout_ms
 * and *ret_fd as in dlr_local_connect(). -errno with text.
 */
int dlr_agent_socket_connect(int64_t timeout_ms, int *ret_fd, struct dlr_err *err);

/* Receives as dlr_local_recv() does, waiting until deadline_ms (of dlr_now_ms())
 * whatever signals come: -ETIMEDOUT.
 */
int dlr_agent_socket_answer(int fd, int64_t deadline_ms, struct dlr_local_msg *ret_msg,
                            int ret_fds[DLR_LOCAL_FDS], unsigned *ret_nfds);

#endif
