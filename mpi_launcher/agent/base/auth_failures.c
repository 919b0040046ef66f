/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the supervisor who tried what he must not on this node. */
#include "mpi_launcher/agent/base/auth_failures.h"

#include "common/base/clock.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/base_state.h"
#include "mpi_launcher/agent/base/sockets.h"

#define EVERY_MS 10000 /* between two messages: a flood must not become one of ours */

void dlr_agent_auth_failures_add(struct dlr_agent_base *base)
{
    base->auth_failures++;
}

void dlr_agent_auth_failures(struct dlr_agent_base *base)
{
    uint64_t total = base->auth_failures +
                     (base->server ? dlr_server_auth_failures(base->server) : 0);
    int64_t now = dlr_now_ms();

    if (total == base->auth_failures_reported ||
        (base->auth_failures_reported && now - base->auth_failures_ms < EVERY_MS))
        return;
    dlr_agent_send_supervisor(
        base, json_pack("{s:i, s:s, s:I}", "v", DLR_MSG_VERSION, "t", "auth_failures",
                        "count", (json_int_t)(total - base->auth_failures_reported)));
    base->auth_failures_reported = total;
    base->auth_failures_ms = now;
}

void dlr_agent_auth_failures_resend(struct dlr_agent_base *base,
                                    const char *foreign_memory_name)
{
    if (foreign_memory_name[0])
        dlr_agent_send_supervisor(base, json_pack("{s:i, s:s, s:s}", "v",
                                                  DLR_MSG_VERSION, "t", "auth_failures",
                                                  "foreign_name", foreign_memory_name));
}
