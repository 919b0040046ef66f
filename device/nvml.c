/* SPDX-License-Identifier: Apache-2.0 */
/* Types and numbers are those of nvml.h (NVML API Reference Guide; the interface keeps
 * them: what changes gets another function or another version number): so the build
 * needs no header of NVIDIA's. A function that a release has not, and one that a GPU
 * does not support, is a line less.
 */
#include "device/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "device/gpu_facts.h"

#define LIBRARY "libnvidia-ml.so.1"
#define UNCORRECTED 1         /* nvmlMemoryErrorType_t */
#define VOLATILE 0            /* nvmlEccCounterType_t: since the driver was loaded */
#define RECOVERY_ACTION 230u  /* NVML_FI_DEV_GET_GPU_RECOVERY_ACTION */
#define MEMORY_V2 0x02000028u /* nvmlMemory_v2 */
#define FABRIC_V2 0x02000024u /* nvmlGpuFabricInfo_v2 */
#define LINKS_MAX 36u         /* NVML_NVLINK_MAX_LINKS */

typedef struct nvml_device *nvml_device;

struct nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct nvml_memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

struct nvml_field {
    unsigned id, scope;
    long long time, latency;
    int type, rc;
    union {
        double d;
        unsigned u;
        unsigned long long ull;
    } value;
};

struct nvml_fabric_v2 {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
};

_Static_assert(sizeof(struct nvml_memory_v2) == (MEMORY_V2 & 0xffff),
               "nvmlMemory_v2_t");
_Static_assert(sizeof(struct nvml_fabric_v2) == (FABRIC_V2 & 0xffff),
               "nvmlGpuFabricInfo_v2_t");
_Static_assert(sizeof(struct nvml_field) == 40, "nvmlFieldValue_t");
_Static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_v2_t");

/* Every release since R450 has these ... */
#define NEEDED(X)                                                                      \
    X(nvmlInit_v2, (void))                                                             \
    X(nvmlDeviceGetCount_v2, (unsigned *ret))                                          \
    X(nvmlDeviceGetHandleByIndex_v2, (unsigned index, nvml_device *ret))
/* ... and some have these. */
#define WANTED(X)                                                                      \
    X(nvmlSystemGetDriverVersion, (char *ret, unsigned size))                          \
    X(nvmlDeviceGetMinorNumber, (nvml_device, unsigned *ret))                          \
    X(nvmlDeviceGetName, (nvml_device, char *ret, unsigned size))                      \
    X(nvmlDeviceGetPciInfo_v3, (nvml_device, struct nvml_pci * ret))                   \
    X(nvmlDeviceGetMigMode, (nvml_device, unsigned *ret, unsigned *ret_pending))       \
    X(nvmlDeviceGetTotalEccErrors,                                                     \
      (nvml_device, int type, int counter, unsigned long long *ret))                   \
    X(nvmlDeviceGetRetiredPagesPendingStatus, (nvml_device, unsigned *ret))            \
    X(nvmlDeviceGetRemappedRows,                                                       \
      (nvml_device, unsigned *ret_corrected, unsigned *ret_uncorrected,                \
       unsigned *ret_pending, unsigned *ret_failed))                                   \
    X(nvmlDeviceGetFieldValues, (nvml_device, int n, struct nvml_field *))             \
    X(nvmlDeviceGetCurrentClocksEventReasons, (nvml_device, unsigned long long *ret))  \
    X(nvmlDeviceGetCurrentClocksThrottleReasons,                                       \
      (nvml_device, unsigned long long *ret))                                          \
    X(nvmlDeviceGetNvLinkState, (nvml_device, unsigned link, unsigned *ret))           \
    X(nvmlDeviceGetCurrPcieLinkWidth, (nvml_device, unsigned *ret))                    \
    X(nvmlDeviceGetMaxPcieLinkWidth, (nvml_device, unsigned *ret))                     \
    X(nvmlDeviceGetMaxPcieLinkGeneration, (nvml_device, unsigned *ret))                \
    X(nvmlDeviceGetMemoryInfo_v2, (nvml_device, struct nvml_memory_v2 * ret))          \
    X(nvmlDeviceGetMemoryInfo, (nvml_device, struct nvml_memory * ret))                \
    X(nvmlDeviceGetComputeRunningProcesses_v3,                                         \
      (nvml_device, unsigned *n, struct nvml_process *ret))                            \
    X(nvmlDeviceGetComputeRunningProcesses_v2,                                         \
      (nvml_device, unsigned *n, struct nvml_process *ret))                            \
    X(nvmlDeviceGetGpuFabricInfoV, (nvml_device, struct nvml_fabric_v2 * ret))

