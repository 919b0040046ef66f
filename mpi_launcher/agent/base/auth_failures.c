/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the supervisor who tried what he must not on this node. */
#include "mpi_launcher/agent/base/auth_failures.h"

#include "common/base/clock.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/base_state.h"
#include "mpi_launcher/agent/base/sockets.h"

#define EVERY_MS 10000 /* between two messages: a flood must not become one of ours */

void dlr_agent_strangers_add(struct dlr_agent_base *base)
{
    base->strangers++;
}

void dlr_agent_strangers(struct dlr_agent_base *base)
{
    uint64_t total =
        base->strangers + (base->server ? dlr_server_strangers(base->server) : 0);
    int64_t now = dlr_now_ms();

    if (total == base->strangers_told ||
        (base->strangers_told && now - base->strangers_ms < EVERY_MS))
        return;
    dlr_agent_say(base,
                  json_pack("{s:i, s:s, s:I}", "v", DLR_MSG_VERSION, "t", "strangers",
                            "count", (json_int_t)(total - base->strangers_told)));
    base->strangers_told = total;
    base->strangers_ms = now;
}

void dlr_agent_strangers_retell(struct dlr_agent_base *base, const char *taken)
{
    if (taken[0])
        dlr_agent_say(base, json_pack("{s:i, s:s, s:s}", "v", DLR_MSG_VERSION, "t",
                                      "strangers", "taken", taken));
}
