/* SPDX-License-Identifier: Apache-2.0 */
/* Swap in use, and time lost waiting for memory. */
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/checks.h"

#define SWAP_WARN_PERCENT 10 /* of the memory: what a step touches comes from a disk */
/* Of the last minute, every task waited for memory. systemd-oomd kills from 60 on
 * (oomd.conf: DefaultMemoryPressureLimit); a healthy node is near 0.
 */
#define STALL_WARN_PERCENT 10
#define STALL_FAIL_PERCENT 60

/* "full avg10=0.00 avg60=1.50 ...", kernel: Documentation/accounting/psi; -1: unknown. */
static double stall(const struct dlr_health_env *env)
{
    DLR_AUTO_FREE char *text = dlr_health_load(env, "/proc/pressure/memory");
    const char *full = text ? strstr(text, "full ") : NULL;
    const char *at = full ? strstr(full, "avg60=") : NULL;
    char *end = NULL;
    double percent = at ? strtod(at + strlen("avg60="), &end) : -1;

    return at && end > at + strlen("avg60=") && percent >= 0 && percent <= 100 ? percent
                                                                               : -1;
}

void dlr_health_swap(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    DLR_AUTO_FREE char *text = dlr_health_load(env, "/proc/meminfo");
    uint64_t memory, total, unused;
    double percent, stalled = stall(env);
    enum dlr_health_verdict verdict = DLR_HEALTH_OK;
    char stall_text[64] = "";

    if (!text || !dlr_health_meminfo(text, "MemTotal:", &memory) || !memory ||
        !dlr_health_meminfo(text, "SwapTotal:", &total) ||
        !dlr_health_meminfo(text, "SwapFree:", &unused) || unused > total) {
        dlr_health_say(ret, DLR_HEALTH_SKIP, "/proc/meminfo cannot be read");
        return;
    }
    percent = (double)(total - unused) / (double)memory * 100;
    dlr_health_injected(env, "swap.used", &percent);
    dlr_health_injected(env, "swap.stalled", &stalled);
    if (stalled >= STALL_FAIL_PERCENT)
        verdict = DLR_HEALTH_FAIL;
    else if (percent >= SWAP_WARN_PERCENT || stalled >= STALL_WARN_PERCENT)
        verdict = DLR_HEALTH_WARN;
    if (stalled >= 0)
        dlr_format(stall_text, sizeof(stall_text),
                   ", %.1f%% of a minute lost waiting for memory, limits %d and %d",
                   stalled, STALL_WARN_PERCENT, STALL_FAIL_PERCENT);
    dlr_health_say(ret, verdict, "%.1f%% of the memory is in swap, limit %d%s", percent,
                   SWAP_WARN_PERCENT, stall_text);
}
