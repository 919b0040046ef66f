/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of CPUs. Needs no hwloc. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "hwloc_topo/topo.h"

static bool is_in(const struct dlr_topo_cpus *cpus, unsigned cpu)
{
    return cpus->bits[cpu / 64] >> cpu % 64 & 1;
}

int dlr_topo_cpus_text(const struct dlr_topo_cpus *cpus, char *buf, size_t size)
{
    size_t used = 0;

    buf[0] = '\0';
    for (unsigned from = 0, end; from < DLR_TOPO_CPUS; from = end + 1) {
        char last[16] = "";
        int n;

        for (end = from; end < DLR_TOPO_CPUS && is_in(cpus, end); end++)
            ;
        if (end == from)
            continue;
        if (end - from > 1)
            snprintf(last, sizeof(last), "-%u", end - 1);
        n = snprintf(buf + used, size - used, "%s%u%s", used ? "," : "", from, last);
        if (n < 0 || (size_t)n >= size - used)
            return -ENOSPC;
        used += (size_t)n;
    }
    return (int)used;
}
