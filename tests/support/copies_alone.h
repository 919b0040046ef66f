/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of the copies without a supervisor, in its own tests: what it reads is
 * written by them.
 */
#ifndef DLR_TESTS_SUPPORT_COPIES_ALONE_H
#define DLR_TESTS_SUPPORT_COPIES_ALONE_H

#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"

static struct dlr_sup_copies *copies;
static struct dlr_job_config conf;
static struct dlr_runinfo info;
static struct dlr_sup_planning planning; /* step and plan in force */
static struct dlr_members table;
static unsigned generation;
static bool took_over;

/* All of it is empty, but for a table of so many nodes: n0, n1 .. */
static inline void copies_begin(const struct dlr_sup_copies_ops *ops, unsigned nnodes)
{
    static struct dlr_sup_nodes nodes;
    struct dlr_sup_copies_env env = {.nodes = &nodes,
                                     .planning = &planning,
                                     .conf = &conf,
                                     .info = &info,
                                     .generation = &generation,
                                     .took_over = &took_over};

    memset(&conf, 0, sizeof(conf));
    memset(&info, 0, sizeof(info));
    memset(&planning, 0, sizeof(planning));
    planning.env.conf = &conf;
    planning.members = &table;
    generation = 0;
    took_over = false;
    table =
        (struct dlr_members){.n = nnodes, .list = calloc(nnodes, sizeof(*table.list))};
    copies = dlr_sup_copies_new(&env, ops, NULL);
    if (!copies || !table.list)
        abort();
    for (unsigned i = 0; i < nnodes; i++)
        snprintf(table.list[i].node.name, DLR_TOPO_NAME, "n%u", i);
    copies->members = &table;
}

static inline void copies_end(void)
{
    copies = dlr_sup_copies_free(copies);
    free(table.list);
}

#endif
