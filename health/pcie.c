/* SPDX-License-Identifier: Apache-2.0 */
/* Width and speed of the PCIe links of network cards and GPUs, against what card and slot
 * can do (kernel: Documentation/ABI/testing/sysfs-bus-pci).
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/checks.h"

/* First byte of the class: PCI Code and ID Assignment Specification */
enum { NETWORK = 0x02, DISPLAY = 0x03, ACCELERATOR = 0x12 };

static unsigned class_of(const struct dlr_health_env *env, const char *dev)
{
    char text[32];

    return dlr_health_text(env, text, sizeof(text), "%s/class", dev)
               ? (unsigned)(strtoul(text, NULL, 16) >> 16)
               : 0;
}

/* "16", "16.0 GT/s PCIe"; 0: unknown, as of a virtual function. */
static double limit_of(const struct dlr_health_env *env, const char *dev,
                       const char *file)
{
    char text[64];
    double value;

    if (!dlr_health_text(env, text, sizeof(text), "%s/%s", dev, file))
        return 0;
    value = strtod(text, NULL);
    return value > 0 && value < 255 ? value : 0; /* 255 lanes: the device is gone */
}

/* What the card can do in this slot: its upstream port is the folder above. */
static double expected(const struct dlr_health_env *env, const char *dev,
                       const char *file)
{
    double own = limit_of(env, dev, file), slot;
    char above[PATH_MAX];

    if (dlr_format(above, sizeof(above), "%s/..", dev) < 0)
        return own;
    slot = limit_of(env, above, file);
    return slot > 0 && slot < own ? slot : own;
}

struct link {
    unsigned class;
    double width, speed; /* now */
    double wide, fast;   /* what it can */
};

static bool read_link(const struct dlr_health_env *env, const char *dev,
                      struct link *ret)
{
    struct link l = {.class = class_of(env, dev)};

    if (l.class != NETWORK && l.class != DISPLAY && l.class != ACCELERATOR)
        return false;
    l.width = limit_of(env, dev, "current_link_width");
    l.speed = limit_of(env, dev, "current_link_speed");
    l.wide = expected(env, dev, "max_link_width");
    l.fast = expected(env, dev, "max_link_speed");
    *ret = l;
    return l.width > 0 && l.wide > 0;
}

static void judge(const char *name, const struct link *l, struct dlr_health_result *ret)
{
    if (l->width < l->wide)
        dlr_health_add(ret, DLR_HEALTH_WARN, "%s has %.0f of %.0f PCIe lanes", name,
                       l->width, l->wide);
    else if (l->class == NETWORK && l->speed > 0 && l->speed < l->fast)
        dlr_health_add(ret, DLR_HEALTH_WARN, "%s runs at %.1f of %.1f GT/s", name,
                       l->speed, l->fast); /* idle GPUs go slower */
}

/* To the first link that it fits, else to one that is not there. */
static bool inject(const struct dlr_health_env *env, struct link *l)
{
    bool width = dlr_health_injected(env, "pcie.width", &l->width);
    bool speed =
        l->class == NETWORK && dlr_health_injected(env, "pcie.speed", &l->speed);

    return width || speed;
}

static void check(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    DLR_CLEANUP(globfree) glob_t devices = {0};
    size_t n = dlr_health_glob(env, "/sys/bus/pci/devices/*", &devices);
    struct link l, played = {NETWORK, 16, 32, 16, 32};
    bool injected = false;
    unsigned seen = 0;

    for (size_t i = 0; i < n; i++) {
        const char *dev = dlr_health_path(env, &devices, i);

        if (!read_link(env, dev, &l))
            continue;
        injected = injected || inject(env, &l);
        judge(dlr_health_name(dev), &l, ret);
        seen++;
    }
    if (!injected && inject(env, &played)) {
        judge("a card", &played, ret);
        seen++;
    }
    if (ret->reason[0])
        return;
    if (seen)
        dlr_health_say(ret, DLR_HEALTH_OK,
                       "%u network cards and GPUs have all their lanes", seen);
    else
        dlr_health_say(ret, DLR_HEALTH_SKIP, "no card whose PCIe link can be read");
}

void dlr_health_pcie(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    dlr_health_device(env, ret, "PCIe links", check);
}
