/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover metrics. Returns the exit code of the program. Blocking. */
#ifndef DLR_MPI_LAUNCHER_CLI_METRICS_METRICS_H
#define DLR_MPI_LAUNCHER_CLI_METRICS_METRICS_H

int dlr_cli_metrics(int argc, char **argv);

#endif
