/* SPDX-License-Identifier: Apache-2.0 */
/* Errors and interruptions of network links since boot. They are counts, so what is
 * judged is how many a day; one old flap says nothing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/checks.h"

#define FLAPS_PER_DAY 10

/* Per day. Those of 10 are the thresholds that infiniband-diags ships (error_thresholds,
 * of a count that is looked at and cleared now and then); a symbol error in 10^12 bits,
 * the most that the InfiniBand specification allows, makes 864 a day of 10 Gb/s.
 */
static const struct {
    const char *file;
    unsigned limit;
    const char *key; /* that it is injected by, or NULL */
} counters[] = {
    {"link_downed", FLAPS_PER_DAY, "links.downed"},
    {"link_error_recovery", 10, "links.recoveries"},
    {"port_rcv_errors", 10, "links.receive-errors"},
    {"local_link_integrity_errors", 10, NULL},
    {"excessive_buffer_overrun_errors", 10, NULL},
    {"symbol_error", 864, "links.symbol-errors"},
    {"carrier_down_count", FLAPS_PER_DAY, "links.carrier-losses"}, /* of interfaces */
};

/* Tells of a count that is above its limit. */
static void judge(const struct dlr_health_env *env, const char *who, const char *file,
                  uint64_t value, unsigned limit, struct dlr_health_result *ret)
{
    double days;

    if (value < limit) /* they are of a day at least */
        return;
    days = dlr_health_days_up(env);
    if ((double)value >= limit * days)
        dlr_health_add(ret, DLR_HEALTH_WARN,
                       "%s: %" PRIu64 " %s in %.1f days, limit %u a day", who, value,
                       file, days, limit);
}

/* false: cannot be read. */
static bool look(const struct dlr_health_env *env, const char *who, const char *dir,
                 const char *file, unsigned limit, struct dlr_health_result *ret)
{
    uint64_t value;

    if (!dlr_health_read(env, &value, dir, file))
        return false;
    judge(env, who, file, value, limit, ret);
    return true;
}

static unsigned look_at_infiniband(const struct dlr_health_env *env,
                                   struct dlr_health_result *ret)
{
    DLR_CLEANUP(globfree) glob_t dirs = {0};
    size_t n = dlr_health_glob(env, "/sys/class/infiniband/*/ports/*/counters", &dirs);
    unsigned links = 0;

    for (size_t i = 0; i < n; i++) {
        const char *dir = dlr_health_path(env, &dirs, i);
        char device[64], who[96];
        unsigned port, read = 0;

        if (sscanf(dir, "/sys/class/infiniband/%63[^/]/ports/%u", device, &port) != 2)
            continue;
        dlr_format(who, sizeof(who), "%s port %u", device, port);
        for (size_t c = 0; c < sizeof(counters) / sizeof(counters[0]); c++)
            read += look(env, who, dir, counters[c].file, counters[c].limit, ret);
        links += read != 0;
    }
    return links;
}

/* Interfaces with a device behind them; those of containers and bridges come and go. */
static unsigned look_at_interfaces(const struct dlr_health_env *env,
                                   struct dlr_health_result *ret)
{
    DLR_CLEANUP(globfree) glob_t dirs = {0};
    size_t n = dlr_health_glob(env, "/sys/class/net/*/device", &dirs);
    unsigned links = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t carrier, ups;
        char dir[256];

        if (dlr_format(dir, sizeof(dir), "%s", dlr_health_path(env, &dirs, i)) < 0)
            continue;
        *strrchr(dir, '/') = '\0';
        links += look(env, dlr_health_name(dir), dir, "carrier_down_count",
                      FLAPS_PER_DAY, ret);
        /* of an interface that is switched off the carrier cannot be read */
        if (dlr_health_read(env, &carrier, dir, "carrier") && carrier == 0 &&
            dlr_health_read(env, &ups, dir, "carrier_up_count") && ups)
            dlr_health_add(ret, DLR_HEALTH_WARN,
                           "%s has no carrier, and had one since boot",
                           dlr_health_name(dir));
    }
    return links;
}

/* Of one more link. */
static unsigned look_at_injected(const struct dlr_health_env *env,
                                 struct dlr_health_result *ret)
{
    unsigned links = 0;

    for (size_t c = 0; c < sizeof(counters) / sizeof(counters[0]); c++) {
        uint64_t value;

        if (!counters[c].key ||
            !dlr_health_injected_count(env, counters[c].key, &value))
            continue;
        judge(env, "a link", counters[c].file, value, counters[c].limit, ret);
        links = 1;
    }
    return links;
}

static void check(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    unsigned links = look_at_infiniband(env, ret);

    links += look_at_interfaces(env, ret);
    links += look_at_injected(env, ret);
    if (ret->reason[0])
        return;
    if (links)
        dlr_health_say(ret, DLR_HEALTH_OK,
                       "%u links, none with more errors than its limits", links);
    else
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no link whose errors are counted");
}

void dlr_health_links(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    dlr_health_device(env, ret, "network links", check);
}
