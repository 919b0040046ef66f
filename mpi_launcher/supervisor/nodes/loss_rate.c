/* SPDX-License-Identifier: Apache-2.0 */
/* How many nodes the run has lost, and in how many hours of nodes: over all its supervisors and
 * requeues, as what is worth writing to the disk depends on it.
 */
#include "common/json/message.h"
#include "mpi_launcher/supervisor/supervisor.h"

#define SECONDS_OF_HOUR 3600.0
#define EXACT_MAX (INT64_C(1) << 53) /* what a double counts one by one */

static double node_s(const struct dlr_sup *s)
{
    double since_s = (double)(dlr_sup_now() - s->losses.since_ms) / 1e3;

    return s->losses.node_s + since_s * s->plan.nplaces;
}

void dlr_sup_losses_count(struct dlr_sup *s)
{
    s->losses.node_s = node_s(s);
    s->losses.since_ms = dlr_sup_now();
}

double dlr_sup_losses_hours(const struct dlr_sup *s)
{
    return node_s(s) / SECONDS_OF_HOUR;
}

void dlr_sup_losses_state(const struct dlr_sup *s, json_t *state)
{
    json_object_set_new(state, "nodes_lost", json_integer(s->losses.nodes));
    json_object_set_new(state, "node_s", json_integer((json_int_t)node_s(s)));
}

void dlr_sup_losses_take(struct dlr_sup *s, const json_t *state)
{
    uint64_t nodes = 0, seconds = 0;

    dlr_msg_uint(state, "nodes_lost", UINT32_MAX, &nodes);
    dlr_msg_uint(state, "node_s", EXACT_MAX, &seconds);
    s->losses.nodes = (unsigned)nodes;
    s->losses.node_s = (double)seconds;
}
