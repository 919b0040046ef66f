/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/gpu_health.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "health/health.h"

/* The kernel's log is root's, and so may be skipped. */
static bool may_skip(const char *check)
{
    return dlr_streq(check, "gpu-xid");
}

int gpu_health(void)
{
    struct dlr_health_result got;
    struct dlr_health_env env;
    int rc = 0;

    dlr_health_env_init(&env);
    for (const struct dlr_health_check *c = dlr_health_checks; c->name; c++) {
        int64_t t0 = dlr_now_ns();

        if (!dlr_after(c->name, "gpu"))
            continue;
        if (dlr_health_run(&env, c->name, &got, 1, NULL) != 1)
            return 1;
        if (dlr_streq(c->name, "gpu") && got.verdict == DLR_HEALTH_SKIP) {
            printf("skipped: checks of GPUs: %s\n", got.reason);
            return 0;
        }
        printf("%-11s %-5s %6.3f s  %s\n", c->name,
               dlr_health_verdict_name(got.verdict), (double)(dlr_now_ns() - t0) / 1e9,
               got.reason);
        if (got.verdict >= DLR_HEALTH_FAIL ||
            (got.verdict == DLR_HEALTH_SKIP && !may_skip(c->name)))
            rc = 1;
    }
    return rc;
}
