/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/transport/ucx_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/transport/worker.h"
#include "common/base/clock.h"

struct op {
    struct dlr_ucx_use *use;
    dlr_net_done_fn done;
    void *arg;
    size_t bytes;
    unsigned char head[DLR_NET_HEAD_MAX]; /* UCX reads it until the request ends */
};

static void finish(struct op *op, int rc)
{
    op->use->inflight--;
    if (rc == 0)
        op->use->moved_ms = dlr_now_ms();
    if (op->done)
        op->done(op->arg, rc);
    free(op);
}

static void on_sent(void *request, ucs_status_t status, void *arg)
{
    ucp_request_free(request);
    finish(arg, dlr_lane_errno(status));
}

int dlr_ucx_send(struct dlr_ucx_use *use, ucp_ep_h ep, unsigned kind, uint32_t flags,
                 struct dlr_net_part head, struct dlr_net_part data,
                 dlr_net_done_fn done, void *arg)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.send = on_sent,
        .flags = flags | UCP_AM_SEND_FLAG_REPLY};
    struct op *op = malloc(sizeof(*op));
    ucs_status_ptr_t request;

    if (!op)
        return -ENOMEM;
    *op = (struct op){.use = use, .done = done, .arg = arg};
    if (head.bytes)
        memcpy(op->head, head.at, head.bytes);
    param.user_data = op;
    request =
        ucp_am_send_nbx(ep, kind, op->head, head.bytes, data.at, data.bytes, &param);
    if (UCS_PTR_IS_ERR(request)) {
        free(op);
        return dlr_lane_errno(UCS_PTR_STATUS(request));
    }
    use->inflight++;
    return 0;
}

static void on_taken(void *request, ucs_status_t status, size_t length, void *arg)
{
    struct op *op = arg;

    if (status == UCS_OK && length != op->bytes)
        status = UCS_ERR_MESSAGE_TRUNCATED;
    ucp_request_free(request);
    finish(op, dlr_lane_errno(status));
}

int dlr_ucx_take(struct dlr_ucx_use *use, struct dlr_net_in *in, void *buf,
                 dlr_net_done_fn done, void *arg)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                 UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb.recv_am = on_taken};
    const struct dlr_lane *lane = in->lane;
    ucs_status_ptr_t request;
    struct op *op = malloc(sizeof(*op));

    if (!op)
        return -ENOMEM;
    *op = (struct op){.use = use, .done = done, .arg = arg, .bytes = in->bytes};
    param.user_data = op;
    in->taken = true; /* the descriptor is UCX's again, whatever comes */
    use->inflight++;
    request = ucp_am_recv_data_nbx(lane->worker, in->desc, buf, in->bytes, &param);
    if (UCS_PTR_IS_PTR(request))
        return 0;
    use->inflight--;
    free(op);
    return UCS_PTR_IS_ERR(request) ? dlr_lane_errno(UCS_PTR_STATUS(request)) : 1;
}
