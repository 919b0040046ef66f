/* SPDX-License-Identifier: Apache-2.0 */
/* How status looks: for people, and as JSON. */
#ifndef DLR_MPI_LAUNCHER_CLI_STATUS_VIEW_H
#define DLR_MPI_LAUNCHER_CLI_STATUS_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "mpi_launcher/cli/base/find_run.h"
#include "mpi_launcher/journal/run_view.h"

struct dlr_cli_look {
    FILE *out;
    unsigned width,
        height; /* 0: no limit; else lines are cut, and nodes left out, to fit */
    bool colour;
    bool live; /* clear the rest of each line: something older stands there */
    const char *waits_for; /* a requeued job, as Slurm says; "" or NULL: not known */
};

/* Prints one view; the state is settled. */
void dlr_cli_view(const struct dlr_cli_look *look, const struct dlr_cli_state *s,
                  const struct dlr_cli_run *run, int64_t now_ms);

/* The object that dlrover(1) documents; the caller's. NULL when out of memory. */
json_t *dlr_cli_view_json(const struct dlr_cli_state *s, const struct dlr_cli_run *run,
                          int64_t now_ms);

#endif
