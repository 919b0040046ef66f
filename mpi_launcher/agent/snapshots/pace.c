/* SPDX-License-Identifier: Apache-2.0 */
/* --dlrover-set=pace: how fast the copies of saves leave this node. Copies that a round
 * waits for are not slowed.
 */
#include <inttypes.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "mpi_launcher/agent/snapshots/parts.h"

static void tell(struct dlr_agent_snapshots *s, uint64_t rate)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, DLR_LOCAL_D_PACE);
    m.arg[0] = rate;
    dlr_agent_data_send(s->data, &m);
}

void dlr_agent_pace_start(struct dlr_agent_snapshots *s)
{
    uint64_t rate =
        s->self->job.pace == DLR_RATE_AUTO ? s->pacing.pace.rate : s->self->job.pace;

    if (rate)
        tell(s, rate);
}

void dlr_agent_pace_look(struct dlr_agent_snapshots *s)
{
    const struct dlr_page *page = NULL;
    struct dlr_pace *p = &s->pacing.pace;

    if (s->self->job.pace != DLR_RATE_AUTO)
        return;
    for (unsigned i = 0; i < s->nranks && !page; i++)
        if (s->ranks[i]->own)
            page = s->ranks[i]->page;
    if (!page || page->begun_step == DLR_PAGE_NEVER ||
        !dlr_pace_see(p, page->begun_step, (int64_t)page->progress_ns,
                      s->pacing.sends > 0, dlr_now_ns()))
        return;
    dlr_info("%s: copies go at %.3g MB/s (0: any): a step takes %.3g ms beside one and "
             "%.3g ms alone",
             s->self->node, (double)p->rate / 1e6, p->busy_ns / 1e6, p->quiet_ns / 1e6);
    tell(s, p->rate);
}

void dlr_agent_pace_begin(struct dlr_agent_snapshots *s)
{
    if (s->pacing.sends++ == 0)
        s->pacing.begun_ns = dlr_now_ns();
    dlr_agent_pace_look(s);
}

void dlr_agent_pace_end(struct dlr_agent_snapshots *s, int rc, uint64_t bytes)
{
    s->pacing.bytes += rc < 0 ? 0 : bytes;
    dlr_agent_pace_look(s);
    if (s->pacing.sends == 0 || --s->pacing.sends > 0)
        return;
    if (rc == 0)
        dlr_pace_sent(&s->pacing.pace, s->pacing.bytes,
                      dlr_now_ns() - s->pacing.begun_ns);
    s->pacing.bytes = 0;
}
