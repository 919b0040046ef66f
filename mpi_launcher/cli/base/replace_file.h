/* SPDX-License-Identifier: Apache-2.0 */
/* Puts a file in the place of another as a whole: nobody opens half of it. */
#ifndef DLR_MPI_LAUNCHER_CLI_BASE_REPLACE_FILE_H
#define DLR_MPI_LAUNCHER_CLI_BASE_REPLACE_FILE_H

#include <stdio.h>
#include <sys/types.h>

#include "common/base/err.h"

/* Writes what the file is to hold. -errno with text: it is not to be. */
typedef int (*dlr_cli_write_fn)(void *arg, FILE *out, struct dlr_err *err);

/* Writes to a file beside path, which then takes its name; left as it was when anything
 * fails. mode: exactly that, 0: as the umask has it. -errno with text, or what write
 * returns. Blocking: file system.
 */
int dlr_cli_replace_file(const char *path, mode_t mode, dlr_cli_write_fn write,
                         void *arg, struct dlr_err *err);

#endif
