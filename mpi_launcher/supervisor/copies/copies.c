/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's beginning and end. */
#include "mpi_launcher/supervisor/copies/copies.h"

#include <stdlib.h>

#include "mpi_launcher/supervisor/copies/copies_state.h"

struct dlr_sup_copies *dlr_sup_copies_new(const struct dlr_sup_copies_env *env)
{
    struct dlr_sup_copies *copies = calloc(1, sizeof(*copies));

    if (copies)
        copies->env = *env;
    return copies;
}

struct dlr_sup_copies *dlr_sup_copies_free(struct dlr_sup_copies *copies)
{
    if (!copies)
        return NULL;
    free(copies->requests);
    free(copies);
    return NULL;
}
