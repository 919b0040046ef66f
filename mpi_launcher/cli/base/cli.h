/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of dlrover(1). Each gets its own words, argv[0] being the subcommand,
 * and returns the exit code of the program. Blocking.
 */
#ifndef DLR_MPI_LAUNCHER_CLI_BASE_CLI_H
#define DLR_MPI_LAUNCHER_CLI_BASE_CLI_H

#define DLR_CLI_OK 0
#define DLR_CLI_FAIL 1
#define DLR_CLI_USAGE 2

int dlr_cli_status(int argc, char **argv);
int dlr_cli_events(int argc, char **argv);
int dlr_cli_report(int argc, char **argv);
int dlr_cli_trace(int argc, char **argv);
int dlr_cli_evidence(int argc, char **argv);
int dlr_cli_check(int argc, char **argv);
int dlr_cli_ckpt(int argc, char **argv);
int dlr_cli_topo(int argc, char **argv);
int dlr_cli_doctor(int argc, char **argv);
int dlr_cli_simulate(int argc, char **argv);
int dlr_cli_stacks(int argc, char **argv);
int dlr_cli_classify(int argc, char **argv);

#endif