#define POINTER(name, arguments) int(*name) arguments;

struct nvml {
    NEEDED(POINTER)
    WANTED(POINTER)
};

/* What the library lacks of the functions that it must have, else NULL. */
static const char *load(void *lib, struct nvml *nvml)
{
    const char *lacks = NULL;

#define LOAD(name, arguments) nvml->name = (__typeof__(nvml->name))dlsym(lib, #name);
#define NEED(name, arguments) lacks = nvml->name ? lacks : #name;
    NEEDED(LOAD)
    WANTED(LOAD)
    NEEDED(NEED)
    return lacks;
}

/* Whether the library has the function and it has said something. */
#define ASK(name, ...) (nvml->name && nvml->name(__VA_ARGS__) == 0)

static void tell(FILE *out, const char *key, unsigned long long value)
{
    fprintf(out, "%s %llu\n", key, value);
}

static void tell_text(FILE *out, const char *key, char *text)
{
    for (char *c = text; *c; c++)
        if (*c <= ' ' || *c > '~')
            *c = '_';
    fprintf(out, "%s %s\n", key, text);
}

static void tell_place(const struct nvml *nvml, nvml_device gpu, FILE *out)
{
    char name[96] = "";
    struct nvml_pci pci = {0};
    unsigned n, pending;

    if (ASK(nvmlDeviceGetMinorNumber, gpu, &n))
        tell(out, "minor", n);
    if (ASK(nvmlDeviceGetPciInfo_v3, gpu, &pci))
        tell_text(out, "bus", pci.bus_id);
    if (ASK(nvmlDeviceGetName, gpu, name, sizeof(name) - 1))
        tell_text(out, "name", name);
    if (ASK(nvmlDeviceGetMigMode, gpu, &n, &pending))
        tell(out, "mig", n);
}

static void tell_memory(const struct nvml *nvml, nvml_device gpu, FILE *out)
{
    struct nvml_field action = {.id = RECOVERY_ACTION};
    unsigned corrected, uncorrected, pending, failed;
    struct nvml_memory_v2 m = {.version = MEMORY_V2};
    struct nvml_memory old;
    unsigned long long n;

    if (ASK(nvmlDeviceGetFieldValues, gpu, 1, &action) && action.rc == 0)
        tell(out, "recovery", action.value.u);
    if (ASK(nvmlDeviceGetTotalEccErrors, gpu, UNCORRECTED, VOLATILE, &n))
        tell(out, "ecc", n);
    if (ASK(nvmlDeviceGetRetiredPagesPendingStatus, gpu, &pending))
        tell(out, "retire_pending", pending);
    if (ASK(nvmlDeviceGetRemappedRows, gpu, &corrected, &uncorrected, &pending,
            &failed)) {
        tell(out, "remap_pending", pending);
        tell(out, "remap_failed", failed);
    }
    if (ASK(nvmlDeviceGetMemoryInfo_v2, gpu, &m)) {
        tell(out, "used", m.used);
        tell(out, "total", m.total);
    } else if (ASK(nvmlDeviceGetMemoryInfo, gpu, &old)) {
        tell(out, "used", old.used);
        tell(out, "total", old.total);
    }
}

static void tell_clocks(const struct nvml *nvml, nvml_device gpu, FILE *out)
{
    unsigned long long reasons;

    if (ASK(nvmlDeviceGetCurrentClocksEventReasons, gpu, &reasons) ||
        ASK(nvmlDeviceGetCurrentClocksThrottleReasons, gpu, &reasons))
        tell(out, "clocks", reasons);
}

