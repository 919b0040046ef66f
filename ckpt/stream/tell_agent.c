/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent is told, and the end where nothing can be told or done any more. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/stream/state.h"
#include "common/base/log.h"

void dlr_stream_send_agent(struct dlr_data *d, const struct dlr_local_msg *msg,
                           const int *fds, unsigned nfds)
{
    int rc = dlr_local_send(d->agent, msg, fds, nfds);

    if (rc < 0) {
        dlr_error("cannot tell the agent: %s", strerror(-rc));
        _Exit(1);
    }
}

void dlr_data_done(struct dlr_data *d, int32_t rank, struct dlr_version v, uint64_t id,
                   int rc, const char *why)
{
    struct dlr_local_msg msg;

    dlr_local_init(&msg, DLR_LOCAL_D_DONE);
    msg.round = d->round;
    msg.rank = rank;
    msg.step = v.step;
    msg.arg[0] = v.round;
    msg.arg[1] = id;
    msg.arg[2] = (uint64_t)-rc;
    if (rc < 0)
        dlr_local_text(&msg, "%s: %s", why, strerror(-rc));
    else
        dlr_local_text(&msg, "%s", why);
    dlr_stream_send_agent(d, &msg, NULL, 0);
}

void dlr_data_stuck(void)
{
    dlr_error("UCX keeps a request of a closed connection: ending");
    _Exit(1);
}
