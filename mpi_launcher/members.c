/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg.h"
#include "common/str.h"
#include "mpi_launcher/beat.h"

int dlr_members_new(char *const *names, unsigned n, struct dlr_members *ret,
                    struct dlr_err *err)
{
    ret->list = calloc(n, sizeof(*ret->list));
    if (!ret->list)
        return dlr_fail(err, -ENOMEM, "no memory for %u nodes", n);
    ret->n = n;
    for (unsigned i = 0; i < n; i++) {
        struct dlr_member *m = &ret->list[i];

        if (dlr_format(m->node.name, sizeof(m->node.name), "%s", names[i]) < 0)
            return dlr_fail(err, -ENAMETOOLONG, "the node name '%s' is too long",
                            names[i]);
        memcpy(m->node.path, m->node.name, sizeof(m->node.name));
        m->step_min = m->step_max = DLR_BEAT_NO_STEP;
    }
    return 0;
}

void dlr_members_done(struct dlr_members *m)
{
    for (unsigned i = 0; i < m->n; i++)
        free(m->list[i].data);
    free(m->list);
    memset(m, 0, sizeof(*m));
}

int dlr_members_find(const struct dlr_members *m, const char *name)
{
    for (unsigned i = 0; i < m->n; i++)
        if (dlr_streq(m->list[i].node.name, name))
            return i;
    return -ENOENT;
}

int dlr_members_by_route(const struct dlr_members *m, const struct dlr_route *route)
{
    for (unsigned i = 0; i < m->n; i++)
        if (m->list[i].route.size && dlr_route_eq(&m->list[i].route, route))
            return i;
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
    const char *name, *data = "";
    uint64_t cpus = 0;
    int i;

    if (dlr_msg_str(msg, "node", &name) < 0 || (i = dlr_members_find(m, name)) < 0)
        return dlr_fail(err, -EBADMSG, "a hello from a node that is not in the job");
    row = m->list[i];
    if (text_field(msg, "boot", row.boot, sizeof(row.boot), err) < 0 ||
        text_field(msg, "topo", row.node.path, sizeof(row.node.path), err) < 0 ||
        text_field(msg, "addr", row.addr, sizeof(row.addr), err) < 0 ||
        text_field(msg, "key", row.peer_key, sizeof(row.peer_key), err) < 0)
        return -EBADMSG;
    dlr_msg_str(msg, "data", &data);
    dlr_msg_uint(msg, "cpus", 1u << 20, &cpus);
    if (!is_hex(data))
        return dlr_fail(err, -EBADMSG, "a hello with a bad 'data'");
    if (!row.node.path[0])
        memcpy(row.node.path, row.node.name, sizeof(row.node.name));
    row.cpus = cpus;
    row.route = packet->from;
    memcpy(row.key, packet->key, sizeof(row.key));
    row.here = true;
    row.asleep = false;
    row.unlaunched = 0;
    row.stepd = 0; /* it says so once more */
    row.heard_ms = now_ms;
    row.data = data[0] ? strdup(data) : NULL;
    free(m->list[i].data);
    m->list[i] = row;
    return i;
}

uint64_t dlr_members_step(const struct dlr_members *m, uint32_t round)
{
    uint64_t step = DLR_BEAT_NO_STEP;

    for (unsigned i = 0; i < m->n; i++) {
        const struct dlr_member *row = &m->list[i];

        if (row->round != round || row->step_max == DLR_BEAT_NO_STEP)
            continue;
        if (step == DLR_BEAT_NO_STEP || row->step_max > step)
            step = row->step_max;
    }
    return step;
}

void dlr_members_forget_steps(struct dlr_members *m)
{
    for (unsigned i = 0; i < m->n; i++)
        m->list[i].step_min = m->list[i].step_max = DLR_BEAT_NO_STEP;
}