static void tell_fabric(const struct nvml *nvml, nvml_device gpu, FILE *out)
{
    struct nvml_fabric_v2 f = {.version = FABRIC_V2};
    static const unsigned char none[sizeof(f.cluster)];

    if (!ASK(nvmlDeviceGetGpuFabricInfoV, gpu, &f))
        return;
    tell(out, "fabric", f.state);
    tell(out, "fabric_status", (unsigned)f.status);
    tell(out, "clique", f.clique);
    if (memcmp(f.cluster, none, sizeof(none)) == 0)
        return;
    fputs("cluster ", out);
    for (size_t i = 0; i < sizeof(f.cluster); i++)
        fprintf(out, "%02x", f.cluster[i]);
    fputc('\n', out);
}

/* A GPU has links 0 to n - 1; beyond them, and without any, the call fails. */
static void tell_links(const struct nvml *nvml, nvml_device gpu, FILE *out)
{
    unsigned n = 0, up = 0, state, width;

    while (n < LINKS_MAX && ASK(nvmlDeviceGetNvLinkState, gpu, n, &state)) {
        n++;
        up += state == 1;
    }
    if (n) {
        tell(out, "links", n);
        tell(out, "links_up", up);
    }
    if (ASK(nvmlDeviceGetCurrPcieLinkWidth, gpu, &width))
        tell(out, "width", width);
    if (ASK(nvmlDeviceGetMaxPcieLinkWidth, gpu, &width))
        tell(out, "width_max", width);
    if (ASK(nvmlDeviceGetMaxPcieLinkGeneration, gpu, &width))
        tell(out, "generation_max", width);
    tell_fabric(nvml, gpu, out);
}

static void tell_processes(const struct nvml *nvml, nvml_device gpu, FILE *out)
{
    struct nvml_process list[DLR_GPU_PROCESSES];
    unsigned n = DLR_GPU_PROCESSES;

    if (!ASK(nvmlDeviceGetComputeRunningProcesses_v3, gpu, &n, list)) {
        n = DLR_GPU_PROCESSES;
        if (!ASK(nvmlDeviceGetComputeRunningProcesses_v2, gpu, &n, list))
            return;
    }
    for (unsigned i = 0; i < n && i < DLR_GPU_PROCESSES; i++)
        fprintf(out, "process %u %lld\n", list[i].pid,
                list[i].bytes == ~0ULL ? 0 : (long long)list[i].bytes);
}

static void tell_gpu(const struct nvml *nvml, unsigned index, FILE *out)
{
    nvml_device gpu = NULL;
    int rc;

    tell(out, "gpu", index);
    rc = nvml->nvmlDeviceGetHandleByIndex_v2(index, &gpu);
    tell(out, "error", (unsigned)rc);
    if (rc != 0)
        return;
    tell_place(nvml, gpu, out);
    tell_memory(nvml, gpu, out);
    tell_clocks(nvml, gpu, out);
    tell_links(nvml, gpu, out);
    tell_processes(nvml, gpu, out);
}

int dlr_nvml_tell(FILE *out)
{
    void *lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    char version[81] = "";
    struct nvml table = {0}, *nvml = &table;
    const char *lacks;
    unsigned n = 0;
    int rc;

    if (!lib)
        return 0;
    fputs("library " LIBRARY "\n", out);
    lacks = load(lib, nvml);
    if (lacks) {
        fprintf(out, "lacks %s\n", lacks);
        return 0;
    }
    rc = nvml->nvmlInit_v2();
    if (rc == 0 && ASK(nvmlSystemGetDriverVersion, version, sizeof(version) - 1))
        tell_text(out, "driver", version);
    if (rc == 0)
        rc = nvml->nvmlDeviceGetCount_v2(&n);
    tell(out, "init", (unsigned)rc);
    for (unsigned i = 0; rc == 0 && i < n && i < DLR_GPU_MAX; i++)
        tell_gpu(nvml, i, out);
    return ferror(out) ? -EIO : 0;
}
