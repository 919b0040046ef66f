/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes may take part: checks, and what the others say about reaching them. */
#include "mpi_launcher/plan/nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "health/health.h"

static int by_name(const void *a, const void *b)
{
    const struct dlr_plan_report *const *x = a, *const *y = b;

    return strcmp((*x)->node.name, (*y)->node.name);
}

static int by_name_key(const void *key, const void *item)
{
    return strcmp(key, (*(const struct dlr_plan_report *const *)item)->node.name);
}

long dlr_plan_nodes_find(const struct dlr_plan_nodes *pn, const char *name)
{
    const struct dlr_plan_report **hit =
        bsearch(name, pn->report, pn->n, sizeof(*pn->report), by_name_key);

    return hit ? hit - pn->report : -1;
}

void dlr_plan_nodes_done(struct dlr_plan_nodes *pn)
{
    free(pn->report);
    free(pn->node);
    free(pn->usable);
    free(pn->failed);
    free(pn->full);
    free(pn->doubt);
    free(pn->silent_by);
    free(pn->voters);
    free(pn->seat);
    memset(pn, 0, sizeof(*pn));
}

static int allocate(struct dlr_plan_nodes *pn, unsigned n, unsigned nformer)
{
    size_t all = (size_t)n + nformer + 1;

    pn->report = calloc(all, sizeof(*pn->report));
    pn->node = calloc(all, sizeof(*pn->node));
    pn->usable = calloc(all, 1);
    pn->failed = calloc(all, 1);
    pn->full = calloc(all, sizeof(*pn->full));
    pn->doubt = calloc(all, 1);
    pn->silent_by = calloc(all, sizeof(*pn->silent_by));
    pn->voters = calloc(all, sizeof(*pn->voters));
    pn->seat = calloc(all, sizeof(*pn->seat));
    return pn->report && pn->node && pn->usable && pn->failed && pn->full &&
                   pn->doubt && pn->silent_by && pn->voters && pn->seat
               ? 0
               : -ENOMEM;
}

/* It works, but less well than its peers, as one measure beside them says. */
static bool is_slow(const struct dlr_plan_check *c)
{
    return strstr(c->reason, DLR_STRAGGLER) ||
           (dlr_streq(c->check, "network") && !strstr(c->reason, DLR_WRONG_BYTES));
}

/* A node with a fault is not used; one that is slow comes after all others. */
static void mark_failed(struct dlr_plan_nodes *pn, unsigned i)
{
    const struct dlr_plan_report *r = pn->report[i];

    pn->usable[i] = 1;
    for (unsigned k = 0; k < r->nchecks; k++) {
        if (r->checks[k].verdict < DLR_HEALTH_FAIL)
            continue;
        pn->failed[i] = 1;
        if (is_slow(&r->checks[k]))
            pn->doubt[i] = 1;
        else
            pn->usable[i] = 0;
    }
}

static void mark_full(struct dlr_plan_nodes *pn, const struct dlr_plan_want *want)
{
    for (unsigned i = 0; i < want->nfull; i++) {
        long at = dlr_plan_nodes_find(pn, want->full[i].node);

        if (at < 0)
            continue;
        if (want->full[i].last)
            pn->doubt[at] = 1;
        else
            pn->usable[at] = 0;
        pn->full[at] = want->full[i].reason;
    }
}

/* Nodes of the former round that sent no report still say where a successor should be.
 */
static void add_former(struct dlr_plan_nodes *pn, const struct dlr_plan_want *want)
{
    unsigned p;

    pn->nall = pn->n;
    for (p = 0; p < want->nformer; p++) {
        long at = dlr_plan_nodes_find(pn, want->former[p].node.name);

        if (at < 0) {
            at = pn->nall++;
            pn->node[at] = want->former[p].node;
        }
        pn->seat[p] = (unsigned)at;
    }
}

static void count_silence(struct dlr_plan_nodes *pn, unsigned speaker, int step)
{
    const struct dlr_plan_report *r = pn->report[speaker];
    unsigned i;

    for (i = 0; i < r->nsilent; i++) {
        long at = dlr_plan_nodes_find(pn, r->silent[i]);

        if (at >= 0 && at != speaker && !pn->doubt[at])
            pn->silent_by[at] += (unsigned)step;
    }
}

/* The node that most cannot reach, when that is more than half of those asked; of
 * equals the supervisor's node is kept longest, then the one first by name. -1: nobody
 * is in doubt.
 */
static long most_silent(const struct dlr_plan_nodes *pn, unsigned voters,
                        const char *batch)
{
    long worst = -1;
    unsigned i;

    for (i = 0; i < pn->n; i++) {
        if (!pn->usable[i] || pn->doubt[i] || 2 * pn->silent_by[i] <= voters)
            continue;
        if (worst < 0 || pn->silent_by[i] > pn->silent_by[worst] ||
            (pn->silent_by[i] == pn->silent_by[worst] &&
             !dlr_streq(pn->node[i].name, batch)))
            worst = i;
    }
    return worst;
}

/* One node at a time, and whoever is put in doubt has no voice any more: of two halves
 * that cannot see each other one is left whole, not none.
 */
static void vote(struct dlr_plan_nodes *pn, const char *batch)
{
    unsigned voices = 0, i;
    long worst;

    for (i = 0; i < pn->n; i++)
        if (pn->usable[i]) {
            count_silence(pn, i, 1);
            voices++;
        }
    while (voices > 1) {
        unsigned voters = voices - 1 < DLR_PLAN_PROBES ? voices - 1 : DLR_PLAN_PROBES;

        worst = most_silent(pn, voters, batch);
        if (worst < 0)
            return;
        pn->doubt[worst] = 1;
        pn->voters[worst] = voters;
        count_silence(pn, (unsigned)worst, -1);
        voices--;
    }
}

int dlr_plan_nodes_init(struct dlr_plan_nodes *pn,
                        const struct dlr_plan_report *reports, unsigned nreports,
                        const struct dlr_plan_want *want, struct dlr_err *err)
{
    unsigned i;

    memset(pn, 0, sizeof(*pn));
    if (nreports > DLR_PLAN_NODES_MAX || want->nformer > DLR_PLAN_NODES_MAX)
        return dlr_fail(err, -EINVAL, "more than %u nodes", DLR_PLAN_NODES_MAX);
    if (allocate(pn, nreports, want->nformer) < 0)
        return dlr_fail(err, -ENOMEM, "out of memory");
    for (i = 0; i < nreports; i++)
        pn->report[i] = &reports[i];
    pn->n = nreports;
    qsort(pn->report, pn->n, sizeof(*pn->report), by_name);
    for (i = 0; i < pn->n; i++) {
        if (i && by_name(&pn->report[i - 1], &pn->report[i]) == 0)
            return dlr_fail(err, -EEXIST, "node %s reported twice",
                            pn->report[i]->node.name);
        pn->node[i] = pn->report[i]->node;
        mark_failed(pn, i);
    }
    mark_full(pn, want);
    add_former(pn, want);
    vote(pn, want->batch);
    return 0;
}
