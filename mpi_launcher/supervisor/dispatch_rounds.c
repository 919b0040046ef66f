/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of rounds: who is told of it. */
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/supervisor.h"

const struct dlr_sup_rounds_ops dlr_sup_rounds_ops = {
    .changed = dlr_sup_state_changed,
    .finished = dlr_sup_has_ended,
    .over = dlr_sup_is_over,
};
