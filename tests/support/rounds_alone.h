/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of the rounds without a supervisor, in its own tests: what it reads is
 * written by them.
 */
#ifndef DLR_TESTS_SUPPORT_ROUNDS_ALONE_H
#define DLR_TESTS_SUPPORT_ROUNDS_ALONE_H

#include <stdlib.h>
#include <string.h>

#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"

static struct dlr_sup_rounds *rounds;
static struct dlr_job_config conf;
static struct dlr_sup_nodes *nodes;
static struct dlr_sup_planning planning; /* step and plan in force */
static struct dlr_sup_copies *copies;

/* All of it is empty, but for the table of these nodes. */
static inline void rounds_begin(char *const *names, unsigned nnodes)
{
    static const struct dlr_runinfo info;
    static const struct dlr_run_id id;
    static bool took_over;
    struct dlr_sup_nodes_env in = {.conf = &conf, .info = &info, .id = &id};
    struct dlr_sup_copies_env under = {.planning = &planning, .conf = &conf};
    struct dlr_sup_rounds_env env = {.planning = &planning,
                                     .conf = &conf,
                                     .step = &planning.step,
                                     .plan = &planning.plan,
                                     .took_over = &took_over};
    struct dlr_err err;

    memset(&conf, 0, sizeof(conf));
    memset(&planning, 0, sizeof(planning));
    under.nodes = env.nodes = nodes = dlr_sup_nodes_new(&in, NULL, NULL);
    if (!nodes || dlr_sup_nodes_open(nodes, names, nnodes, NULL, &err) < 0)
        abort();
    env.copies = copies = dlr_sup_copies_new(&under, NULL, NULL);
    rounds = dlr_sup_rounds_new(&env, NULL, NULL);
    if (!copies || !rounds)
        abort();
}

static inline void rounds_end(void)
{
    rounds = dlr_sup_rounds_free(rounds);
    copies = dlr_sup_copies_free(copies);
    nodes = dlr_sup_nodes_free(nodes);
}

#endif
