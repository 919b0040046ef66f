/* SPDX-License-Identifier: Apache-2.0 */
/* Which cores, GPUs and NICs of a node its local ranks use: a pure function of what the
 * node has and of what the step may use of it. Local rank i takes the i-th GPU of those
 * that CUDA shows (programs say cuda:LOCAL_RANK), so cores follow GPUs, not the other
 * way. CUDA's order has to be that of PCI: CUDA_DEVICE_ORDER=PCI_BUS_ID, which is what
 * it is by itself among equal GPUs.
 */
#ifndef DLR_HWLOC_TOPO_BIND_H
#define DLR_HWLOC_TOPO_BIND_H

#include "common/base/err.h"
#include "hwloc_topo/machine.h"

struct dlr_bind_rank {
    struct dlr_topo_cpus own;  /* its cores, with all of their hardware threads */
    struct dlr_topo_cpus near; /* all of the step's in the NUMA nodes that own is in */
    unsigned cores;            /* of own */
    /* its GPU's where it has cores there, else the one with most of own, the lowest */
    unsigned numa;
    unsigned ngpus,
        gpus[DLR_MACHINE_GPUS]; /* indices into machine->gpu, its own first */
    unsigned nnics, nics[DLR_MACHINE_NICS]; /* into machine->nic, the nearest ones */
};

/* Divides usable and gpus (ngpus indices into m->gpu in CUDA's order; 0: none are known)
 * among n local ranks, n >= 1:
 *   - every usable core is one rank's, with all of its usable hardware threads; no two
 *     ranks' numbers of cores differ by more than 1
 *   - as many ranks as GPUs: rank i has gpus[i]. Fewer: rank i has a block of GPUs that
 *     follow each other. More: GPU i % ngpus is shared
 *   - a rank's cores are in a NUMA node of its first GPU as far as there are any for it,
 *     then in the same package, then anywhere; without GPUs ranks follow each other
 *   - NICs: those that are nearest to its first GPU (one PCIe switch, one NUMA node, one
 *     package, any), divided among the ranks that have the same nearest ones; without a
 *     GPU those of the rank's NUMA node, or all
 * The same arguments give the same result. ret has n elements. 0, -EDOM when there are
 * more ranks than usable cores, -ENOMEM; with text.
 */
int dlr_bind_plan(const struct dlr_machine *m, const struct dlr_topo_cpus *usable,
                  unsigned n, const unsigned *gpus, unsigned ngpus,
                  struct dlr_bind_rank *ret, struct dlr_err *err);

/* The order in which all ranks of a node should see its GPUs, so that the i-th is rank
 * i's first: first GPUs, then second ones, and so on. Returns how many.
 */
unsigned dlr_bind_gpu_order(const struct dlr_bind_rank *ranks, unsigned n,
                            unsigned ret[DLR_MACHINE_GPUS]);

#endif
