/* SPDX-License-Identifier: Apache-2.0 */
/* A progress bar on a terminal's standard error; elsewhere nothing. */
#ifndef DLR_MPI_LAUNCHER_CLI_BASE_PROGRESS_BAR_H
#define DLR_MPI_LAUNCHER_CLI_BASE_PROGRESS_BAR_H

#include <stdint.h>

struct dlr_cli_bar {
    const char *what;
    uint64_t total, passed; /* of any unit */
    int64_t drawn_ms;
};

/* amount more is done. */
void dlr_cli_bar_pass(struct dlr_cli_bar *bar, uint64_t amount);

/* Clears the line for other words. */
void dlr_cli_bar_clear(void);

#endif
