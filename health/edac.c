/* SPDX-License-Identifier: Apache-2.0 */
/* Memory errors that the memory controllers have counted since boot (kernel:
 * Documentation/admin-guide/RAS: EDAC).
 */
#include <inttypes.h>

#include "common/base/cleanup.h"
#include "health/checks.h"

/* mcelog's ce-error-threshold of a module: 10 in 24 h. Corrected errors cost no data,
 * and a module with some is far likelier to have an uncorrected one (Schroeder, Pinheiro
 * and Weber, DRAM Errors in the Wild, SIGMETRICS 2009): a word, and no node lost.
 */
#define CORRECTED_PER_DAY 10

static bool add(const struct dlr_health_env *env, const char *controller,
                const char *file, uint64_t *sum)
{
    uint64_t value;

    if (!dlr_health_read(env, &value, controller, file))
        return false;
    *sum += value;
    return true;
}

void dlr_health_edac(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    DLR_CLEANUP(globfree) glob_t controllers = {0};
    size_t n =
        dlr_health_glob(env, "/sys/devices/system/edac/mc/mc[0-9]*", &controllers);
    uint64_t corrected = 0, uncorrected = 0;
    double days = dlr_health_days_up(env);
    unsigned read = 0;

    for (size_t i = 0; i < n; i++) {
        const char *mc = dlr_health_path(env, &controllers, i);

        read += add(env, mc, "ue_count", &uncorrected);
        read += add(env, mc, "ce_count", &corrected);
    }
    read += dlr_health_injected_count(env, "edac.corrected", &corrected);
    read += dlr_health_injected_count(env, "edac.uncorrected", &uncorrected);
    if (!read)
        dlr_health_say(ret, DLR_HEALTH_SKIP,
                       "the kernel counts no memory errors here (EDAC)");
    else if (uncorrected)
        dlr_health_say(ret, DLR_HEALTH_DRAIN,
                       "%" PRIu64 " uncorrected memory errors since boot, limit 0",
                       uncorrected);
    else
        dlr_health_say(ret,
                       (double)corrected >= CORRECTED_PER_DAY * days ? DLR_HEALTH_WARN
                                                                     : DLR_HEALTH_OK,
                       "%" PRIu64
                       " corrected memory errors in %.1f days, limit %d a day",
                       corrected, days, CORRECTED_PER_DAY);
}
