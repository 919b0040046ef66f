/* SPDX-License-Identifier: Apache-2.0 */
/* What is thought of nodes and links: each kind of time against its own median. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "health/network/state.h"
#include "health/spread.h"

#define NO_DATA INFINITY
#define WRONG 1e30f /* a time beyond every limit */

/* Times: us, and us for a megabyte (1000 MB/s are 1000 us). */
static const struct {
    float slow, bad; /* times the usual */
    float floor;     /* a difference below this means nothing */
    float limit;     /* bad by itself */
} rules[] = {
    [DLR_NET_LATENCY] = {2.0f, 10.0f, 100.0f, DLR_NET_LATENCY_US},
    [DLR_NET_OUT] = {1.43f, 5.0f, 20.0f, 1e6f / DLR_NET_MBPS},
    [DLR_NET_IN] = {1.43f, 5.0f, 20.0f, 1e6f / DLR_NET_MBPS},
};

static float bandwidth_time(const struct dlr_net_seen *s)
{
    return s->wrong ? WRONG : s->mbps > 0 ? 1e6f / s->mbps : NO_DATA;
}

float dlr_net_pair_time(const struct dlr_tournament *t, const struct dlr_net_pair *p,
                        unsigned rail, enum dlr_net_metric metric, unsigned side)
{
    const struct dlr_net_seen *s = p->seen + 2 * rail;
    float a = s[0].latency_us > 0 ? s[0].latency_us : NO_DATA,
          b = s[1].latency_us > 0 ? s[1].latency_us : NO_DATA;

    switch (metric) {
    case DLR_NET_OUT:
        return bandwidth_time(&s[1 - side]);
    case DLR_NET_IN:
        return bandwidth_time(&s[side]);
    default:
        return a < b ? a : b;
    }
}

/* --- what is usual ---------------------------------------------------------------- */

/* Of what is not INFINITY; values are lost. Of an even number the better one in the
 * middle is usual: half of them may be bad.
 */
static struct dlr_net_reference reference(double *values, size_t n)
{
    struct dlr_net_reference r = {NO_DATA, 0};
    struct dlr_spread of;
    size_t left = 0;

    for (size_t i = 0; i < n; i++)
        if (values[i] < NO_DATA)
            values[left++] = values[i];
    if (left) {
        of = dlr_spread_of(values, left);
        r.usual = (float)of.usual;
        r.spread = (float)of.spread;
    }
    return r;
}

static enum dlr_net_grade grade(enum dlr_net_metric m,
                                const struct dlr_net_reference *r, float x)
{
    float far = (float)DLR_SPREAD_FAR * r->spread;
    float noise = rules[m].floor > far ? rules[m].floor : far;

    if (x >= NO_DATA)
        return DLR_NET_UNKNOWN;
    if (x > rules[m].limit)
        return DLR_NET_BAD;
    if (x <= rules[m].slow * r->usual || x <= r->usual + noise)
        return DLR_NET_GOOD;
    return x > rules[m].bad * r->usual ? DLR_NET_BAD : DLR_NET_SLOW;
}

/* --- nodes ------------------------------------------------------------------------ */

static void find_best(const struct dlr_tournament *t, unsigned rail,
                      struct dlr_net_opinion *o)
{
    for (unsigned m = 0; m < DLR_NET_METRICS; m++)
        for (unsigned i = 0; i < t->n; i++)
            o->best[m][i] = NO_DATA;
    for (unsigned k = 0; k < t->npairs; k++)
        for (unsigned m = 0; m < DLR_NET_METRICS; m++)
            for (unsigned side = 0; side < 2; side++) {
                const struct dlr_net_pair *p = &t->pairs[k];
                float x = dlr_net_pair_time(t, p, rail, m, side);
                float *best = &o->best[m][side ? p->b : p->a];

                *best = x < *best ? x : *best;
            }
}

/* Out and in are one population: what one node sends another one gets. */
static void compare_nodes(const struct dlr_tournament *t, struct dlr_net_opinion *o,
                          double *values)
{
    for (unsigned i = 0; i < t->n; i++)
        values[i] = o->best[DLR_NET_LATENCY][i];
    o->nodes[DLR_NET_LATENCY] = reference(values, t->n);
    for (unsigned i = 0; i < t->n; i++) {
        values[i] = o->best[DLR_NET_OUT][i];
        values[t->n + i] = o->best[DLR_NET_IN][i];
    }
    o->nodes[DLR_NET_OUT] = o->nodes[DLR_NET_IN] = reference(values, 2 * (size_t)t->n);
}

/* What small messages pass and large ones do not is not known to be good. */
static void grade_nodes(const struct dlr_tournament *t, struct dlr_net_opinion *o)
{
    for (unsigned i = 0; i < t->n; i++) {
        enum dlr_net_grade worst = DLR_NET_GOOD;
        bool all = true;

        for (unsigned m = 0; m < DLR_NET_METRICS; m++) {
            o->grade[m][i] = grade(m, &o->nodes[m], o->best[m][i]);
            if (o->grade[m][i] == DLR_NET_UNKNOWN)
                all = false;
            else if (o->grade[m][i] > worst)
                worst = o->grade[m][i];
        }
        o->node[i] = worst == DLR_NET_GOOD && !all ? DLR_NET_UNKNOWN : worst;
    }
}

