/* SPDX-License-Identifier: Apache-2.0 */
/* What a tournament says: the nodes, then the links that no node explains. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/checks.h"
#include "health/network/state.h"

struct list {
    const struct dlr_tournament *t;
    struct dlr_net_opinion rail[DLR_TOURNAMENT_RAILS];
    struct dlr_net_finding *all;
    size_t n, room;
};

static void cleanup_list(struct list *l)
{
    for (unsigned r = 0; r < l->t->rails; r++)
        dlr_net_opinion_done(&l->rail[r]);
    free(l->all);
}

static int add(struct list *l, struct dlr_net_finding f)
{
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 16;
        struct dlr_net_finding *more = realloc(l->all, room * sizeof(*more));

        if (!more)
            return -ENOMEM;
        l->all = more;
        l->room = room;
    }
    l->all[l->n++] = f;
    return 0;
}

/* A time as people know it: us, or MB/s; 0 for what is no number. */
static float shown(enum dlr_net_metric m, float x)
{
    if (x >= 1e29f)
        return 0;
    return m == DLR_NET_LATENCY ? x : 1e6f / x;
}

/* --- one finding for several rails ------------------------------------------------ */

/* of[rails] of one node or link; where all rails have one, the worst is told for all. */
static int add_rails(struct list *l, const struct dlr_net_finding *of)
{
    unsigned bad = 0, worst = 0;
    int rc = 0;

    for (unsigned r = 0; r < l->t->rails; r++) {
        bad += of[r].grade != DLR_NET_GOOD;
        worst = of[r].grade > of[worst].grade ? r : worst;
    }
    if (bad && bad == l->t->rails) {
        struct dlr_net_finding all = of[worst];

        all.rail = -1;
        return add(l, all);
    }
    for (unsigned r = 0; rc == 0 && r < l->t->rails; r++)
        if (of[r].grade != DLR_NET_GOOD)
            rc = add(l, of[r]);
    return rc;
}

static struct dlr_net_finding node_on(const struct list *l, unsigned node,
                                      unsigned rail)
{
    const struct dlr_net_opinion *o = &l->rail[rail];
    struct dlr_net_finding f = {.kind = DLR_NET_NODE,
                                .grade = o->node[node],
                                .a = node,
                                .b = node,
                                .rail = (int)rail};

    if (f.grade == DLR_NET_GOOD ||
        dlr_net_evidence(l->t, o, node) < DLR_TOURNAMENT_EVIDENCE) {
        f.grade = DLR_NET_GOOD;
        return f;
    }
    while (o->grade[f.metric][node] != f.grade)
        f.metric++;
    f.value = shown(f.metric, o->best[f.metric][node]);
    f.usual = shown(f.metric, o->nodes[f.metric].usual);
    return f;
}

static struct dlr_net_finding link_on(const struct list *l,
                                      const struct dlr_net_pair *p, unsigned rail)
{
    static const enum dlr_net_metric kinds[] = {DLR_NET_LATENCY, DLR_NET_OUT,
                                                DLR_NET_OUT};
    const struct dlr_net_opinion *o = &l->rail[rail];
    struct dlr_net_finding f = {
        .kind = DLR_NET_LINK, .a = p->a, .b = p->b, .rail = (int)rail};

    for (unsigned k = 0; k < 3; k++) {
        enum dlr_net_metric m = kinds[k];
        unsigned side = k == 2;
        enum dlr_net_grade g = dlr_net_unexplained(l->t, o, p, rail, m, side);

        if (g <= f.grade)
            continue;
        f.grade = g;
        f.metric = m;
        f.a = side ? p->b : p->a;
        f.b = side ? p->a : p->b;
        f.value = shown(m, dlr_net_pair_time(l->t, p, rail, m, side));
        f.usual = shown(m, dlr_net_usual(l->t, o, p, m)->usual);
    }
    return f;
}

int dlr_tournament_judge(const struct dlr_tournament *t, struct dlr_net_finding **ret)
{
    DLR_CLEANUP(cleanup_list) struct list l = {.t = t};
    struct dlr_net_finding of[DLR_TOURNAMENT_RAILS] = {0};
    int rc = 0;

    for (unsigned r = 0; rc == 0 && r < t->rails; r++)
        rc = dlr_net_opinion_make(t, r, &l.rail[r]);
    for (unsigned i = 0; rc == 0 && i < t->n; i++) {
        for (unsigned r = 0; r < t->rails; r++)
            of[r] = node_on(&l, i, r);
        rc = add_rails(&l, of);
    }
    for (unsigned i = 0; rc == 0 && i < t->npairs; i++) {
        for (unsigned r = 0; r < t->rails; r++)
            of[r] = link_on(&l, &t->pairs[i], r);
        rc = add_rails(&l, of);
    }
    if (rc < 0)
        return rc;
    *ret = DLR_STEAL(l.all);
    return (int)l.n;
}

