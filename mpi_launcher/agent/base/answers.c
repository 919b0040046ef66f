/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/base/answers.h"

#include "common/json/message.h"
#include "mpi_launcher/agent/base/base_state.h"
#include "mpi_launcher/agent/base/sockets.h"

void dlr_agent_answer(struct dlr_agent_base *base, const struct dlr_agent_origin *to,
                      json_t *msg)
{
    if (to->from == DLR_AGENT_SUPERVISOR) {
        dlr_agent_send_supervisor(base, msg);
        return;
    }
    if (to->from == DLR_AGENT_PEER && msg)
        dlr_server_send_json(base->server, &to->route, msg);
    json_decref(msg);
}

void dlr_agent_done(struct dlr_agent_base *base, const struct dlr_agent_origin *to,
                    int rc, const char *why)
{
    if (to->from == DLR_AGENT_SELF) {
        if (to->told)
            to->told(to->arg, to->id, rc, why);
        return;
    }
    dlr_agent_answer(base, to,
                     json_pack("{s:i, s:s, s:I, s:i, s:s}", "v", DLR_MSG_VERSION, "t",
                               "done", "id", (json_int_t)to->id, "rc", -rc, "why",
                               why));
}
