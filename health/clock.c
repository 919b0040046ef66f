/* SPDX-License-Identifier: Apache-2.0 */
/* The clock against the batch host's, and whether somebody keeps it. */
#include <errno.h>
#include <string.h>
#include <sys/timex.h>

#include "common/base/clock.h"
#include "health/checks.h"

/* Nothing of ours compares clocks of two nodes; people do when they read logs, hence a
 * word from 1 s on. Credentials do too: MUNGE takes them for 300 s, sites go down to 60
 * s.
 */
#define WARN_NS 1000000000ll
#define FAIL_NS (60 * WARN_NS)

void dlr_health_clock(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    int64_t expected, offset, sure;
    enum dlr_health_verdict verdict = DLR_HEALTH_OK;
    double ahead_ms = 0;

    dlr_health_injected(env, "clock", &ahead_ms);
    if (!env->ref_wall_ns) {
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no clock to compare with");
        return;
    }
    expected = env->ref_wall_ns + (dlr_now_ns() - env->ref_taken_ns);
    offset = dlr_wall_ns() - expected + (int64_t)(ahead_ms * 1e6);
    sure = (offset < 0 ? -offset : offset) - env->ref_error_ns;
    if (sure > FAIL_NS)
        verdict = DLR_HEALTH_FAIL;
    else if (sure > WARN_NS)
        verdict = DLR_HEALTH_WARN;
    dlr_health_say(ret, verdict, "%+.3f s off the batch host's, +/- %.3f s",
                   (double)offset / 1e9, (double)env->ref_error_ns / 1e9);
}

/* chronyd without rtcsync keeps a clock and does not say so to the kernel, hence no more
 * than a word, and none in a run: there the offset counts.
 */
void dlr_health_timesync(const struct dlr_health_env *env,
                         struct dlr_health_result *ret)
{
    struct timex t = {0};
    int state;

    if (!env->on_demand || env->root[0]) {
        dlr_health_say(ret, DLR_HEALTH_SKIP,
                       env->root[0] ? "not of a recorded node"
                                    : "a run goes by the offset: check clock");
        return;
    }
    state = adjtimex(&t);
    if (state < 0)
        dlr_health_say(ret, DLR_HEALTH_SKIP, "adjtimex: %s", strerror(errno));
    else if (state == TIME_ERROR || (t.status & STA_UNSYNC))
        dlr_health_say(ret, DLR_HEALTH_WARN, "no time service keeps the clock");
    else
        dlr_health_say(ret, DLR_HEALTH_OK, "kept, within %.3f s at most",
                       (double)t.maxerror / 1e6);
}
