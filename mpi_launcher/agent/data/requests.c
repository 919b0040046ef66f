/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/data/requests.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/agent.h"

struct entry {
    uint64_t id;
    bool send;
    char to[DLR_AGENT_NODE]; /* of a send, "" unknown */
    dlr_agent_request_fn *done;
    void *arg;
};

/* Where a send that the network failed was to go. */
static const char *add_way(const struct dlr_agent *a, const struct entry *e, int rc,
                           const char *why, char *buf, size_t size)
{
    const char *uses = a->data.uses;

    if (!e->send || !dlr_err_is_network(rc))
        return why;
    if (dlr_format(buf, size, "no copy%s%s%s%s: %s", e->to[0] ? " to " : "", e->to,
                   uses[0] ? " over " : "", uses, why) < 0)
        return why;
    return buf;
}

static void end(const struct dlr_agent *a, struct entry *e, int rc, const char *reason)
{
    char text[1024];

    e->done(e->arg, rc, add_way(a, e, rc, reason, text, sizeof(text)));
    free(e);
}

uint64_t dlr_agent_requests_add(struct dlr_agent *a, const struct dlr_agent_request *q)
{
    struct entry *e = calloc(1, sizeof(*e));

    if (!e) {
        q->done(q->arg, -ENOMEM, "out of memory");
        return 0;
    }
    *e = (struct entry){.id = ++a->data.last_id,
                        .send = q->type == DLR_LOCAL_D_SEND,
                        .done = q->done,
                        .arg = q->arg};
    if (q->node)
        dlr_format(e->to, sizeof(e->to), "%s", q->node);
    if (a->data.fd < 0) {
        end(a, e, -ENOTCONN, "no data process on this node");
        return 0;
    }
    zlistx_add_end(a->data.requests, e);
    return e->id;
}

bool dlr_agent_requests_end(struct dlr_agent *a, uint64_t id, int rc, const char *why)
{
    struct entry *e = zlistx_first(a->data.requests);

    while (e && e->id != id)
        e = zlistx_next(a->data.requests);
    if (!e)
        return false;
    zlistx_detach_cur(a->data.requests);
    end(a, e, rc, why);
    return true;
}

void dlr_agent_requests_fail(struct dlr_agent *a, const char *why)
{
    struct entry *e;

    while ((e = zlistx_detach(a->data.requests, NULL)))
        end(a, e, -EIO, why);
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
