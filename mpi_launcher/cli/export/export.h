/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover ckpt export: --to=safetensors, each rank's file, readable by itself; --to=dcp,
 * the form of torch.distributed.checkpoint, which only Python writes.
 */
#ifndef DLR_MPI_LAUNCHER_CLI_EXPORT_EXPORT_H
#define DLR_MPI_LAUNCHER_CLI_EXPORT_EXPORT_H

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

/* Becomes `python3 -m dlrover.export` (DLROVER_PYTHON names another interpreter), which
 * finds the package where the suite is installed or where PYTHONPATH says. step NULL:
 * the newest. Returns only on failure.
 */
int dlr_cli_dcp(const char *dir, const char *step, const char *output,
                struct dlr_err *err);

#endif
