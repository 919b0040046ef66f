/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/commit/cadence.h"

#include <stdio.h>

#define MEAN_OF 8
#define EVERY_MAX 1000000 /* steps */

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
    unsigned whole;

    if (!c->budget_ppm || c->saves < DLR_CADENCE_LEARN || !(c->step_ms > 0) ||
        !(c->blocked_ms > 0))
        return 1;
    every = c->blocked_ms / allowed_ms(c) - 1e-9;
    if (every > EVERY_MAX)
        return EVERY_MAX;
    if (every < 1)
        return 1;
    whole = (unsigned)every; /* the library links no libm */
    return whole + (whole < every);
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
