/* SPDX-License-Identifier: Apache-2.0 */
/* The table of checks, and running some of them. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/str.h"
#include "health/checks.h"
#include "health/health.h"

#define PEER_TIMEOUT_MS 1000

// clang-format off
const struct dlr_health_check dlr_health_checks[] = {
    {"memory", "memory for the snapshots, uncorrected memory errors", dlr_health_memory},
    {"cpu",    "CPUs online and ours to use, load",                   dlr_health_cpu},
    {"disk",   "space for state and for snapshots",                   dlr_health_disk},
    {"clock",  "offset of the clock against the batch host's",        dlr_health_clock},
    {"reach",  "every other node answers",                            dlr_health_reach},
    {NULL, NULL, NULL},
};
// clang-format on

void dlr_health_env_init(struct dlr_health_env *env)
{
    memset(env, 0, sizeof(*env));
    env->root = "";
    env->shm_path = "/dev/shm";
    env->peer_timeout_ms = PEER_TIMEOUT_MS;
}

static const struct dlr_health_check *find(const char *name, size_t size)
{
    const struct dlr_health_check *c;

    for (c = dlr_health_checks; c->name; c++)
        if (strlen(c->name) == size && memcmp(c->name, name, size) == 0)
            return c;
    return NULL;
}

static int unknown(const char *name, size_t size, struct dlr_err *err)
{
    char known[256] = "";
    const struct dlr_health_check *c;

    for (c = dlr_health_checks; c->name; c++) {
        strncat(known, " ", sizeof(known) - strlen(known) - 1);
        strncat(known, c->name, sizeof(known) - strlen(known) - 1);
    }
    return dlr_fail(err, -EINVAL, "unknown check '%.*s'; known are all, none,%s",
                    (int)(size < 64 ? size : 64), name, known);
}

/* Which rows of the table list names, as a bit mask. */
static int select_checks(const char *list, unsigned *ret_mask, struct dlr_err *err)
{
    unsigned mask = 0;

    if (dlr_streq(list, "all"))
        mask = ~0u;
    else if (!dlr_streq(list, "none"))
        for (;;) {
            size_t size = strcspn(list, ",");
            const struct dlr_health_check *c = find(list, size);

            if (!c)
                return unknown(list, size, err);
            mask |= 1u << (c - dlr_health_checks);
            if (!list[size])
                break;
            list += size + 1;
        }
    *ret_mask = mask;
    return 0;
}

int dlr_health_run(const struct dlr_health_env *env, const char *list,
                   struct dlr_health_result *ret, size_t max, struct dlr_err *err)
{
    const struct dlr_health_check *c;
    unsigned mask = 0;
    size_t n = 0;
    int rc = select_checks(list, &mask, err);

    if (rc < 0)
        return rc;
    for (c = dlr_health_checks; c->name && n < max; c++) {
        if (!(mask & 1u << (c - dlr_health_checks)))
            continue;
        memset(&ret[n], 0, sizeof(ret[n]));
        ret[n].check = c->name;
        c->run(env, &ret[n++]);
    }
    return (int)n;
}
