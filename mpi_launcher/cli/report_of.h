/* SPDX-License-Identifier: Apache-2.0 */
/* A run's journal as a report: for report and trace. */
#ifndef DLR_MPI_LAUNCHER_CLI_REPORT_OF_H
#define DLR_MPI_LAUNCHER_CLI_REPORT_OF_H

#include <stdbool.h>

#include "common/base/err.h"
#include "mpi_launcher/cli/base/find_run.h"
#include "mpi_launcher/report/report.h"

/* traced: dlr_report_traced() was called before. *ret is the caller's. Blocking: file
 * system.
 */
int dlr_cli_report_of(const struct dlr_cli_run *run, bool traced,
                      struct dlr_report **ret, struct dlr_err *err);

#endif
