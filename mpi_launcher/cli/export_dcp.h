/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover ckpt export --to=dcp: the form of torch.distributed.checkpoint, which only
 * Python writes.
 */
#ifndef DLR_MPI_LAUNCHER_CLI_EXPORT_DCP_H
#define DLR_MPI_LAUNCHER_CLI_EXPORT_DCP_H

#include "common/base/err.h"

/* Becomes `python3 -m dlrover.export` (DLROVER_PYTHON names another interpreter), which
 * finds the package where the suite is installed or where PYTHONPATH says. step NULL:
 * the newest. Returns only on failure.
 */
int dlr_cli_dcp(const char *dir, const char *step, const char *output,
                struct dlr_err *err);

#endif
