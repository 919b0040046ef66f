/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and CPUs, out of /proc and /sys. */
#include "health/checks.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define LOW_MEMORY_PERCENT 2 /* available of all: the kernel is about to kill someone */
#define LOAD_PER_CPU 4 /* runnable tasks; a busy node has 1, a forgotten job adds 1 */

/* --- memory ----------------------------------------------------------------------- */

/* "MemAvailable:  123 kB", in bytes. */
static bool meminfo(const char *text, const char *key, uint64_t *ret_bytes)
{
    const char *at = text;
    uint64_t kib;

    while (at && !dlr_after(at, key)) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    if (!at || !dlr_health_number(dlr_after(at, key), &kib) || kib > UINT64_MAX / 1024)
        return false;
    *ret_bytes = kib * 1024;
    return true;
}

/* Sum of one counter over the memory controllers; 0 where the kernel has no EDAC. */
static uint64_t edac_count(const struct dlr_health_env *env, const char *counter)
{
    static const char base[] = "/sys/devices/system/edac/mc";
    DLR_AUTO_CLOSEDIR DIR *dir = NULL;
    char path[PATH_MAX];
    uint64_t sum = 0;
    struct dirent *e;

    if (dlr_format(path, sizeof(path), "%s%s", env->root, base) == 0)
        dir = opendir(path);
    while (dir && (e = readdir(dir))) {
        DLR_AUTO_FREE char *text = NULL;
        uint64_t value;

        if (!dlr_after(e->d_name, "mc") ||
            dlr_format(path, sizeof(path), "%s/%s/%s", base, e->d_name, counter) < 0)
            continue;
        text = dlr_health_load(env, path);
        if (text && dlr_health_number(text, &value))
            sum += value;
    }
    return sum;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (1u << 30);
}

void dlr_health_memory(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    DLR_AUTO_FREE char *text = dlr_health_load(env, "/proc/meminfo");
    uint64_t total, available, bad = edac_count(env, "ue_count");

    if (bad)
        dlr_health_say(ret, DLR_HEALTH_FAIL,
                       "edac: %" PRIu64 " uncorrected memory errors", bad);
    else if (!text || !meminfo(text, "MemTotal:", &total) ||
             !meminfo(text, "MemAvailable:", &available))
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

/* How many CPUs "0-3,8" names; 0 for a malformed list. */
static unsigned count_list(const char *s)
{
    unsigned n = 0;

    for (;;) {
        uint64_t lo, hi;

        if (!dlr_health_number(s, &lo))
            return 0;
        s += strspn(s, " \t0123456789");
        hi = lo;
        if (*s == '-') {
            if (!dlr_health_number(++s, &hi) || hi < lo)
                return 0;
            s += strspn(s, "0123456789");
        }
        n += (unsigned)(hi - lo + 1);
        if (*s != ',')
            return n;
        s++;
    }
}

static unsigned cpus_allowed(const char *status)
{
    const char *at = status ? strstr(status, "Cpus_allowed_list:") : NULL;

    return at ? count_list(at + strlen("Cpus_allowed_list:")) : 0;
}

void dlr_health_cpu(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    DLR_AUTO_FREE char *online_text =
        dlr_health_load(env, "/sys/devices/system/cpu/online");
    DLR_AUTO_FREE char *status = dlr_health_load(env, "/proc/self/status");
    DLR_AUTO_FREE char *loadavg = dlr_health_load(env, "/proc/loadavg");
    unsigned online = online_text ? count_list(online_text) : 0;
    unsigned allowed = cpus_allowed(status);
    const char *load_text = loadavg ? loadavg : "?";
    int width = (int)strcspn(load_text, " \n");
    uint64_t load_now = 0;

    if (!online) {
        dlr_health_say(ret, DLR_HEALTH_SKIP, "/sys/devices/system/cpu cannot be read");
        return;
    }
    dlr_health_number(load_text, &load_now);
    dlr_health_say(ret,
                   load_now >= (uint64_t)LOAD_PER_CPU * online ? DLR_HEALTH_WARN
                                                               : DLR_HEALTH_OK,
                   "%u of %u CPUs are ours, load %.*s", allowed ? allowed : online,
                   online, width, load_text);
}
