/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of a supervisor's copies, in tests of what is above it. */
#ifndef DLR_TESTS_SUPPORT_COPIES_RIG_H
#define DLR_TESTS_SUPPORT_COPIES_RIG_H

#include <stdlib.h>

#include "mpi_launcher/supervisor/copies/copies.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/supervisor.h"

/* Gives s one, once s->planning is there, and s->nodes where it is asked: its inside,
 * to be written.
 */
static inline struct dlr_sup_copies *copies_rig(struct dlr_sup *s,
                                                const struct dlr_sup_copies_ops *ops)
{
    struct dlr_sup_copies_env env = {.io = s->io,
                                     .nodes = s->nodes,
                                     .steps = s->steps,
                                     .planning = s->planning,
                                     .conf = &s->conf,
                                     .info = &s->info,
                                     .generation = &s->generation,
                                     .took_over = &s->took_over};

    s->copies = dlr_sup_copies_new(&env, ops, s);
    if (!s->copies)
        abort();
    dlr_sup_copies_open(s->copies, s->policy, NULL);
    return s->copies;
}

#endif
