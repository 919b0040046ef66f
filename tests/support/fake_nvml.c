/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for NVIDIA's libnvidia-ml.so.1, told what to be by FAKE_NVML, words with
 * commas between: gpus=N; init=RC; slow=MS for each GPU; hang=N and crash=N when GPU N
 * is asked for; N.KEY=VALUE what GPU N says, with the keys of device/gpu_facts.h, "no"
 * for not supported. Else, and for other nodes than FAKE_NVML_NODE where that is set,
 * its GPUs are H100s that are well.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOT_SUPPORTED 3
#define GIB (1ull << 30)

typedef struct nvml_device *device;

struct pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

struct field {
    unsigned id, scope;
    long long time, latency;
    int type, rc;
    union {
        unsigned u;
        unsigned long long ull;
    } value;
};

struct fabric {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
};

int nvmlInit_v2(void);
int nvmlDeviceGetCount_v2(unsigned *ret);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *ret);
#ifndef FAKE_NVML_FEW
int nvmlSystemGetDriverVersion(char *ret, unsigned size);
int nvmlDeviceGetMinorNumber(device gpu, unsigned *ret);
int nvmlDeviceGetName(device gpu, char *ret, unsigned size);
int nvmlDeviceGetPciInfo_v3(device gpu, struct pci *ret);
int nvmlDeviceGetMigMode(device gpu, unsigned *ret, unsigned *ret_pending);
int nvmlDeviceGetTotalEccErrors(device gpu, int type, int counter,
                                unsigned long long *ret);
int nvmlDeviceGetRetiredPagesPendingStatus(device gpu, unsigned *ret);
int nvmlDeviceGetRemappedRows(device gpu, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed);
int nvmlDeviceGetFieldValues(device gpu, int n, struct field *fields);
int nvmlDeviceGetCurrentClocksThrottleReasons(device gpu, unsigned long long *ret);
int nvmlDeviceGetNvLinkState(device gpu, unsigned link, unsigned *ret);
int nvmlDeviceGetCurrPcieLinkWidth(device gpu, unsigned *ret);
int nvmlDeviceGetMaxPcieLinkWidth(device gpu, unsigned *ret);
int nvmlDeviceGetMaxPcieLinkGeneration(device gpu, unsigned *ret);
int nvmlDeviceGetMemoryInfo_v2(device gpu, struct memory_v2 *ret);
int nvmlDeviceGetComputeRunningProcesses_v3(device gpu, unsigned *n,
                                            struct process *ret);
int nvmlDeviceGetGpuFabricInfoV(device gpu, struct fabric *ret);
#endif

/* What follows "KEY=" or "N.KEY=" in FAKE_NVML; NULL when it is not there. */
static const char *said(int gpu, const char *key)
{
    const char *only = getenv("FAKE_NVML_NODE"), *here = getenv("SLURMD_NODENAME");
    bool ill = gpu < 0 || !only || (here && strcmp(only, here) == 0);
    const char *at = ill ? getenv("FAKE_NVML") : NULL;
    char want[64];
    int n = gpu < 0 ? snprintf(want, sizeof(want), "%s=", key)
                    : snprintf(want, sizeof(want), "%d.%s=", gpu, key);

    for (; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, want, (size_t)n) == 0)
            return at + n;
    return NULL;
}

static unsigned long long number(int gpu, const char *key, unsigned long long usual)
{
    const char *text = said(gpu, key);

    return text ? strtoull(text, NULL, 10) : usual;
}

int nvmlInit_v2(void)
{
    return (int)number(-1, "init", 0);
}

int nvmlDeviceGetCount_v2(unsigned *ret)
{
    *ret = (unsigned)number(-1, "gpus", 2);
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *ret)
{
    usleep((unsigned)number(-1, "slow", 0) * 1000);
    if (number(-1, "hang", ~0u) == index)
        for (;;)
            pause();
    if (number(-1, "crash", ~0u) == index)
        abort(); /* a sanitizer would make another end of a bad access */
    *ret = (device)(uintptr_t)(index + 1);
    return (int)number((int)index, "error", 0);
}

#ifndef FAKE_NVML_FEW
static int gpu_of(device gpu)
{
    return (int)(uintptr_t)gpu - 1;
}

/* usual < 0: this GPU does not support it, unless FAKE_NVML says a number. */
static int tell(device gpu, const char *key, long long usual, unsigned *ret)
{
    const char *text = said(gpu_of(gpu), key);

    if ((!text && usual < 0) || (text && strncmp(text, "no", 2) == 0))
        return NOT_SUPPORTED;
    *ret = (unsigned)number(gpu_of(gpu), key, (unsigned long long)usual);
    return 0;
}

