/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's beginning and end, and what others tell the table of members. */
#include "mpi_launcher/supervisor/nodes/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"

struct dlr_sup_nodes *dlr_sup_nodes_new(const struct dlr_sup_nodes_env *env,
                                        const struct dlr_sup_nodes_ops *ops, void *arg)
{
    static const struct dlr_sup_nodes_ops none;
    struct dlr_sup_nodes *nodes = calloc(1, sizeof(*nodes));

    if (!nodes)
        return NULL;
    nodes->env = *env;
    nodes->ops = ops ? ops : &none;
    nodes->arg = arg;
    return nodes;
}

struct dlr_sup_nodes *dlr_sup_nodes_free(struct dlr_sup_nodes *nodes)
{
    if (!nodes)
        return NULL;
    dlr_sup_peers_stop(nodes);
    dlr_members_done(&nodes->members);
    dlr_identity_free(nodes->identity);
    json_decref(nodes->kept.peers);
    free(nodes);
    return NULL;
}

int dlr_sup_nodes_open(struct dlr_sup_nodes *nodes, char *const *names, unsigned n,
                       const char *here, struct dlr_err *err)
{
    int rc = dlr_members_new(names, n, &nodes->members, err);

    if (rc == 0 && here && dlr_members_find(&nodes->members, here) >= 0)
        dlr_format(nodes->batch, sizeof(nodes->batch), "%s", here);
    return rc;
}

const struct dlr_members *dlr_sup_members(const struct dlr_sup_nodes *nodes)
{
    return &nodes->members;
}

const char *dlr_sup_batch(const struct dlr_sup_nodes *nodes)
{
    return nodes->batch;
}

int dlr_sup_identity_take(struct dlr_sup_nodes *nodes, int keeper_fd,
                          struct dlr_err *err)
{
    return dlr_identity_load(keeper_fd, &nodes->identity, err);
}

int dlr_sup_identity_make(struct dlr_sup_nodes *nodes, int keeper_fd,
                          struct dlr_err *err)
{
    int rc = 0;

    if (!nodes->identity)
        rc = dlr_identity_new(&nodes->identity, err);
    if (rc == 0 && keeper_fd >= 0)
        rc = dlr_identity_save(nodes->identity, keeper_fd, err);
    return rc;
}

const struct dlr_identity *dlr_sup_identity(const struct dlr_sup_nodes *nodes)
{
    return nodes->identity;
}

void dlr_sup_node_left(struct dlr_sup_nodes *nodes, unsigned node)
{
    nodes->members.list[node].here = false;
}

void dlr_sup_node_set_path(struct dlr_sup_nodes *nodes, unsigned node, const char *path)
{
    struct dlr_member *m = &nodes->members.list[node];

    m->mapped = dlr_format(m->node.path, sizeof(m->node.path), "%s", path) == 0;
}

void dlr_sup_node_set_apart(struct dlr_sup_nodes *nodes, unsigned node, bool apart)
{
    nodes->members.list[node].apart = apart;
}

void dlr_sup_node_set_stepd(struct dlr_sup_nodes *nodes, unsigned node, uint64_t stepd)
{
    nodes->members.list[node].stepd = stepd;
}

void dlr_sup_node_no_memory(struct dlr_sup_nodes *nodes, unsigned node, uint32_t round)
{
    nodes->members.list[node].no_memory = (uint64_t)round + 1;
}

unsigned dlr_sup_node_unlaunched(struct dlr_sup_nodes *nodes, unsigned node)
{
    return ++nodes->members.list[node].unlaunched;
}

void dlr_sup_forget_steps(struct dlr_sup_nodes *nodes)
{
    dlr_members_forget_steps(&nodes->members);
}

static json_t *list_peers(const struct dlr_members *members)
{
    json_t *peers = json_object();

    for (unsigned i = 0; i < members->n; i++) {
        const struct dlr_member *m = &members->list[i];

        if (m->key[0])
            json_object_set_new(
                peers, m->node.name,
                json_pack("{s:s,s:s}", "key", m->key, "data", m->data ? m->data : ""));
    }
    return peers;
}

static uint64_t count_hellos(const struct dlr_members *members)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < members->n; i++)
        n += members->list[i].ticket;
    return n;
}

json_t *dlr_sup_nodes_state(struct dlr_sup_nodes *nodes)
{
    uint64_t hellos = count_hellos(&nodes->members);

    if (!nodes->kept.peers || nodes->kept.hellos != hellos) {
        json_decref(nodes->kept.peers);
        nodes->kept.peers = list_peers(&nodes->members);
        nodes->kept.hellos = hellos;
    }
    return json_incref(nodes->kept.peers);
}

void dlr_sup_nodes_take(struct dlr_sup_nodes *nodes, const json_t *state)
{
    json_decref(nodes->kept.peers);
    nodes->kept.peers = NULL;
    for (unsigned i = 0; i < nodes->members.n; i++) {
        struct dlr_member *m = &nodes->members.list[i];
        const json_t *peer = json_object_get(state, m->node.name);
        const char *key, *data;

        if (dlr_msg_str(peer, "key", &key) < 0 || dlr_msg_str(peer, "data", &data) < 0)
            continue;
        dlr_format(m->key, sizeof(m->key), "%s", key);
        m->data = data[0] ? strdup(data) : NULL;
    }
}
