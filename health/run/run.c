/* SPDX-License-Identifier: Apache-2.0 */
/* Running some of the checks. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/checks.h"
#include "health/health.h"
#include "health/inject.h"

#define PEER_TIMEOUT_MS 1000

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
    char known[512] = "";
    const struct dlr_health_check *c;

    for (c = dlr_health_checks; c->name; c++) {
        strncat(known, " ", sizeof(known) - strlen(known) - 1);
        strncat(known, c->name, sizeof(known) - strlen(known) - 1);
    }
    return dlr_fail(err, -EINVAL, "unknown check '%.*s'; known are all, quick, none,%s",
                    (int)(size < 64 ? size : 64), name, known);
}

static uint64_t rows_of_level(enum dlr_health_level level)
{
    const struct dlr_health_check *c;
    uint64_t rows = 0;

    for (c = dlr_health_checks; c->name; c++)
        if (c->level <= level)
            rows |= UINT64_C(1) << (c - dlr_health_checks);
    return rows;
}

/* The rows one word stands for; false: it is none of ours. */
static bool rows_of(const char *word, size_t size, uint64_t *ret_rows)
{
    static const struct {
        const char *word;
        int level; /* -1: no row */
    } words[] = {{"all", DLR_HEALTH_FULL},
                 {"full", DLR_HEALTH_FULL},
                 {"quick", DLR_HEALTH_QUICK},
                 {"none", -1}};
    const struct dlr_health_check *c = find(word, size);

    *ret_rows = c ? UINT64_C(1) << (c - dlr_health_checks) : 0;
    for (size_t i = 0; !c && i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i].word) == size && memcmp(words[i].word, word, size) == 0) {
            if (words[i].level >= 0)
                *ret_rows = rows_of_level((enum dlr_health_level)words[i].level);
            return true;
        }
    return c != NULL;
}

/* Which rows of the table list names, as a bit mask. */
static int select_checks(const char *list, uint64_t *ret_rows, struct dlr_err *err)
{
    uint64_t rows = list[0] == '-' ? rows_of_level(DLR_HEALTH_FULL) : 0, some;

    for (;; list++) {
        bool less = list[0] == '-';
        size_t size = strcspn(list += less, ",");

        if (!rows_of(list, size, &some))
            return unknown(list, size, err);
        rows = less ? rows & ~some : rows | some;
        list += size;
        if (!*list)
            break;
    }
    *ret_rows = rows;
    return 0;
}

int dlr_health_run(const struct dlr_health_env *env, const char *list,
                   struct dlr_health_result *ret, size_t max, struct dlr_err *err)
{
    const struct dlr_health_check *c;
    DLR_AUTO_FREE struct dlr_health_gpus *gpus = dlr_health_gpus_new();
    struct dlr_health_env own = *env;
    uint64_t rows = 0;
    size_t n = 0;
    int rc = select_checks(list, &rows, err);

    if (rc == 0 && !gpus)
        rc = dlr_fail(err, -ENOMEM, "out of memory");
    if (rc < 0)
        return rc;
    own.gpus = gpus;
    for (c = dlr_health_checks; c->name && n < max; c++) {
        if (!(rows & UINT64_C(1) << (c - dlr_health_checks)))
            continue;
        memset(&ret[n], 0, sizeof(ret[n]));
        ret[n].check = c->name;
        c->run(&own, &ret[n++]);
    }
    dlr_inject_apply(env->inject, env->node, ret, n);
    return (int)n;
}
