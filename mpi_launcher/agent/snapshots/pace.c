/* SPDX-License-Identifier: Apache-2.0 */
/* --dlrover-set=pace: how fast the copies of saves leave this node. Copies that a round waits for
 * are not slowed.
 */
#include <inttypes.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "mpi_launcher/agent/agent.h"

static void tell(struct dlr_agent *a, uint64_t rate)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, DLR_LOCAL_D_PACE);
    m.arg[0] = rate;
    dlr_agent_data_send(a->data, &m);
}

void dlr_agent_pace_start(struct dlr_agent *a)
{
    uint64_t rate =
        a->self.job.pace == DLR_RATE_AUTO ? a->pacing.pace.rate : a->self.job.pace;

    if (rate)
        tell(a, rate);
}

void dlr_agent_pace_look(struct dlr_agent *a)
{
    const struct dlr_page *page = NULL;
    struct dlr_pace *p = &a->pacing.pace;

    if (a->self.job.pace != DLR_RATE_AUTO)
        return;
    for (unsigned i = 0; i < a->nranks && !page; i++)
        if (a->ranks[i]->own)
            page = a->ranks[i]->page;
    if (!page || page->begun_step == DLR_PAGE_NEVER ||
        !dlr_pace_see(p, page->begun_step, (int64_t)page->progress_ns,
                      a->pacing.sends > 0, dlr_now_ns()))
        return;
    dlr_info("%s: copies go at %.3g MB/s (0: any): a step takes %.3g ms beside one and "
             "%.3g ms alone",
             a->self.node, (double)p->rate / 1e6, p->busy_ns / 1e6, p->quiet_ns / 1e6);
    tell(a, p->rate);
}

void dlr_agent_pace_begin(struct dlr_agent *a)
{
    if (a->pacing.sends++ == 0)
        a->pacing.begun_ns = dlr_now_ns();
    dlr_agent_pace_look(a);
}

void dlr_agent_pace_end(struct dlr_agent *a, int rc, uint64_t bytes)
{
    a->pacing.bytes += rc < 0 ? 0 : bytes;
    dlr_agent_pace_look(a);
    if (a->pacing.sends == 0 || --a->pacing.sends > 0)
        return;
    if (rc == 0)
        dlr_pace_sent(&a->pacing.pace, a->pacing.bytes,
                      dlr_now_ns() - a->pacing.begun_ns);
    a->pacing.bytes = 0;
}
