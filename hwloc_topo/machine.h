/* SPDX-License-Identifier: Apache-2.0 */
/* What a node has, as plain data: which CPU is of which core and NUMA node, its GPUs and
 * InfiniBand or RoCE ports, and what is near to what. It is read once by a process that
 * has hwloc and kept in a file, from which others, which have not, place ranks
 * (hwloc_topo/bind.h).
 */
#ifndef DLR_HWLOC_TOPO_MACHINE_H
#define DLR_HWLOC_TOPO_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "hwloc_topo/topo.h"

#define DLR_MACHINE_NUMA                                                               \
    64 /* NUMA nodes with CPUs; the CPUs of further ones count as of none */
#define DLR_MACHINE_GPUS 32
#define DLR_MACHINE_NICS 64

/* How near a NIC is to a GPU. */
enum dlr_machine_near {
    DLR_NEAR_NOT,     /* another package */
    DLR_NEAR_PACKAGE, /* the same one */
    DLR_NEAR_NUMA,    /* the same NUMA node */
    DLR_NEAR_SWITCH,  /* one PCIe switch above both */
};

struct dlr_machine_gpu {
    char bus[16];   /* "0000:1b:00.0" */
    uint32_t minor; /* of /dev/nvidiaN, by which Slurm numbers it */
    uint32_t pad;
    uint64_t numa; /* bit i: NUMA node i is local to it */
};

struct dlr_machine_nic {
    char name[32]; /* "mlx5_0" */
    uint32_t port; /* the first that is active */
    uint32_t pad;
    uint64_t numa;
};

/* Numbers of cores and NUMA nodes are hwloc's logical ones. */
struct dlr_machine {
    uint32_t magic, size; /* DLR_MACHINE_MAGIC, of this struct */
    uint32_t numas, cores, gpus, nics;
    uint16_t core[DLR_TOPO_CPUS]; /* 1 + the core that a CPU is of; 0: there is none */
    uint8_t numa[DLR_TOPO_CPUS];  /* of CPUs that are there */
    uint16_t package[DLR_MACHINE_NUMA];
    struct dlr_machine_gpu gpu[DLR_MACHINE_GPUS]; /* NVIDIA's, in the order of PCI */
    struct dlr_machine_nic nic[DLR_MACHINE_NICS]; /* with an active port */
    uint8_t near[DLR_MACHINE_GPUS][DLR_MACHINE_NICS]; /* enum dlr_machine_near */
};

#define DLR_MACHINE_MAGIC 0x4d524c44u /* "DLRM" */

/* Reads it from a topology that dlr_topo_load() has made; the numbers of /dev/nvidiaN
 * from the driver's files below root ("" on a node). What is beyond the limits above is
 * left out. A CPU is of the smallest NUMA node that it is local to; one without CPUs of
 * its own (memory of a GPU, CXL) is nobody's.
 */
void dlr_machine_describe(const struct dlr_topo *topo, const char *root,
                          struct dlr_machine *ret);

/* Whether bytes, size of them, are such a struct that may be used; -EBADMSG with text.
 * Foreign bytes: fuzz target machine.
 */
int dlr_machine_check(const void *bytes, size_t size, struct dlr_err *err);

/* Reads it from a file that a process of the same build has written: -EBADMSG, or
 * another -errno, with text. Foreign bytes: fuzz target machine.
 */
int dlr_machine_load(const char *path, struct dlr_machine *ret, struct dlr_err *err);
int dlr_machine_save(const struct dlr_machine *m, const char *path,
                     struct dlr_err *err);

#endif
