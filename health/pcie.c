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

static bool look(const struct dlr_health_env *env, const char *dev,
                 struct dlr_health_result *ret)
{
    unsigned class = class_of(env, dev);
    double width = limit_of(env, dev, "current_link_width"),
           speed = limit_of(env, dev, "current_link_speed");
    double wide, fast;

    if (class != NETWORK && class != DISPLAY && class != ACCELERATOR)
        return false;
    wide = expected(env, dev, "max_link_width");
    fast = expected(env, dev, "max_link_speed");
    if (width <= 0 || wide <= 0)
        return false;
    if (width < wide)
        dlr_health_add(ret, DLR_HEALTH_WARN, "%s has %.0f of %.0f PCIe lanes",
                       dlr_health_name(dev), width, wide);
    else if (class == NETWORK && speed > 0 && speed < fast) /* idle GPUs go slower */
        dlr_health_add(ret, DLR_HEALTH_WARN, "%s runs at %.1f of %.1f GT/s",
                       dlr_health_name(dev), speed, fast);
    return true;
}

static void check(const struct dlr_health_env *env, struct dlr_health_result *ret)
{
    DLR_CLEANUP(globfree) glob_t devices = {0};
    size_t n = dlr_health_glob(env, "/sys/bus/pci/devices/*", &devices);
    unsigned seen = 0;

    for (size_t i = 0; i < n; i++)
        seen += look(env, dlr_health_path(env, &devices, i), ret);
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