int nvmlSystemGetDriverVersion(char *ret, unsigned size)
{
    snprintf(ret, size, "550.54.15");
    return 0;
}

int nvmlDeviceGetMinorNumber(device gpu, unsigned *ret)
{
    return tell(gpu, "minor", gpu_of(gpu), ret);
}

int nvmlDeviceGetName(device gpu, char *ret, unsigned size)
{
    snprintf(ret, size, "NVIDIA H100 80GB HBM3");
    return 0;
}

int nvmlDeviceGetPciInfo_v3(device gpu, struct pci *ret)
{
    ret->bus = 0x1b + (unsigned)gpu_of(gpu);
    snprintf(ret->bus_id, sizeof(ret->bus_id), "00000000:%02X:00.0", ret->bus);
    return 0;
}

int nvmlDeviceGetMigMode(device gpu, unsigned *ret, unsigned *ret_pending)
{
    *ret_pending = 0;
    return tell(gpu, "mig", 0, ret);
}

int nvmlDeviceGetTotalEccErrors(device gpu, int type, int counter,
                                unsigned long long *ret)
{
    unsigned n = 0;
    int rc = tell(gpu, "ecc", 0, &n);

    *ret = n;
    return rc;
}

int nvmlDeviceGetRetiredPagesPendingStatus(device gpu, unsigned *ret)
{
    return tell(gpu, "retire_pending", -1, ret);
}

int nvmlDeviceGetRemappedRows(device gpu, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed)
{
    int rc = tell(gpu, "remap_pending", 0, pending);

    *corrected = *uncorrected = 0;
    return rc ? rc : tell(gpu, "remap_failed", 0, failed);
}

int nvmlDeviceGetFieldValues(device gpu, int n, struct field *fields)
{
    for (int i = 0; i < n; i++)
        fields[i].rc = fields[i].id == 230
                           ? tell(gpu, "recovery", 0, &fields[i].value.u)
                           : NOT_SUPPORTED;
    return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device gpu, unsigned long long *ret)
{
    unsigned n = 0;
    int rc = tell(gpu, "clocks", 1, &n);

    *ret = n;
    return rc;
}

int nvmlDeviceGetNvLinkState(device gpu, unsigned link, unsigned *ret)
{
    unsigned links = 0, up = 0;
    int rc = tell(gpu, "links", 18, &links);

    if (rc || link >= links)
        return rc ? rc : 2;
    tell(gpu, "links_up", links, &up);
    *ret = link < up;
    return 0;
}

int nvmlDeviceGetCurrPcieLinkWidth(device gpu, unsigned *ret)
{
    return tell(gpu, "width", 16, ret);
}

int nvmlDeviceGetMaxPcieLinkWidth(device gpu, unsigned *ret)
{
    return tell(gpu, "width_max", 16, ret);
}

int nvmlDeviceGetMaxPcieLinkGeneration(device gpu, unsigned *ret)
{
    return tell(gpu, "generation_max", 5, ret);
}

int nvmlDeviceGetMemoryInfo_v2(device gpu, struct memory_v2 *ret)
{
    if (ret->version != (sizeof(*ret) | 2u << 24))
        return 25; /* NVML_ERROR_ARGUMENT_VERSION_MISMATCH */
    ret->total = number(gpu_of(gpu), "total", 80 * GIB);
    ret->used = number(gpu_of(gpu), "used", GIB / 2);
    return 0;
}

/* process=PID */
int nvmlDeviceGetComputeRunningProcesses_v3(device gpu, unsigned *n,
                                            struct process *ret)
{
    const char *text = said(gpu_of(gpu), "process");

    *n = text ? 1 : 0;
    if (text) {
        ret[0].pid = (unsigned)strtoul(text, NULL, 10);
        ret[0].bytes = 3 * GIB;
    }
    return 0;
}

int nvmlDeviceGetGpuFabricInfoV(device gpu, struct fabric *ret)
{
    unsigned state = 0, status = 0;
    int rc = tell(gpu, "fabric", 3, &state);

    if (ret->version != (sizeof(*ret) | 2u << 24))
        return 25;
    tell(gpu, "fabric_status", 0, &status);
    ret->state = (unsigned char)state;
    ret->status = (int)status;
    tell(gpu, "clique", 7, &ret->clique);
    if (number(-1, "cluster", 0))
        memset(ret->cluster, 0xab, sizeof(ret->cluster));
    return rc;
}
#endif
