/* SPDX-License-Identifier: Apache-2.0 */
/* A network as Slurm describes it. Private. */
#ifndef DLR_HWLOC_TOPO_SLURM_TEXT_H
#define DLR_HWLOC_TOPO_SLURM_TEXT_H

#include "hwloc_topo/placing.h"

/* Lines of topology.conf or of `scontrol show topology`; the text is changed. */
int dlr_topo_slurm_place(char *text, struct dlr_topo_placing *p, struct dlr_err *err);
int dlr_topo_slurm_names(char *text, dlr_topo_name_fn fn, void *arg,
                         struct dlr_err *err);

#endif
