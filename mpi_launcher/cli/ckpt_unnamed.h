/* SPDX-License-Identifier: Apache-2.0 */
/* Versions in a directory without manifests, as a program without a job leaves them: a
 * version is its ranks' files, known by their names.
 */
#ifndef DLR_MPI_LAUNCHER_CLI_CKPT_UNNAMED_H
#define DLR_MPI_LAUNCHER_CLI_CKPT_UNNAMED_H

#include "mpi_launcher/plan/plan.h"

/* As dlr_persist_load(): each version with an entry for each rank that made it, whether
 * its file is there or not; one that is not, or whose head cannot be read, has a slice
 * that lies beyond its end. -ENOENT: there is no such file. Reads heads. Blocking.
 */
int dlr_cli_named_load(const char *dir, struct dlr_plan_file **ret_files,
                       unsigned *ret_n, struct dlr_err *err);

/* Of files[n] of one version, how many are not there: then it is not whole, which is
 * common where a program was killed between its ranks' writes, and it is not restored.
 */
unsigned dlr_cli_named_absent(const struct dlr_plan_file *files, unsigned n);

/* How many such files dir has; 0, too, when it cannot be read. */
unsigned dlr_cli_named_count(const char *dir);

#endif
