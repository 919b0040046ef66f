/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/commit/interval.h"

#include <math.h>

#include "common/base/str.h"

/* Of jobs on nodes with 8 GPUs, over 11 months of a cluster that trains (Kokolis et
 * al., Revisiting Reliability in Large-Scale Machine Learning Research Clusters, arXiv
 * 2410.21680): 6.5 failures in 1,000 node-days.
 */
#define PRIOR_NODE_H (1000 * 24 / 6.5)
#define EVERY_MAX 1000000 /* steps */
#define BARE_MAX 4
#define TURNS 4       /* distances that are used by turns */
#define TURNS_FROM 16 /* where they make no difference */
#define MARGIN 16     /* steps by which an order may come after its time */

double dlr_interval_mtbf_s(unsigned nodes, unsigned failures, double node_hours)
{
    return 3600 * (PRIOR_NODE_H + node_hours) / (1.0 + failures) / (nodes ? nodes : 1);
}

static unsigned whole(double steps, double (*rounded)(double))
{
    if (!(steps > 1))
        return 1;
    return steps < EVERY_MAX ? (unsigned)rounded(steps) : EVERY_MAX;
}

static double up(double steps)
{
    return ceil(steps - 1e-9);
}

void dlr_interval(const struct dlr_interval_of *of, struct dlr_interval *ret)
{
    double two_s = DLR_INTERVAL_STALE_STEPS * of->step_s;
    unsigned most, least;

    *ret = (struct dlr_interval){
        1, of->step_s, two_s > DLR_INTERVAL_STALE_S ? two_s : DLR_INTERVAL_STALE_S,
        "off"};
    if (!of->budget_ppm || !(of->step_s > 0))
        return;
    ret->bound = "optimum";
    ret->every = whole(sqrt(2 * of->cost_s * of->mtbf_s) / of->step_s, floor);
    most = whole(ret->stale_s / of->step_s + 1e-9, floor);
    least = whole(of->cost_s / (of->budget_ppm / 1e6) / of->step_s, up);
    if (ret->every > most) {
        ret->every = most;
        ret->bound = "staleness";
    }
    if (ret->every < least) {
        ret->every = least;
        ret->bound = "cost";
    }
    if (of->asked && ret->every > of->asked) {
        ret->every = of->asked;
        ret->bound = "persist";
    }
    ret->every_s = ret->every * of->step_s;
}

unsigned dlr_interval_next(const struct dlr_interval *in,
                           const struct dlr_interval_run *run)
{
    unsigned every = run->saves < DLR_INTERVAL_LEARN ? 2 : in->every;
    unsigned turn = run->saves % TURNS;

    if (dlr_streq(in->bound, "off"))
        return 1;
    if (run->bare >= BARE_MAX && every <= run->every_now)
        return run->every_now + 1;
    if (every < TURNS_FROM || dlr_streq(in->bound, "persist"))
        return every;
    return dlr_streq(in->bound, "cost") ? every + turn : every - turn;
}

unsigned dlr_interval_due(const struct dlr_interval *in, unsigned every_now,
                          double since_s, uint64_t since_steps)
{
    if (!(in->every_s > 0) || since_s < in->every_s || since_steps == 0)
        return every_now;
    return since_steps + 1 < every_now ? (unsigned)since_steps + 1 : every_now;
}

bool dlr_interval_overdue(const struct dlr_interval *in, unsigned every_now,
                          double since_s, uint64_t since_steps)
{
    return since_s > 2 * in->stale_s && since_steps > 2 * (uint64_t)every_now + MARGIN;
}
