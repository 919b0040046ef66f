/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "hwloc_topo/topo.h"
#include "mpi_launcher/agent/snapshots/parts.h"
#include "mpi_launcher/process/process_affinity.h"

#define CPUS_TEXT 1024 /* what is longer is told as an empty one */

static_assert(DLR_PAGE_CPUS == DLR_TOPO_CPUS && DLR_TOPO_CPUS == CPU_SETSIZE,
              "one set of CPUs in three places");

/* Adds the CPUs that a process is bound to. */
static int add_cpus(pid_t pid, struct dlr_topo_cpus *cpus)
{
    cpu_set_t set;

    if (sched_getaffinity(pid, sizeof(set), &set) < 0)
        return -errno;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            cpus->bits[cpu / 64] |= UINT64_C(1) << cpu % 64;
    return 0;
}

static void add_busy(void *arg, pid_t pid)
{
    add_cpus(pid, arg); /* one that is gone needs none */
}

void dlr_agent_helpers_advise(const struct dlr_agent_snapshots *s, pid_t pid,
                              struct dlr_agent_rank *r)
{
    struct dlr_topo_cpus own = {0}, busy, spare;

    r->helpers = (struct dlr_topo_cpus){0};
    if (!s->topo || add_cpus(pid, &own) < 0)
        return;
    busy = own;
    s->ops->tasks(s->arg, add_busy, &busy);
    if (dlr_topo_spare(s->topo, &own, &busy, &spare) > 0)
        r->helpers = spare;
    memcpy(r->page->helper_cpus, r->helpers.bits, sizeof(r->page->helper_cpus));
}

static int place_threads(pid_t pid, const struct dlr_topo_cpus *cpus)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (unsigned cpu = 0; cpu < DLR_TOPO_CPUS; cpu++)
        if (cpus->bits[cpu / 64] >> cpu % 64 & 1)
            CPU_SET(cpu, &set);
    return dlr_process_affinity(pid, &set);
}

/* text gets the CPUs; "": it may run on all of ours. */
static void place_data(struct dlr_agent_snapshots *s, char *text, size_t size)
{
    struct dlr_topo_cpus busy = {0}, helpers = {0}, cpus;
    bool spare;
    int rc;

    text[0] = '\0';
    if (!s->topo || !dlr_agent_data_runs(s->data))
        return;
    s->devices.placed = s->round->round;
    s->ops->tasks(s->arg, add_busy, &busy);
    for (unsigned i = 0; i < s->nranks; i++) {
        const struct dlr_agent_rank *r = s->ranks[i];

        if (!r->own || !r->worker)
            continue;
        add_cpus(r->worker->pid, &busy);
        for (unsigned k = 0; k < DLR_TOPO_CPUS / 64; k++)
            helpers.bits[k] |= r->helpers.bits[k];
    }
    spare = dlr_topo_beside(s->topo, &s->devices.numa, &busy, &helpers, &cpus) > 0;
    if (!spare)
        dlr_topo_usable(s->topo, &cpus);
    rc = place_threads(dlr_agent_data_pid(s->data), &cpus);
    if (rc < 0)
        dlr_debug("%s: the data process stays where it is: %s", s->self->node,
                  strerror(-rc));
    else if (spare && dlr_topo_cpus_text(&cpus, text, size) < 0)
        text[0] = '\0';
}

void dlr_agent_helpers_uses(struct dlr_agent_snapshots *s, json_t *msg)
{
    const json_t *list = json_object_get(msg, "numa");
    struct dlr_topo_numa *numa = &s->devices.numa;
    char text[CPUS_TEXT];

    numa->n = 0;
    for (size_t i = 0; i < json_array_size(list) && numa->n < DLR_TOPO_NUMA; i++)
        numa->node[numa->n++] = (unsigned)json_integer_value(json_array_get(list, i));
    s->devices.known = true;
    place_data(s, text, sizeof(text));
    json_object_set_new(msg, "cpus", json_string(text));
}

void dlr_agent_helpers_round(struct dlr_agent_snapshots *s)
{
    char text[CPUS_TEXT];

    if (s->devices.known && s->devices.placed != s->round->round)
        place_data(s, text, sizeof(text));
}
