/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the supervisor who tried what he must not on this node. */
#include "common/base/clock.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/agent.h"

#define EVERY_MS 10000 /* between two messages: a flood must not become one of ours */

void dlr_agent_strangers(struct dlr_agent *a)
{
    uint64_t total = a->strangers + dlr_server_strangers(a->peers.server);
    int64_t now = dlr_now_ms();

    if (total == a->strangers_told ||
        (a->strangers_told && now - a->strangers_ms < EVERY_MS))
        return;
    dlr_agent_say(a,
                  json_pack("{s:i, s:s, s:I}", "v", DLR_MSG_VERSION, "t", "strangers",
                            "count", (json_int_t)(total - a->strangers_told)));
    a->strangers_told = total;
    a->strangers_ms = now;
}

void dlr_agent_strangers_retell(struct dlr_agent *a)
{
    if (a->taken[0])
        dlr_agent_say(a, json_pack("{s:i, s:s, s:s}", "v", DLR_MSG_VERSION, "t",
                                   "strangers", "taken", a->taken));
}