unsigned dlr_net_evidence(const struct dlr_tournament *t,
                          const struct dlr_net_opinion *o, unsigned node)
{
    unsigned count = 0;

    for (unsigned k = 0; k < t->nmet[node]; k++) {
        const struct dlr_net_pair *p = &t->pairs[t->met[(size_t)node * t->most + k]];

        count += o->node[p->a == node ? p->b : p->a] == DLR_NET_GOOD;
    }
    return count;
}

/* --- links ------------------------------------------------------------------------ */

/* A node explains its links when enough good ones have met it. */
static enum dlr_net_grade explains(const struct dlr_tournament *t,
                                   const struct dlr_net_opinion *o,
                                   enum dlr_net_metric m, unsigned node)
{
    if (o->grade[m][node] == DLR_NET_GOOD ||
        dlr_net_evidence(t, o, node) < DLR_TOURNAMENT_EVIDENCE)
        return DLR_NET_GOOD;
    return o->grade[m][node];
}

enum dlr_net_grade dlr_net_unexplained(const struct dlr_tournament *t,
                                       const struct dlr_net_opinion *o,
                                       const struct dlr_net_pair *p, unsigned rail,
                                       enum dlr_net_metric metric, unsigned side)
{
    enum dlr_net_metric other = metric == DLR_NET_OUT ? DLR_NET_IN : metric;
    unsigned from = side ? p->b : p->a, to = side ? p->a : p->b;
    float x = dlr_net_pair_time(t, p, rail, metric, side);
    enum dlr_net_grade g = grade(metric, dlr_net_usual(t, o, p, metric), x);

    if (g <= explains(t, o, metric, from) || g <= explains(t, o, other, to))
        return DLR_NET_GOOD;
    return g;
}

/* Links between nodes that are good say what is usual for a link. */
static struct dlr_net_reference compare(const struct dlr_tournament *t, unsigned rail,
                                        const struct dlr_net_opinion *o, bool between,
                                        enum dlr_net_metric m, double *values)
{
    struct dlr_net_reference r;
    size_t n = 0;

    for (unsigned i = 0; i < t->npairs; i++) {
        const struct dlr_net_pair *p = &t->pairs[i];

        if (o->node[p->a] != DLR_NET_GOOD || o->node[p->b] != DLR_NET_GOOD ||
            (t->leaf[p->a] != t->leaf[p->b]) != between)
            continue;
        values[n++] = dlr_net_pair_time(t, p, rail, m, 0);
        values[n++] = dlr_net_pair_time(t, p, rail, m, 1);
    }
    r = reference(values, n);
    return r.usual < NO_DATA ? r : o->nodes[m];
}

static void compare_links(const struct dlr_tournament *t, unsigned rail,
                          struct dlr_net_opinion *o, double *values)
{
    for (unsigned between = 0; between < 2; between++)
        for (enum dlr_net_metric m = 0; m < DLR_NET_METRICS; m++)
            o->links[between][m] = m == DLR_NET_IN
                                       ? o->links[between][DLR_NET_OUT]
                                       : compare(t, rail, o, between, m, values);
}

const struct dlr_net_reference *dlr_net_usual(const struct dlr_tournament *t,
                                              const struct dlr_net_opinion *o,
                                              const struct dlr_net_pair *p,
                                              enum dlr_net_metric metric)
{
    return &o->links[t->leaf[p->a] != t->leaf[p->b]][metric];
}

/* --- the whole -------------------------------------------------------------------- */

void dlr_net_opinion_done(struct dlr_net_opinion *o)
{
    for (unsigned m = 0; m < DLR_NET_METRICS; m++) {
        free(o->best[m]);
        free(o->grade[m]);
    }
    free(o->node);
    memset(o, 0, sizeof(*o));
}

int dlr_net_opinion_make(const struct dlr_tournament *t, unsigned rail,
                         struct dlr_net_opinion *ret)
{
    DLR_AUTO_FREE double *values =
        calloc(2 * (size_t)(t->n + t->npairs), sizeof(*values));
    bool whole = values != NULL;

    memset(ret, 0, sizeof(*ret));
    for (unsigned m = 0; m < DLR_NET_METRICS; m++) {
        ret->best[m] = calloc(t->n, sizeof(*ret->best[m]));
        ret->grade[m] = calloc(t->n, 1);
        whole = whole && ret->best[m] && ret->grade[m];
    }
    ret->node = calloc(t->n, 1);
    if (!whole || !ret->node)
        return -ENOMEM;
    find_best(t, rail, ret);
    compare_nodes(t, ret, values);
    grade_nodes(t, ret);
    compare_links(t, rail, ret, values);
    return 0;
}
