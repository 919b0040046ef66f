/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/base/thread_affinity.h"

#include <sched.h>
#include <stdbool.h>

void dlr_thread_affinity(pthread_t thread, const uint64_t cpus[DLR_PAGE_CPUS / 64])
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (unsigned cpu = 0; cpu < DLR_PAGE_CPUS && cpu < CPU_SETSIZE; cpu++)
        if (cpus[cpu / 64] >> cpu % 64 & 1)
            CPU_SET(cpu, &set);
    if (CPU_COUNT(&set) > 0) /* the kernel refuses what is outside of the cpuset */
        pthread_setaffinity_np(thread, sizeof(set), &set);
}
