/* SPDX-License-Identifier: Apache-2.0 */
/* What comes over the network goes to whom it is for: who receives, or who sends. */
#include "ckpt/stream/state.h"

static void on_answer(struct dlr_data *d, unsigned kind, const struct dlr_net_in *in)
{
    struct dlr_wire_answer answer;

    if (!in->offered && dlr_wire_read_answer(in->data, in->bytes, &answer) == 0 &&
        answer.kind == kind)
        dlr_data_send_answer(d, in, &answer);
    else
        d->dropped++;
}

void dlr_data_dispatch(struct dlr_data *d, unsigned kind, struct dlr_net_in *in)
{
    if (kind == DLR_WIRE_BEGIN)
        dlr_data_recv_begin(d, in);
    else if (kind == DLR_WIRE_BLOCK)
        dlr_data_recv_block(d, in);
    else
        on_answer(d, kind, in);
}
