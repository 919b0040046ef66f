/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and CPUs, out of /proc and /sys. */
#include "health/checks.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define LOW_MEMORY_PERCENT 2 /* available of all: the kernel is about to kill someone */
#define LOAD_PER_CPU 4 /* runnable tasks; a busy node has 1, a forgotten job adds 1 */

/* --- memory ----------------------------------------------------------------------- */

static double gib(uint64_t bytes)
{
    return (double)bytes / (1u << 30);
}

void dlr_health_memory(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    DLR_AUTO_FREE char *text = dlr_health_load(env, "/proc/meminfo");
    uint64_t total, available;
    bool known = text && dlr_health_meminfo(text, "MemTotal:", &total) &&
                 dlr_health_meminfo(text, "MemAvailable:", &available);

    if (known)
        dlr_health_injected_count(env, "memory.available", &available);
    if (!known)
        dlr_health_say(ret, DLR_HEALTH_SKIP, "/proc/meminfo cannot be read");
    else if (available < env->shm_need_bytes)
        dlr_health_say(ret, DLR_HEALTH_FAIL,
                       "%.2f GiB available, snapshots need %.2f GiB", gib(available),
                       gib(env->shm_need_bytes));
    else if (available < total / 100 * LOW_MEMORY_PERCENT)
        dlr_health_say(ret, DLR_HEALTH_WARN, "%.2f of %.2f GiB available",
                       gib(available), gib(total));
    else
        dlr_health_say(ret, DLR_HEALTH_OK, "%.2f of %.2f GiB available", gib(available),
                       gib(total));
}

/* --- CPUs ------------------------------------------------------------------------- */

static unsigned cpus_allowed(const char *status)
{
    const char *at = status ? strstr(status, "Cpus_allowed_list:") : NULL;

    return at ? dlr_health_count_list(at + strlen("Cpus_allowed_list:")) : 0;
}

void dlr_health_cpu(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    DLR_AUTO_FREE char *status = dlr_health_load(env, "/proc/self/status");
    DLR_AUTO_FREE char *loadavg = dlr_health_load(env, "/proc/loadavg");
    unsigned online = dlr_health_cpus(env, "online");
    unsigned allowed = cpus_allowed(status);
    char load_text[32] = "?";
    uint64_t load_now = 0;

    if (!online) {
        dlr_health_say(ret, DLR_HEALTH_SKIP, "/sys/devices/system/cpu cannot be read");
        return;
    }
    if (loadavg)
        dlr_format(load_text, sizeof(load_text), "%.*s", (int)strcspn(loadavg, " \n"),
                   loadavg);
    dlr_health_number(load_text, &load_now);
    if (dlr_health_injected_count(env, "cpu.load", &load_now))
        dlr_format(load_text, sizeof(load_text), "%" PRIu64, load_now);
    dlr_health_say(ret,
                   load_now >= (uint64_t)LOAD_PER_CPU * online ? DLR_HEALTH_WARN
                                                               : DLR_HEALTH_OK,
                   "%u of %u CPUs are ours, load %s", allowed ? allowed : online,
                   online, load_text);
}
