/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of a supervisor's nodes, in tests of what is above it. */
#ifndef DLR_TESTS_SUPPORT_NODES_RIG_H
#define DLR_TESTS_SUPPORT_NODES_RIG_H

#include <stdlib.h>

#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"
#include "mpi_launcher/supervisor/supervisor.h"

/* Gives s one, once s->io is there: the table of its members, to be written. */
static inline struct dlr_members *nodes_rig(struct dlr_sup *s,
                                            const struct dlr_sup_nodes_ops *ops,
                                            char *const *names, unsigned n)
{
    struct dlr_sup_nodes_env env = {
        .io = s->io, .conf = &s->conf, .info = &s->info, .id = &s->id};
    struct dlr_err err;

    s->nodes = dlr_sup_nodes_new(&env, ops, s);
    if (!s->nodes || dlr_sup_nodes_open(s->nodes, names, n, NULL, &err) < 0)
        abort();
    s->members = dlr_sup_members(s->nodes);
    return &s->nodes->members;
}

#endif
