/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs that were slowed down because they were too hot. */
#include <inttypes.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/checks.h"

/* Our own figures: hot for a tenth of the time since boot costs a synchronous job as much
 * on every node.
 */
#define HOT_PERCENT 10
/* Where the kernel has no times (before 5.6): events per day */
#define HOT_EVENTS_PER_DAY 1000

/* The largest of a counter over the CPUs; false: not there (not x86, a guest). */
static bool largest(const struct dlr_health_env *env, const char *file,
                    uint64_t *ret_value)
{
    DLR_CLEANUP(globfree) glob_t paths = {0};
    char pattern[128];
    uint64_t value;
    bool found = false;
    size_t n;

    dlr_format(pattern, sizeof(pattern),
               "/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/%s", file);
    n = dlr_health_glob(env, pattern, &paths);
    for (size_t i = 0; i < n; i++)
        if (dlr_health_read(env, &value, "", dlr_health_path(env, &paths, i))) {
            if (!found || value > *ret_value)
                *ret_value = value;
            found = true;
        }
    return found;
}

/* Of a package and of a core, whichever is worse; or what is injected. */
static bool worst(const struct dlr_health_env *env, const char *key,
                  const char *package, const char *core, uint64_t *ret_value)
{
    uint64_t a = 0, b = 0;
    bool found = largest(env, package, &a);

    found |= largest(env, core, &b);
    *ret_value = a > b ? a : b;
    return dlr_health_injected_count(env, key, ret_value) || found;
}

void dlr_health_throttle(const struct dlr_health_env *env,
                         struct dlr_health_result *ret)
{
    double days = dlr_health_days_up(env);
    uint64_t hot_ms, events;
    bool only_events = dlr_health_injected_count(env, "throttle.events", &events);

    if (!only_events && worst(env, "throttle.hot", "package_throttle_total_time_ms",
                              "core_throttle_total_time_ms", &hot_ms)) {
        double percent = (double)hot_ms / (days * 864e5) * 100;

        dlr_health_say(ret, percent >= HOT_PERCENT ? DLR_HEALTH_WARN : DLR_HEALTH_OK,
                       "slowed down by heat for %" PRIu64
                       " s, %.1f%% of %.1f days, limit %d%%",
                       hot_ms / 1000, percent, days, HOT_PERCENT);
    } else if (worst(env, "throttle.events", "package_throttle_count",
                     "core_throttle_count", &events)) {
        dlr_health_say(ret,
                       (double)events >= HOT_EVENTS_PER_DAY * days ? DLR_HEALTH_WARN
                                                                   : DLR_HEALTH_OK,
                       "slowed down by heat %" PRIu64
                       " times in %.1f days, limit %d a day",
                       events, days, HOT_EVENTS_PER_DAY);
    } else {
        dlr_health_say(ret, DLR_HEALTH_SKIP,
                       "the kernel does not count it here (thermal_throttle)");
    }
}
