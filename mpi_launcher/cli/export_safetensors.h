/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover ckpt export --to=safetensors: each rank's file, readable by itself. */
#ifndef DLR_MPI_LAUNCHER_CLI_EXPORT_SAFETENSORS_H
#define DLR_MPI_LAUNCHER_CLI_EXPORT_SAFETENSORS_H

#include "ckpt/persist/slot_file.h"
#include "mpi_launcher/plan/plan.h"

/* Writes slot, whose every byte was compared with its checksum and which is files[i],
 * to directory output as rank-N.safetensors: with whole regions where it has a part of
 * what the ranks of its node kept between them. files are the n of its version, heads
 * what was read of them. Blocking.
 */
int dlr_cli_export(const struct dlr_plan_file *files, unsigned n, unsigned i,
                   const struct dlr_slot *slot, struct dlr_slot_file_heads *heads,
                   const char *output, struct dlr_err *err);

#endif
