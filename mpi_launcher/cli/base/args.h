/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a subcommand: one table is what the parser takes and what help prints. */
#ifndef DLR_MPI_LAUNCHER_CLI_BASE_ARGS_H
#define DLR_MPI_LAUNCHER_CLI_BASE_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/base/err.h"

struct dlr_cli_opt {
    const char *name; /* "state-dir"; NULL ends the table */
    const char *arg;  /* how help names the argument; NULL: a flag */
    const char *help;
};

struct dlr_cli_cmd {
    const char *name;
    const char *words;   /* what may follow the options: "[JOB]", or "" */
    const char *summary; /* one sentence */
    const struct dlr_cli_opt *opts;
    const char *notes; /* lines below the options, or NULL */
};

/* Takes one option (name NULL: a word that is none). 0, or -errno with text. */
typedef int (*dlr_cli_set_fn)(void *arg, const char *name, const char *value,
                              struct dlr_err *err);

/* Calls set for each word behind argv[0]. True to go on; false when all is said: help
 * was printed (*ret_code DLR_CLI_OK) or a word was wrong (DLR_CLI_USAGE, one line on
 * stderr).
 */
bool dlr_cli_parse(const struct dlr_cli_cmd *cmd, int argc, char **argv,
                   dlr_cli_set_fn set, void *arg, int *ret_code);

#endif
