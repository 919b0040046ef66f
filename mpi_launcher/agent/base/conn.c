/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/base/conn.h"

#include <string.h>

#include "common/base/log.h"

bool dlr_agent_local_send(const struct dlr_agent_conn *c,
                          const struct dlr_local_msg *msg, const int *fds,
                          unsigned nfds)
{
    int rc = dlr_local_send(c->fd, msg, fds, nfds);

    if (rc < 0)
        dlr_debug("rank %d: cannot send message %u: %s", c->rank, msg->type,
                  strerror(-rc));
    return rc == 0;
}
