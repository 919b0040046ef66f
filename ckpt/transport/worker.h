/* SPDX-License-Identifier: Apache-2.0 */
/* A lane: one UCX worker with its own connections, which end with it. */
#ifndef DLR_CKPT_TRANSPORT_WORKER_H
#define DLR_CKPT_TRANSPORT_WORKER_H

#include <stddef.h>
#include <ucp/api/ucp.h>

#include "ckpt/transport/wire.h"
#include "common/base/err.h"

struct dlr_lane {
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    int fd; /* belongs to worker */
    void *owner;
    struct dlr_lane_kind { /* what the handler of one kind of message gets */
        struct dlr_lane *lane;
        unsigned kind;
    } kinds[DLR_WIRE_ACK + 1];
};

/* 0 or -errno; foreign codes stop here. */
int dlr_lane_errno(ucs_status_t status);

int dlr_lane_context(ucp_context_h *ret, struct dlr_err *err);

/* Opens in place. on_message gets the struct dlr_lane_kind of its message. */
int dlr_lane_open(struct dlr_lane *lane, ucp_context_h context,
                  ucp_am_recv_callback_t on_message, void *owner, struct dlr_err *err);
/* Accepts a zeroed one. No request may be in flight, and no callback of it be running.
 */
void dlr_lane_close(struct dlr_lane *lane);

#endif
