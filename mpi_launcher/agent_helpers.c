/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "common/log.h"
#include "hwloc_topo/topo.h"
#include "mpi_launcher/agent.h"

static_assert(DLR_PAGE_CPUS == DLR_TOPO_CPUS && DLR_TOPO_CPUS == CPU_SETSIZE,
              "one set of CPUs in three places");

void dlr_agent_helpers_start(struct dlr_agent *a)
{
    struct dlr_err err;

    if (dlr_topo_load_cpus(&a->topo, &err) < 0)
        dlr_debug("helper threads get no CPUs of their own: %s", err.text);
}

void dlr_agent_helpers_stop(struct dlr_agent *a)
{
    a->topo = dlr_topo_free(a->topo);
}

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

void dlr_agent_helpers_advise(const struct dlr_agent *a, pid_t pid,
                              struct dlr_page *page)
{
    struct dlr_topo_cpus own = {0}, busy, spare;

    if (!a->topo || add_cpus(pid, &own) < 0)
        return;
    busy = own;
    dlr_agent_tasks_each(a, add_busy, &busy);
    if (dlr_topo_spare(a->topo, &own, &busy, &spare) > 0)
        memcpy(page->helper_cpus, spare.bits, sizeof(page->helper_cpus));
}
