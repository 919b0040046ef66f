/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of rounds: who is told of it. */
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/supervisor.h"

static void on_changed(void *arg, bool lasting)
{
    if (lasting)
        dlr_sup_save_state(arg);
    else
        dlr_sup_keep(arg);
}

static bool is_over(void *arg)
{
    return dlr_sup_is_over(arg);
}

const struct dlr_sup_rounds_ops dlr_sup_rounds_ops = {
    .changed = on_changed,
    .finished = dlr_sup_has_ended,
    .over = is_over,
};
