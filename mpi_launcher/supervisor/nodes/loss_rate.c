/* SPDX-License-Identifier: Apache-2.0 */
/* How many nodes the run has lost, and in how many hours of nodes: over all its
 * supervisors and requeues, as what is worth writing to the disk depends on it.
 */
#include "mpi_launcher/supervisor/nodes/loss_rate.h"

#include "common/json/message.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"

#define SECONDS_OF_HOUR 3600.0
#define EXACT_MAX (INT64_C(1) << 53) /* what a double counts one by one */

static double node_s(const struct dlr_sup_nodes *nodes)
{
    double since_s = (double)(dlr_sup_now() - nodes->losses.since_ms) / 1e3;

    return nodes->losses.node_s + since_s * nodes->losses.training;
}

void dlr_sup_losses_start(struct dlr_sup_nodes *nodes)
{
    nodes->losses.since_ms = dlr_sup_now();
}

void dlr_sup_losses_count(struct dlr_sup_nodes *nodes, unsigned training)
{
    nodes->losses.node_s = node_s(nodes);
    nodes->losses.since_ms = dlr_sup_now();
    nodes->losses.training = training;
}

unsigned dlr_sup_losses_nodes(const struct dlr_sup_nodes *nodes)
{
    return nodes->losses.nodes;
}

double dlr_sup_losses_hours(const struct dlr_sup_nodes *nodes)
{
    return node_s(nodes) / SECONDS_OF_HOUR;
}

void dlr_sup_losses_state(const struct dlr_sup_nodes *nodes, json_t *state)
{
    json_object_set_new(state, "nodes_lost", json_integer(nodes->losses.nodes));
    json_object_set_new(state, "node_s", json_integer((json_int_t)node_s(nodes)));
}

void dlr_sup_losses_take(struct dlr_sup_nodes *nodes, const json_t *state)
{
    uint64_t lost = 0, seconds = 0;

    dlr_msg_uint(state, "nodes_lost", UINT32_MAX, &lost);
    dlr_msg_uint(state, "node_s", EXACT_MAX, &seconds);
    nodes->losses.nodes = (unsigned)lost;
    nodes->losses.node_s = (double)seconds;
}