/* --- as a check ------------------------------------------------------------------- */

/* "it sends 12 MB/s, 940 are usual" */
static void describe(const struct dlr_net_finding *f, bool out, char *buf, size_t size)
{
    if (f->grade == DLR_NET_UNKNOWN)
        dlr_format(buf, size, "no data");
    else if (f->value <= 0)
        dlr_format(buf, size, DLR_WRONG_BYTES);
    else if (f->metric == DLR_NET_LATENCY)
        dlr_format(buf, size, "latency %.0f us, %.0f are usual", f->value, f->usual);
    else
        dlr_format(buf, size, "it %s %.0f MB/s, %.0f are usual", out ? "sends" : "gets",
                   f->value, f->usual);
}

static void say_node(const struct dlr_net_finding *f, unsigned met, bool no_stragglers,
                     struct dlr_health_result *ret)
{
    bool slow = f->grade == DLR_NET_SLOW;
    bool fail = f->grade == DLR_NET_BAD || (slow && no_stragglers);
    char rail[32] = "", what[128];

    if (f->rail >= 0)
        dlr_format(rail, sizeof(rail), "rail %d: ", f->rail);
    describe(f, f->metric == DLR_NET_OUT, what, sizeof(what));
    dlr_health_say(ret, fail ? DLR_HEALTH_FAIL : DLR_HEALTH_WARN,
                   "%s%sat best of %u nodes %s", slow ? DLR_STRAGGLER : "", rail, met,
                   what);
}

static void say_link(const struct dlr_net_finding *f, const char *const *names,
                     unsigned node, unsigned more, struct dlr_health_result *ret)
{
    char rail[32] = "", what[128], others[48] = "";

    if (f->rail >= 0)
        dlr_format(rail, sizeof(rail), ", rail %d", f->rail);
    if (more)
        dlr_format(others, sizeof(others), "; and %u more links", more);
    describe(f, f->a == node, what, sizeof(what));
    dlr_health_say(ret, DLR_HEALTH_WARN, "link with %.64s%s: %s%s",
                   names[f->a == node ? f->b : f->a], rail, what, others);
}

static void say_best(const struct dlr_tournament *t, unsigned node,
                     struct dlr_health_result *ret)
{
    float best[DLR_NET_METRICS] = {INFINITY, INFINITY, INFINITY};

    for (unsigned k = 0; k < t->nmet[node]; k++) {
        const struct dlr_net_pair *p = &t->pairs[t->met[(size_t)node * t->most + k]];

        for (unsigned r = 0; r < t->rails; r++)
            for (unsigned m = 0; m < DLR_NET_METRICS; m++)
                best[m] = fminf(best[m], dlr_net_pair_time(t, p, r, m, p->b == node));
    }
    if (best[DLR_NET_LATENCY] < INFINITY)
        dlr_health_say(
            ret, DLR_HEALTH_OK, "at best of %u nodes %.0f us, %.0f MB/s out, %.0f in",
            t->nmet[node], best[DLR_NET_LATENCY], shown(DLR_NET_OUT, best[DLR_NET_OUT]),
            shown(DLR_NET_IN, best[DLR_NET_IN]));
    else
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no data");
}

void dlr_tournament_say(const struct dlr_tournament *t,
                        const struct dlr_net_finding *findings, unsigned n,
                        const char *const *names, unsigned node, bool no_stragglers,
                        struct dlr_health_result *ret)
{
    const struct dlr_net_finding *own = NULL, *link = NULL;
    unsigned links = 0;

    memset(ret, 0, sizeof(*ret));
    ret->check = "network";
    for (unsigned i = 0; i < n; i++) {
        const struct dlr_net_finding *f = &findings[i];

        if (f->kind == DLR_NET_NODE && f->a == node &&
            (!own || f->grade == DLR_NET_BAD))
            own = f;
        if (f->kind == DLR_NET_LINK && (f->a == node || f->b == node)) {
            link = link ? link : f;
            links++;
        }
    }
    if (own)
        say_node(own, t->nmet[node], no_stragglers, ret);
    else if (link)
        say_link(link, names, node, links - 1, ret);
    else
        say_best(t, node, ret);
}
