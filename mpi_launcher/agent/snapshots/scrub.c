/* SPDX-License-Identifier: Apache-2.0 */
/* The data process has found memory that went bad in a copy that this node holds. Own
 * ranks' slots are marked here (save.c), others by the data process.
 */
#include "common/json/message.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/parts.h"

static void bury(struct dlr_agent_snapshots *s, int32_t rank, struct dlr_version v)
{
    struct dlr_agent_rank *r = dlr_agent_rank(s, rank, false);
    int k = r && r->own ? dlr_agent_rank_holding(r, v) : -1;

    if (k >= 0) {
        r->corrupt[k] = true;
        dlr_agent_changed(s->base);
    }
    if (r && r->own)
        dlr_agent_save_settle(s, r); /* also one whose head has gone */
}

void dlr_agent_scrub_copied(struct dlr_agent_snapshots *s, int32_t rank)
{
    struct dlr_agent_rank *r = dlr_agent_rank(s, rank, false);

    if (r && r->own)
        dlr_agent_save_settle(s, r);
}

void dlr_agent_scrub_bad(struct dlr_agent_snapshots *s, const struct dlr_local_msg *m)
{
    struct dlr_version v = {(uint32_t)m->arg[0], m->step};

    bury(s, m->rank, v);
    dlr_agent_send_supervisor(
        s->base, json_pack("{s:i, s:s, s:I, s:i, s:I, s:I, s:s}", "v", DLR_MSG_VERSION,
                           "t", "copy_bad", "round", (json_int_t)s->round->round,
                           "rank", m->rank, "vround", (json_int_t)v.round, "step",
                           (json_int_t)v.step, "why", m->text));
}
