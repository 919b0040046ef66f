/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/cadence.h"

#include <math.h>
#include <stdio.h>

#define MEAN_OF 8
#define EVERY_MAX 1000000 /* steps */

/* Persisting. A node of 8 GPUs failed once in 6,335 h in the longest run whose failures are
 * published: 419 unplanned interruptions of 2,048 such nodes in 54 days (Llama 3, arXiv
 * 2407.21783, section 3.3.4). Others are assumptions: the window in which another loss finds
 * a copy less, and the share of losses that take one more node of the set with them.
 */
#define NODE_MTBF_H 6335.0
#define EXPOSED_H                                                                      \
    (60.0 / 3600) /* from a loss until every rank has all its copies again */
#define TOGETHER 0.05
#define DUTY 0.1 /* of the time may be spent writing */
#define PERSIST_MIN_S 60
#define PERSIST_MAX_S 86400

void dlr_mean_add(struct dlr_mean *mean, double value)
{
    unsigned n = mean->n < MEAN_OF ? mean->n + 1 : MEAN_OF;

    mean->value += (value - mean->value) / n;
    mean->n += mean->n < 1000000;
}

static double allowed_ms(const struct dlr_cadence *c)
{
    return c->step_ms * c->budget_ppm / 1e6;
}

unsigned dlr_cadence_every(const struct dlr_cadence *c)
{
    double every;

    if (!c->budget_ppm || c->saves < DLR_CADENCE_LEARN || !(c->step_ms > 0) ||
        !(c->blocked_ms > 0))
        return 1;
    every = ceil(c->blocked_ms / allowed_ms(c) - 1e-9);
    return every > EVERY_MAX ? EVERY_MAX : every < 1 ? 1 : (unsigned)every;
}

/* "44 MB" */
static const char *amount(double bytes, char *buf, size_t size)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    unsigned i = 0;

    while (bytes >= 1000 && i + 1 < sizeof(units) / sizeof(*units)) {
        bytes /= 1000;
        i++;
    }
    snprintf(buf, size, "%.3g %s", bytes, units[i]);
    return buf;
}

bool dlr_cadence_every_step(const struct dlr_cadence *c,
                            const struct dlr_cadence_way *way, char *ret_words)
{
    double send_ms = way->copies ? way->bytes / way->bytes_per_s * 1e3 : 0;
    bool fits = send_ms <= c->step_ms && way->decided_ms <= c->step_ms;
    bool cheap = !c->budget_ppm || c->blocked_ms <= allowed_ms(c);
    char size[24], rate[24], cost[96] = "", sent[96] = "nothing goes to another node";
    char decided[64] = "";

    if (way->copies)
        snprintf(sent, sizeof(sent), "%s of a node at %s/s take %.3g ms",
                 amount(way->bytes, size, sizeof(size)),
                 amount(way->bytes_per_s, rate, sizeof(rate)), send_ms);
    if (way->decided_ms > 0)
        snprintf(decided, sizeof(decided), ", %.3g ms until it is decided",
                 way->decided_ms);
    if (c->budget_ppm)
        snprintf(cost, sizeof(cost), " and may be held up for %.3g ms", allowed_ms(c));
    snprintf(ret_words, DLR_CADENCE_WORDS,
             "%s%s, a save holds a rank up for %.3g ms; a step has %.3g ms%s", sent,
             decided, c->blocked_ms, c->step_ms, cost);
    return fits && cheap;
}

/* Daly's third-order estimate; with write << mtbf it is Young's sqrt(2 * write * mtbf). */
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
