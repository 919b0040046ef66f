/* SPDX-License-Identifier: Apache-2.0 */
/* The table of checks. */
#include "health/checks.h"
#include "health/health.h"

#define QUICK DLR_HEALTH_QUICK
#define FULL DLR_HEALTH_FULL

// clang-format off
const struct dlr_health_check dlr_health_checks[] = {
    {"memory", QUICK, "memory for the snapshots, uncorrected memory errors",
     "/proc/meminfo, /sys/devices/system/edac/mc/*/ue_count", "bytes",
     "warn below 2% available; fail below what snapshots need, or an uncorrected error",
     "End what uses the memory; after an uncorrected error have the module replaced.",
     dlr_health_memory},
    {"cpu", QUICK, "CPUs online and ours to use, load",
     "/sys/devices/system/cpu/online, /proc/self/status, /proc/loadavg", "tasks per CPU",
     "warn from a load of 4 per CPU",
     "Look for processes that an earlier job has left.",
     dlr_health_cpu},
    {"disk", QUICK, "space for state and for snapshots",
     "statvfs of the state directory and of /dev/shm", "bytes",
     "warn below 64 MiB or 1000 inodes; fail at none, below what snapshots need, read-only, or without an answer in 1 s",
     "Remove old files, mount it again, or look at the file server.",
     dlr_health_disk},
    {"clock", QUICK, "offset of the clock against the batch host's",
     "CLOCK_REALTIME", "seconds",
     "warn above 1, fail above 60",
     "Start the time service (chronyd, ntpd); MUNGE refuses credentials of a clock that is off.",
     dlr_health_clock},
    {"reach", QUICK, "every other node answers",
     "TCP connections to the other nodes", "nodes",
     "warn when one is silent; the node that most find silent is left out",
     "Look at the node's network, its switch, and firewalls between nodes.",
     dlr_health_reach},
    {NULL, QUICK, NULL, NULL, NULL, NULL, NULL, NULL},
};
// clang-format on
