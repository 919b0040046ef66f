/* SPDX-License-Identifier: Apache-2.0 */
/* One active message that UCX sends or receives, until it has let go of its memory. */
#ifndef DLR_CKPT_TRANSPORT_UCX_REQUEST_H
#define DLR_CKPT_TRANSPORT_UCX_REQUEST_H

#include <stddef.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

#include "ckpt/transport/net.h"

/* Whose requests are counted; stays for as long as one is in flight. */
struct dlr_ucx_use {
    unsigned inflight;
    int64_t moved_ms; /* when the last one that succeeded ended */
};

/* head is copied, data is read until done. 0 or -errno: done is not called then. */
int dlr_ucx_send(struct dlr_ucx_use *use, ucp_ep_h ep, unsigned kind, uint32_t flags,
                 struct dlr_net_part head, struct dlr_net_part data,
                 dlr_net_done_fn done, void *arg);
/* What in offers, as dlr_net_take() has it. */
int dlr_ucx_take(struct dlr_ucx_use *use, struct dlr_net_in *in, void *buf,
                 dlr_net_done_fn done, void *arg);

#endif
