/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs, memory and GPUs of the node against what Slurm counts on. */
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/checks.h"

static void look_at_cpus(const struct dlr_health_env *env,
                         struct dlr_health_result *ret)
{
    unsigned online = dlr_health_cpus(env, "online"),
             offline = dlr_health_cpus(env, "offline");
    uint64_t left;

    if (dlr_health_injected_count(env, "inventory.cpus", &left) && left < online) {
        offline += online - (unsigned)left;
        online = (unsigned)left;
    }
    if (!env->slurm_cpus || !(online + offline) || online >= env->slurm_cpus)
        return;
    /* Without one that is offline the node never had them: Slurm drains it itself, or
     * was told not to care (SlurmdParameters=config_overrides).
     */
    dlr_health_add(ret, offline ? DLR_HEALTH_DRAIN : DLR_HEALTH_WARN,
                   "%u CPUs are online, %u offline, Slurm counts on %u", online,
                   offline, env->slurm_cpus);
}

static void look_at_memory(const struct dlr_health_env *env,
                           struct dlr_health_result *ret)
{
    DLR_AUTO_FREE char *text = dlr_health_load(env, "/proc/meminfo");
    uint64_t total = UINT64_MAX;

    if (text)
        dlr_health_meminfo(text, "MemTotal:", &total);
    dlr_health_injected_count(env, "inventory.memory", &total);
    if (total < env->slurm_memory_bytes)
        dlr_health_add(ret, DLR_HEALTH_WARN,
                       "%" PRIu64 " MiB of memory, Slurm counts on %" PRIu64,
                       total >> 20, env->slurm_memory_bytes >> 20);
}

/* Display controllers of NVIDIA, AMD and Intel; not those that servers draw consoles
 * with (ASPEED, Matrox).
 */
static bool is_gpu(const struct dlr_health_env *env, const char *device)
{
    static const char *const vendors[] = {"0x10de", "0x1002", "0x8086"};
    char class[32], vendor[32];

    if (!dlr_health_text(env, class, sizeof(class), "%s/class", device) ||
        !dlr_health_text(env, vendor, sizeof(vendor), "%s/vendor", device) ||
        (!dlr_after(class, "0x03") && !dlr_after(class, "0x12")))
        return false;
    for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++)
        if (dlr_streq(vendor, vendors[i]))
            return true;
    return false;
}

static bool there(const struct dlr_health_env *env, const char *pattern)
{
    DLR_CLEANUP(globfree) glob_t paths = {0};

    return dlr_health_glob(env, pattern, &paths) != 0;
}

/* A node without any driver has GPUs that Slurm only counts; parts of a GPU (MIG) cannot
 * be told from whole ones by their number.
 */
static void look_at_gpus(const struct dlr_health_env *env,
                         struct dlr_health_result *ret)
{
    DLR_CLEANUP(globfree) glob_t devices = {0};
    size_t n = dlr_health_glob(env, "/sys/bus/pci/devices/*", &devices);
    uint64_t gpus = 0;
    bool injected = dlr_health_injected_count(env, "inventory.gpus", &gpus);

    if (!injected &&
        (!env->slurm_gpus || !there(env, "/sys/module/{nvidia,amdgpu,xe,i915}") ||
         there(env, "/proc/driver/nvidia/capabilities/gpu*/mig/gi*")))
        return;
    for (size_t i = 0; !injected && i < n; i++)
        gpus += is_gpu(env, dlr_health_path(env, &devices, i));
    if (gpus < env->slurm_gpus)
        dlr_health_add(ret, DLR_HEALTH_DRAIN,
                       "%" PRIu64 " GPUs are on the PCI bus, Slurm counts on %u", gpus,
                       env->slurm_gpus);
}

void dlr_health_inventory(const struct dlr_health_env *env,
                          struct dlr_health_result *ret)
{
    if (!env->slurm_cpus && !env->slurm_memory_bytes && !env->slurm_gpus) {
        dlr_health_say(ret, DLR_HEALTH_SKIP, "what Slurm counts on is not known");
        return;
    }
    look_at_cpus(env, ret);
    look_at_memory(env, ret);
    look_at_gpus(env, ret);
    if (!ret->reason[0])
        dlr_health_say(ret, DLR_HEALTH_OK,
                       "Slurm counts on %u CPUs, %" PRIu64 " MiB and %u GPUs",
                       env->slurm_cpus, env->slurm_memory_bytes >> 20, env->slurm_gpus);
}

static unsigned number_of(const char *name)
{
    const char *text = getenv(name);
    uint64_t value;

    return text && dlr_health_number(text, &value) && value <= UINT32_MAX
               ? (unsigned)value
               : 0;
}

void dlr_health_env_slurm(struct dlr_health_env *env)
{
    env->slurm_cpus = number_of("SLURM_CPUS_ON_NODE");
    env->slurm_memory_bytes = (uint64_t)number_of("SLURM_MEM_PER_NODE") << 20;
    env->slurm_gpus = number_of("SLURM_GPUS_ON_NODE");
}
