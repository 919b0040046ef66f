/* SPDX-License-Identifier: Apache-2.0 */
#include "hwloc_topo/bind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"

#define NONE UINT16_MAX

/* What is being divided. */
struct deal {
    const struct dlr_machine *m;
    const struct dlr_topo_cpus *usable;
    unsigned n;
    struct dlr_bind_rank *ranks;
    unsigned free[DLR_MACHINE_NUMA]; /* cores of each NUMA node that nobody has yet */
    unsigned cores;                  /* usable ones */
    unsigned *need;                  /* [n] cores that a rank has yet to get */
    unsigned *home;                  /* [n] its NUMA node */
    uint64_t *local; /* [n] NUMA nodes of its first GPU, then its nearest NICs */
    uint8_t numa[DLR_TOPO_CPUS];   /* by core, where its first usable CPU is */
    uint16_t taken[DLR_TOPO_CPUS]; /* by core: 1 + rank; NONE: it is not usable */
};

static bool has_cpu(const struct dlr_topo_cpus *cpus, unsigned cpu)
{
    return cpus->bits[cpu / 64] >> cpu % 64 & 1;
}

static void add_cpu(struct dlr_topo_cpus *cpus, unsigned cpu)
{
    cpus->bits[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

static bool is_usable(const struct deal *d, unsigned cpu)
{
    return d->m->core[cpu] && has_cpu(d->usable, cpu);
}

static void count_cores(struct deal *d)
{
    for (unsigned core = 0; core < DLR_TOPO_CPUS; core++)
        d->taken[core] = NONE;
    for (unsigned cpu = 0; cpu < DLR_TOPO_CPUS; cpu++) {
        unsigned core = d->m->core[cpu] - 1u;

        if (!is_usable(d, cpu) || d->taken[core] == 0)
            continue;
        d->taken[core] = 0;
        d->numa[core] = d->m->numa[cpu];
        d->free[d->numa[core]]++;
        d->cores++;
    }
}

/* Gives the rank up to count free cores of a NUMA node, those of the lowest CPUs. */
static void take(struct deal *d, unsigned rank, unsigned numa, unsigned count)
{
    for (unsigned cpu = 0; cpu < DLR_TOPO_CPUS && count > 0; cpu++) {
        unsigned core = d->m->core[cpu] - 1u;

        if (!is_usable(d, cpu) || d->numa[core] != numa || d->taken[core] != 0)
            continue;
        d->taken[core] = (uint16_t)(rank + 1);
        d->free[numa]--;
        d->need[rank]--;
        d->ranks[rank].cores++;
        count--;
    }
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* --- GPUs ------------------------------------------------------------------------- */

static void deal_gpus(struct deal *d, const unsigned *gpus, unsigned ngpus)
{
    for (unsigned i = 0; i < d->n && ngpus > 0; i++) {
        struct dlr_bind_rank *r = &d->ranks[i];
        unsigned from = d->n <= ngpus ? i * ngpus / d->n : i % ngpus;
        unsigned to = d->n <= ngpus ? (i + 1) * ngpus / d->n : from + 1;

        while (from < to)
            r->gpus[r->ngpus++] = gpus[from++];
        d->local[i] = d->m->gpu[r->gpus[0]].numa;
    }
}

/* --- cores ------------------------------------------------------------------------ */

static bool is_local(const struct deal *d, unsigned rank, unsigned numa)
{
    return d->local[rank] >> numa & 1;
}

/* Of the NUMA nodes of its GPU the one with the fewest ranks for its cores. */
static void choose_homes(struct deal *d)
{
    unsigned ranks[DLR_MACHINE_NUMA] = {0};

    for (unsigned i = 0; i < d->n; i++) {
        unsigned best = DLR_MACHINE_NUMA;

        for (unsigned k = 0; k < d->m->numas; k++)
            if (is_local(d, i, k) && d->free[k] > 0 &&
                (best == DLR_MACHINE_NUMA || (uint64_t)ranks[k] * d->free[best] <
                                                 (uint64_t)ranks[best] * d->free[k]))
                best = k;
        d->home[i] = best;
        if (best < DLR_MACHINE_NUMA)
            ranks[best]++;
    }
}

/* Every rank gets what it needs of its home, or an equal share of that. */
static void deal_homes(struct deal *d)
{
    for (unsigned numa = 0; numa < d->m->numas; numa++) {
        unsigned left = 0;

        for (unsigned i = 0; i < d->n; i++)
            left += d->home[i] == numa;
        for (unsigned i = 0; i < d->n && left > 0; i++) {
            if (d->home[i] != numa)
                continue;
            take(d, i, numa, least(d->need[i], (d->free[numa] + left - 1) / left));
            left--;
        }
    }
}

static bool in_package(const struct deal *d, unsigned rank, unsigned numa)
{
    for (unsigned k = 0; k < d->m->numas; k++)
        if (is_local(d, rank, k) && d->m->package[k] == d->m->package[numa])
            return true;
    return false;
}

static bool anywhere(const struct deal *d, unsigned rank, unsigned numa)
{
    return true;
}

/* What a rank lacks yet, from NUMA nodes that may be. */
static void deal_rest(struct deal *d,
                      bool (*may)(const struct deal *d, unsigned rank, unsigned numa))
{
    for (unsigned i = 0; i < d->n; i++)
        for (unsigned numa = 0; numa < d->m->numas && d->need[i] > 0; numa++)
            if (d->free[numa] > 0 && may(d, i, numa))
                take(d, i, numa, d->need[i]);
}

static void deal_cores(struct deal *d)
{
    for (unsigned i = 0; i < d->n; i++)
        d->need[i] = d->cores / d->n + (i < d->cores % d->n);
    choose_homes(d);
    deal_homes(d);
    deal_rest(d, is_local);
    deal_rest(d, in_package);
    deal_rest(d, anywhere);
}

static void list_cpus(struct deal *d)
{
    for (unsigned cpu = 0; cpu < DLR_TOPO_CPUS; cpu++)
        if (is_usable(d, cpu))
            add_cpu(&d->ranks[d->taken[d->m->core[cpu] - 1u] - 1u].own, cpu);
    for (unsigned i = 0; i < d->n; i++) {
        struct dlr_bind_rank *r = &d->ranks[i];
        unsigned cpus[DLR_MACHINE_NUMA] = {0};

        for (unsigned cpu = 0; cpu < DLR_TOPO_CPUS; cpu++)
            if (has_cpu(&r->own, cpu))
                cpus[d->m->numa[cpu]]++;
        for (unsigned cpu = 0; cpu < DLR_TOPO_CPUS; cpu++)
            if (is_usable(d, cpu) && cpus[d->m->numa[cpu]] > 0)
                add_cpu(&r->near, cpu);
        for (unsigned k = 0; k < DLR_MACHINE_NUMA; k++)
            if (cpus[k] > cpus[r->numa])
                r->numa = k;
        if (d->home[i] < DLR_MACHINE_NUMA && cpus[d->home[i]] > 0)
            r->numa = d->home[i];
    }
}

/* --- NICs ------------------------------------------------------------------------- */

static unsigned nearness(const struct deal *d, unsigned rank, unsigned nic)
{
    const struct dlr_bind_rank *r = &d->ranks[rank];

    if (r->ngpus > 0)
        return d->m->near[r->gpus[0]][nic];
    return d->m->nic[nic].numa >> r->numa & 1 ? DLR_NEAR_NUMA : DLR_NEAR_NOT;
}

/* The NICs that are nearest to a rank: bit i is NIC i. */
static uint64_t nearest(const struct deal *d, unsigned rank)
{
    unsigned best = 0;
    uint64_t set = 0;

    for (unsigned k = 0; k < d->m->nics; k++) {
        unsigned near = nearness(d, rank, k);

        if (near > best)
            set = 0;
        if (near >= best)
            set |= UINT64_C(1) << k;
        best = near > best ? near : best;
    }
    return set;
}

/* Of the count NICs in set those of the which-th of among ranks. */
static void list_nics(struct dlr_bind_rank *r, uint64_t set, unsigned count,
                      unsigned which, unsigned among)
{
    unsigned from = count < among ? which % count : which * count / among;
    unsigned to = count < among ? from + 1 : (which + 1) * count / among;
    unsigned at = 0;

    for (unsigned k = 0; k < DLR_MACHINE_NICS; k++) {
        if (!(set >> k & 1))
            continue;
        if (at >= from && at < to)
            r->nics[r->nnics++] = k;
        at++;
    }
}

static void deal_nics(struct deal *d)
{
    for (unsigned i = 0; i < d->n; i++)
        d->local[i] = nearest(d, i);
    for (unsigned i = 0; i < d->n && d->m->nics > 0; i++) {
        uint64_t set = d->local[i];
        unsigned which = 0, among = 0;

        for (unsigned k = 0; k < d->n; k++) {
            which += d->local[k] == set && k < i;
            among += d->local[k] == set;
        }
        list_nics(&d->ranks[i], set, (unsigned)__builtin_popcountll(set), which, among);
    }
}

int dlr_bind_plan(const struct dlr_machine *m, const struct dlr_topo_cpus *usable,
                  unsigned n, const unsigned *gpus, unsigned ngpus,
                  struct dlr_bind_rank *ret, struct dlr_err *err)
{
    DLR_AUTO_FREE unsigned *need = calloc(n, sizeof(*need));
    DLR_AUTO_FREE unsigned *home = calloc(n, sizeof(*home));
    DLR_AUTO_FREE uint64_t *local = calloc(n, sizeof(*local));
    struct deal d = {m, usable, n, ret, .need = need, .home = home, .local = local};

    if (!need || !home || !local)
        return dlr_fail(err, -ENOMEM, "out of memory");
    count_cores(&d);
    if (n > d.cores)
        return dlr_fail(err, -EDOM, "%u tasks on %u cores", n, d.cores);
    memset(ret, 0, n * sizeof(*ret));
    deal_gpus(&d, gpus, ngpus);
    deal_cores(&d);
    list_cpus(&d);
    deal_nics(&d);
    return 0;
}

unsigned dlr_bind_gpu_order(const struct dlr_bind_rank *ranks, unsigned n,
                            unsigned ret[DLR_MACHINE_GPUS])
{
    uint32_t seen = 0; /* GPUs that ranks share come once */
    unsigned count = 0;

    for (unsigned k = 0; k < DLR_MACHINE_GPUS; k++)
        for (unsigned i = 0; i < n; i++) {
            if (k >= ranks[i].ngpus || seen >> ranks[i].gpus[k] & 1)
                continue;
            seen |= UINT32_C(1) << ranks[i].gpus[k];
            ret[count++] = ranks[i].gpus[k];
        }
    return count;
}
