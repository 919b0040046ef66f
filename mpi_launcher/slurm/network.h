/* SPDX-License-Identifier: Apache-2.0 */
/* The switches above a job's nodes, from what this host can be asked: the one tree that
 * the batch script's view and the rank map are made of.
 */
#ifndef DLR_MPI_LAUNCHER_SLURM_NETWORK_H
#define DLR_MPI_LAUNCHER_SLURM_NETWORK_H

#include <stdio.h>

#include "hwloc_topo/networks.h"

struct dlr_network {
    const char *source; /* file, "Slurm", or NULL: none has a switch for these nodes */
    char note[DLR_TOPO_NOTE]; /* as dlr_topo_paths_from_sources() has it; "" nothing */
};

/* Fills the paths of nodes from file (a description as dlr_topo_paths_from_text() reads
 * it, "" none), else from `scontrol show topology`. What cannot be read is in the note.
 * Blocking without a limit of its own: asks a file system and slurmctld. 0 or -ENOMEM.
 */
int dlr_network_paths(const char *file, struct dlr_topo_node *nodes, unsigned n,
                      struct dlr_network *ret);

/* One line for the source ("-" none), one for the note, then, of a source, "NAME PATH"
 * of each node.
 */
void dlr_network_write(const struct dlr_network *network,
                       const struct dlr_topo_node *nodes, unsigned n, FILE *out);

#endif
