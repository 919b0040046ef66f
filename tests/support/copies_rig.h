/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of a supervisor's copies, in tests of it and of what is above it. */
#ifndef DLR_TESTS_SUPPORT_COPIES_RIG_H
#define DLR_TESTS_SUPPORT_COPIES_RIG_H

#include <stdlib.h>

#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/supervisor.h"

/* Gives s one. */
static inline struct dlr_sup_copies *copies_rig(struct dlr_sup *s)
{
    s->copies =
        dlr_sup_copies_new(&(struct dlr_sup_copies_env){.generation = &s->generation});
    if (!s->copies)
        abort();
    return s->copies;
}

#endif
