/* SPDX-License-Identifier: Apache-2.0 */
/* What a driver says of a node's GPUs, and how the process that asks it (dlrover-gpu)
 * tells who has started it: lines "KEY VALUE". "gpu N" begins a GPU, before it is asked
 * anything, so that whoever waits knows at which one the driver has stopped; "end" is
 * the last line.
 */
#ifndef DLR_DEVICE_GPU_FACTS_H
#define DLR_DEVICE_GPU_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DLR_GPU_MAX 64       /* of a node; more are not looked at */
#define DLR_GPU_PROCESSES 16 /* of a GPU */
#define DLR_GPU_UNKNOWN INT64_C(-1)

/* Numbers of a GPU; DLR_GPU_UNKNOWN where the driver does not say. */
#define DLR_GPU_NUMBERS(X)                                                             \
    X(error)          /* nvmlReturn_t of asking for it at all, 0: it answers */        \
    X(minor)          /* N of /dev/nvidiaN */                                          \
    X(mig)            /* 1: cut into instances (MIG) */                                \
    X(recovery)       /* nvmlDeviceGpuRecoveryAction_t: 0 none */                      \
    X(ecc)            /* uncorrected memory errors since the driver was loaded */      \
    X(retire_pending) /* 1: pages are retired at the next reset */                     \
    X(remap_pending)  /* 1: rows are remapped at the next reset */                     \
    X(remap_failed)   /* 1: there was no row left */                                   \
    X(clocks)         /* bits: why the clocks are low (nvmlClocksEventReason...) */    \
    X(links)          /* NVLinks that it has */                                        \
    X(links_up)       /* of them active */                                             \
    X(width)          /* PCIe lanes in use */                                          \
    X(width_max)      /* PCIe lanes of GPU and slot */                                 \
    X(generation_max) /* PCIe generation of GPU and slot */                            \
    X(used)           /* bytes of memory in use, without what the driver reserves */   \
    X(total)          /* bytes */                                                      \
    X(fabric)         /* nvmlGpuFabricState_t: 3 completed */                          \
    X(fabric_status)  /* nvmlReturn_t of joining the fabric */                         \
    X(clique)         /* within the fabric */                                          \
    X(to_device)      /* measured: MB/s of a copy from pinned memory */                \
    X(to_host)        /* measured: MB/s of a copy to it */                             \
    X(multiply)       /* measured: Gflop/s of a matrix multiply in f32 */              \
    X(wrong)          /* of its results that were looked at */

struct dlr_gpu {
    char bus[32];     /* PCI address as the driver writes it: "00000000:1B:00.0" */
    char name[64];    /* of the model, '_' for ' ' */
    char cluster[40]; /* NVLink fabric: 32 hex digits; "" none */
#define DLR_GPU_MEMBER(key) int64_t key;
    DLR_GPU_NUMBERS(DLR_GPU_MEMBER)
    struct dlr_gpu_process {
        int64_t pid; /* as the node's first namespace counts */
        int64_t bytes;
    } processes[DLR_GPU_PROCESSES];
    unsigned nprocesses;
};

struct dlr_gpu_facts {
    bool library;    /* libnvidia-ml is there */
    bool ended;      /* all was said */
    int64_t error;   /* nvmlReturn_t of nvmlInit() and of counting, 0: it answers */
    char driver[32]; /* its version; "" unknown */
    char lacks[64];  /* a function that every release has, and this library has not */
    struct dlr_gpu gpus[DLR_GPU_MAX];
    unsigned ngpus;
};

void dlr_gpu_facts_init(struct dlr_gpu_facts *facts);

/* Takes one line (no newline at its end); what is malformed, or of a later release, is
 * passed over. False for that. Foreign bytes: fuzz target gpu.
 */
bool dlr_gpu_facts_line(struct dlr_gpu_facts *facts, const char *line);

/* What a nvmlReturn_t means: "the GPU has fallen off the bus". */
const char *dlr_nvml_text(int64_t code);

/* nvmlReturn_t (nvml.h), as far as somebody decides by it. */
enum {
    DLR_NVML_NOT_SUPPORTED = 3,
    DLR_NVML_NO_PERMISSION = 4,
    DLR_NVML_DRIVER_NOT_LOADED = 9,
    DLR_NVML_GPU_IS_LOST = 15,
    DLR_NVML_RESET_REQUIRED = 16,
    DLR_NVML_VERSION_MISMATCH = 18,
};

#endif
