/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/data/requests.h"

#include <czmq.h>
#include <errno.h>
#include <stdlib.h>

#include "common/base/err.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/data/data_state.h"

struct entry {
    uint64_t id;
    bool send, save;            /* as of the request */
    struct dlr_version version; /* of a save */
    char to[DLR_AGENT_NODE];    /* of a send, "" unknown */
    dlr_agent_request_fn *done;
    void *arg;
};

/* Where a send that the network failed was to go. */
static const char *add_way(const struct dlr_agent_data *d, const struct entry *e,
                           int rc, const char *why, char *buf, size_t size)
{
    const char *uses = d->uses;

    if (!e->send || !dlr_err_is_network(rc))
        return why;
    if (dlr_format(buf, size, "no copy%s%s%s%s: %s", e->to[0] ? " to " : "", e->to,
                   uses[0] ? " over " : "", uses, why) < 0)
        return why;
    return buf;
}

/* Copies that find no way are the supervisor's to judge: it hears of all nodes. */
static void see_network(struct dlr_agent_data *d, const struct entry *e, int rc,
                        const char *why)
{
    if (e->send && dlr_agent_net_sent(&d->net, e->save ? &e->version : NULL, rc))
        dlr_agent_send_supervisor(d->base,
                                  json_pack("{s:i, s:s, s:s}", "v", DLR_MSG_VERSION,
                                            "t", "unreached", "why", why));
}

static void end(struct dlr_agent_data *d, struct entry *e, int rc, const char *reason)
{
    char text[1024];
    const char *why = add_way(d, e, rc, reason, text, sizeof(text));

    see_network(d, e, rc, why);
    e->done(e->arg, rc, why);
    free(e);
}

uint64_t dlr_agent_requests_add(struct dlr_agent_data *d,
                                const struct dlr_agent_request *q)
{
    struct entry *e = calloc(1, sizeof(*e));

    if (!e) {
        q->done(q->arg, -ENOMEM, "out of memory");
        return 0;
    }
    *e = (struct entry){.id = ++d->last_id,
                        .send = q->type == DLR_LOCAL_D_SEND,
                        .save = q->save,
                        .version = q->version,
                        .done = q->done,
                        .arg = q->arg};
    if (q->node)
        dlr_format(e->to, sizeof(e->to), "%s", q->node);
    if (d->fd < 0) {
        end(d, e, -ENOTCONN, "no data process on this node");
        return 0;
    }
    zlistx_add_end(d->requests, e);
    return e->id;
}

void dlr_agent_requests_end(struct dlr_agent_data *d, uint64_t id, int rc,
                            const char *why)
{
    struct entry *e = zlistx_first(d->requests);

    while (e && e->id != id)
        e = zlistx_next(d->requests);
    if (!e)
        return;
    zlistx_detach_cur(d->requests);
    end(d, e, rc, why);
}

void dlr_agent_requests_fail(struct dlr_agent_data *d, const char *why)
{
    struct entry *e;

    while ((e = zlistx_detach(d->requests, NULL)))
        end(d, e, -EIO, why);
}

int dlr_agent_copy_of(const json_t *msg, struct dlr_agent_origin *ret_from,
                      int32_t *ret_rank, struct dlr_version *ret_version)
{
    uint64_t id, rank, vround, step;

    if (dlr_msg_uint(msg, "id", INT64_MAX, &id) < 0 ||
        dlr_msg_uint(msg, "rank", INT32_MAX, &rank) < 0 ||
        dlr_msg_uint(msg, "vround", UINT32_MAX, &vround) < 0 ||
        dlr_msg_uint(msg, "step", INT64_MAX, &step) < 0)
        return -EBADMSG;
    ret_from->id = id;
    *ret_rank = (int32_t)rank;
    *ret_version = (struct dlr_version){(uint32_t)vround, step};
    return 0;
}
