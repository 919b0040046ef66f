/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/copies/orders.h"

#include "common/base/file.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/nodes/send.h"

json_t *dlr_sup_order(const struct dlr_sup_copies *copies, const struct dlr_transfer *t,
                      const char *type)
{
    json_t *msg = dlr_msg_new(type);

    json_object_set_new(msg, "id", json_integer(t->id));
    json_object_set_new(msg, "round", json_integer(dlr_policy_round(copies->policy)));
    json_object_set_new(msg, "rank", json_integer(t->rank));
    json_object_set_new(msg, "vround", json_integer(copies->transfers.version.round));
    json_object_set_new(msg, "step", json_integer(copies->transfers.version.step));
    return msg;
}

void dlr_sup_ask(struct dlr_sup_copies *copies, const struct dlr_transfer *t,
                 const char *type, unsigned node, const char *key, const char *value)
{
    json_t *msg = dlr_sup_order(copies, t, type);

    json_object_set_new(msg, key, json_string(value));
    if (dlr_streq(type, "load") && !dlr_below(value, copies->env.info->dir))
        json_object_set_new(msg, "foreign", json_true()); /* --dlrover-restore-from */
    dlr_sup_send(copies->env.nodes, node, msg);
}

void dlr_sup_ask_reserve(struct dlr_sup_copies *copies, unsigned node, unsigned rank,
                         uint64_t bytes)
{
    json_t *msg = dlr_msg_new("reserve");

    json_object_set_new(msg, "round", json_integer(dlr_policy_round(copies->policy)));
    json_object_set_new(msg, "rank", json_integer(rank));
    json_object_set_new(msg, "bytes", json_integer(bytes));
    dlr_sup_send(copies->env.nodes, node, msg);
}
