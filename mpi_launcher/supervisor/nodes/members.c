/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/nodes/members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/wire/heartbeat.h"
#include "mpi_launcher/wire/peer_list.h"

static int *name_head(const struct dlr_members *m, const char *name)
{
    return &m->names_[dlr_hash(name, strlen(name)) & m->mask_];
}

static int *route_head(const struct dlr_members *m, const struct dlr_route *route)
{
    return &m->routes_[dlr_hash(route->id, route->size) & m->mask_];
}

static int *next_name(const struct dlr_members *m, unsigned node)
{
    return &m->chain_[node];
}

static int *next_route(const struct dlr_members *m, unsigned node)
{
    return &m->chain_[m->n + node];
}

void dlr_members_set_route(struct dlr_members *m, unsigned node,
                           const struct dlr_route *route)
{
    int *at = route_head(m, &m->list[node].route);

    while (*at && *at != (int)node + 1)
        at = next_route(m, (unsigned)*at - 1);
    if (*at)
        *at = *next_route(m, node);
    m->list[node].route = *route;
    at = route_head(m, route);
    *next_route(m, node) = *at;
    *at = (int)node + 1;
}

static int make_tables(struct dlr_members *m)
{
    m->mask_ = 1;
    while (m->mask_ < 2 * m->n)
        m->mask_ = 2 * m->mask_ + 1;
    m->names_ = calloc(m->mask_ + 1, sizeof(*m->names_));
    m->routes_ = calloc(m->mask_ + 1, sizeof(*m->routes_));
    m->chain_ = calloc(2 * (size_t)m->n + 1, sizeof(*m->chain_));
    return m->names_ && m->routes_ && m->chain_ ? 0 : -ENOMEM;
}

int dlr_members_new(char *const *names, unsigned n, struct dlr_members *ret,
                    struct dlr_err *err)
{
    ret->list = calloc(n, sizeof(*ret->list));
    ret->n = n;
    if (!ret->list || make_tables(ret) < 0)
        return dlr_fail(err, -ENOMEM, "no memory for %u nodes", n);
    for (unsigned i = n; i-- > 0;) {
        struct dlr_member *m = &ret->list[i];

        if (dlr_format(m->node.name, sizeof(m->node.name), "%s", names[i]) < 0)
            return dlr_fail(err, -ENAMETOOLONG, "the node name '%s' is too long",
                            names[i]);
        memcpy(m->node.path, m->node.name, sizeof(m->node.name));
        m->step_max = DLR_HEARTBEAT_NO_STEP;
        *next_name(ret, i) = *name_head(ret, names[i]);
        *name_head(ret, names[i]) = (int)i + 1;
    }
    return 0;
}

void dlr_members_done(struct dlr_members *m)
{
    for (unsigned i = 0; m->list && i < m->n; i++) {
        free(m->list[i].data);
        free(m->list[i].hosts);
    }
    free(m->list);
    free(m->names_);
    free(m->routes_);
    free(m->chain_);
    memset(m, 0, sizeof(*m));
}

int dlr_members_find(const struct dlr_members *m, const char *name)
{
    for (int i = m->n ? *name_head(m, name) : 0; i; i = *next_name(m, (unsigned)i - 1))
        if (dlr_streq(m->list[i - 1].node.name, name))
            return i - 1;
    return -ENOENT;
}

int dlr_members_by_route(const struct dlr_members *m, const struct dlr_route *route)
{
    for (int i = m->n ? *route_head(m, route) : 0; i;
         i = *next_route(m, (unsigned)i - 1))
        if (dlr_route_eq(&m->list[i - 1].route, route))
            return i - 1;
    return -ENOENT;
}

static int text_field(const json_t *msg, const char *key, char *buf, size_t size,
                      struct dlr_err *err)
{
    const char *value;

    if (dlr_msg_str(msg, key, &value) < 0 || dlr_format(buf, size, "%s", value) < 0)
        return dlr_fail(err, -EBADMSG, "a hello with a bad '%s'", key);
    return 0;
}

static bool is_hex(const char *s)
{
    return s[strspn(s, "0123456789abcdefABCDEF")] == '\0';
}

int dlr_members_hello(struct dlr_members *m, const json_t *msg,
                      const struct dlr_packet *packet, int64_t now_ms,
                      struct dlr_err *err)
{
    struct dlr_member row;
    char path[DLR_TOPO_PATH];
    const char *name, *data = "", *hosts = "";
    uint64_t cpus = 0;
    int i;

    if (dlr_msg_str(msg, "node", &name) < 0 || (i = dlr_members_find(m, name)) < 0)
        return dlr_fail(err, -EBADMSG, "a hello from a node that is not in the job");
    row = m->list[i];
    if (text_field(msg, "boot", row.boot, sizeof(row.boot), err) < 0 ||
        text_field(msg, "topo", path, sizeof(path), err) < 0 ||
        text_field(msg, "addr", row.addr, sizeof(row.addr), err) < 0 ||
        text_field(msg, "key", row.peer_key, sizeof(row.peer_key), err) < 0)
        return -EBADMSG;
    dlr_msg_str(msg, "data", &data);
    dlr_msg_str(msg, "hosts", &hosts);
    dlr_msg_uint(msg, "cpus", 1u << 20, &cpus);
    if (!is_hex(data))
        return dlr_fail(err, -EBADMSG, "a hello with a bad 'data'");
    if (strlen(hosts) >= DLR_PEER_HOSTS)
        return dlr_fail(err, -EBADMSG, "a hello with a bad 'hosts'");
    if (!row.mapped)
        dlr_format(row.node.path, sizeof(row.node.path), "%s",
                   path[0] ? path : row.node.name);
    row.cpus = cpus;
    row.ticket++;
    memcpy(row.key, packet->key, sizeof(row.key));
    row.here = true;
    row.asleep = false;
    row.unlaunched = 0;
    row.stepd = 0; /* it says so once more */
    row.heard_ms = now_ms;
    row.data = data[0] ? strdup(data) : NULL;
    row.hosts = hosts[0] ? strdup(hosts) : NULL;
    free(m->list[i].data);
    free(m->list[i].hosts);
    m->list[i] = row;
    dlr_members_set_route(m, (unsigned)i, &packet->from);
    return i;
}

uint64_t dlr_members_step(const struct dlr_members *m, uint32_t round)
{
    uint64_t step = DLR_HEARTBEAT_NO_STEP;

    for (unsigned i = 0; i < m->n; i++) {
        const struct dlr_member *row = &m->list[i];

        if (row->round != round || row->step_max == DLR_HEARTBEAT_NO_STEP)
            continue;
        if (step == DLR_HEARTBEAT_NO_STEP || row->step_max > step)
            step = row->step_max;
    }
    return step;
}

void dlr_members_forget_steps(struct dlr_members *m)
{
    for (unsigned i = 0; i < m->n; i++)
        m->list[i].step_max = DLR_HEARTBEAT_NO_STEP;
}
