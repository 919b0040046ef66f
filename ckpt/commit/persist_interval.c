/* SPDX-License-Identifier: Apache-2.0 */
/* How often a version is worth writing to the disk. */
#include "ckpt/commit/cadence.h"

#include <math.h>

/* A node of 8 GPUs failed once in 6,335 h in the longest run whose failures are
 * published: 419 unplanned interruptions of 2,048 such nodes in 54 days (Llama 3, arXiv
 * 2407.21783, section 3.3.4). Others are assumptions: the window in which another loss
 * finds a copy less, and the share of losses that take one more node of the set with
 * them.
 */
#define NODE_MTBF_H 6335.0
/* from a loss until every rank has all its copies again */
#define EXPOSED_H (60.0 / 3600)
#define TOGETHER 0.05
#define DUTY 0.1 /* of the time may be spent writing */
#define PERSIST_MIN_S 60
#define PERSIST_MAX_S 86400

/* Daly's third-order estimate; with write << mtbf it is Young's sqrt(2 * write * mtbf).
 */
static double daly_s(double write_s, double mtbf_s)
{
    double x = write_s / (2 * mtbf_s);

    if (write_s >= 2 * mtbf_s)
        return mtbf_s;
    return sqrt(2 * write_s * mtbf_s) * (1 + sqrt(x) / 3 + x / 9) - write_s;
}

/* Of losses, the share that memory does not survive. */
static double uncovered(const struct dlr_cadence_risk *r, double per_hour)
{
    double share = 1;

    for (unsigned i = 1; i <= r->covered; i++) {
        unsigned others = r->set > i ? r->set - i : 1;
        double chance = TOGETHER + others * per_hour * EXPOSED_H;

        share *= chance < 1 ? chance : 1;
    }
    return share;
}

void dlr_cadence_persist(const struct dlr_cadence_risk *r,
                         struct dlr_cadence_persist *ret)
{
    /* What was published counts as one loss in its time, the run's own are added. */
    double per_hour = (1.0 + r->lost) / (NODE_MTBF_H + r->node_hours);
    double mtbf_s =
        3600 / (per_hour * (r->nodes ? r->nodes : 1) * uncovered(r, per_hour));
    double duty = r->write_s / DUTY;

    *ret =
        (struct dlr_cadence_persist){daly_s(r->write_s, mtbf_s), mtbf_s, "young-daly"};
    if (ret->every_s < duty) {
        ret->every_s = duty;
        ret->bound = "duty";
    }
    if (ret->every_s > PERSIST_MAX_S && PERSIST_MAX_S > duty) {
        ret->every_s = PERSIST_MAX_S;
        ret->bound = "most";
    } else if (ret->every_s < PERSIST_MIN_S) {
        ret->every_s = PERSIST_MIN_S;
        ret->bound = "least";
    }
}
