/* SPDX-License-Identifier: Apache-2.0 */
/* All engines of a supervisor, in tests of what goes on between them. */
#ifndef DLR_TESTS_SUPPORT_ENGINES_RIG_H
#define DLR_TESTS_SUPPORT_ENGINES_RIG_H

#include <stdlib.h>

#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"
#include "mpi_launcher/supervisor/supervisor.h"

/* Gives s its engines, as the main program does: the table of its members, to be
 * written. dlr_sup_engines_open() once s->policy is there.
 */
static inline struct dlr_members *engines_rig(struct dlr_sup *s, char *const *names,
                                              unsigned n)
{
    struct dlr_err err;

    if (!dlr_sup_engines_new(s) ||
        dlr_sup_nodes_open(s->nodes, names, n, NULL, &err) < 0)
        abort();
    return &s->nodes->members;
}

static inline void engines_rig_free(struct dlr_sup *s)
{
    dlr_sup_engines_free(s);
    s->io = dlr_sup_io_free(s->io);
}

#endif
