/* SPDX-License-Identifier: Apache-2.0 */
/* dlrover chunk. Returns the exit code of the program. */
#ifndef DLR_MPI_LAUNCHER_CLI_CHUNK_CHUNK_H
#define DLR_MPI_LAUNCHER_CLI_CHUNK_CHUNK_H

int dlr_cli_chunk(int argc, char **argv);

#endif
