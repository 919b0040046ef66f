/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/snapshots/orders.h"

#include <errno.h>
#include <string.h>

#include "common/json/message.h"
#include "mpi_launcher/agent/snapshots/parts.h"

static const struct dlr_agent_origin supervisor = {.from = DLR_AGENT_SUPERVISOR};

static void ended(struct dlr_agent_snapshots *s, const struct dlr_agent_request *q,
                  const struct dlr_agent_origin *from, int rc, const char *why)
{
    dlr_agent_done(s->base, from, rc, why);
}

int dlr_agent_order(struct dlr_agent_snapshots *s, const json_t *msg,
                    enum dlr_local_type type, const char *key)
{
    struct dlr_agent_origin from = supervisor;
    struct dlr_agent_request q = {.type = type};
    uint64_t round;

    if (dlr_agent_copy_of(msg, &from, &q.rank, &q.version) < 0 ||
        dlr_msg_str(msg, key, &q.text) < 0 || strlen(q.text) >= DLR_LOCAL_TEXT)
        return -EBADMSG;
    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        !dlr_agent_round_is(s->round, round)) {
        dlr_agent_done(s->base, &from, -ESTALE, "not of this round");
        return 0;
    }
    dlr_agent_request(s, &q, &from, ended);
    return 0;
}

/* Not bound to the round: whoever asks takes only what is of its own. */
int dlr_agent_send(struct dlr_agent_snapshots *s, const json_t *msg,
                   const struct dlr_agent_origin *from)
{
    struct dlr_agent_origin origin = *from;
    struct dlr_agent_request q = {.type = DLR_LOCAL_D_SEND};

    if (dlr_agent_copy_of(msg, &origin, &q.rank, &q.version) < 0 ||
        dlr_msg_str(msg, "data", &q.text) < 0 || strlen(q.text) >= DLR_LOCAL_TEXT)
        return -EBADMSG;
    dlr_agent_request(s, &q, &origin, ended);
    return 0;
}

/* Entry i of a persist's other ranks, [rank, id]. */
static int read_other(const json_t *list, size_t i, int32_t *ret_rank, uint64_t *ret_id)
{
    const json_t *pair = json_array_get(list, i);
    json_int_t rank = json_integer_value(json_array_get(pair, 0));
    json_int_t id = json_integer_value(json_array_get(pair, 1));

    if (json_array_size(pair) != 2 || !json_is_integer(json_array_get(pair, 0)) ||
        !json_is_integer(json_array_get(pair, 1)) || rank < 0 || rank > INT32_MAX ||
        id < 0)
        return -EBADMSG;
    *ret_rank = (int32_t)rank;
    *ret_id = (uint64_t)id;
    return 0;
}

static void written(struct dlr_agent_snapshots *s, const struct dlr_agent_request *q,
                    const struct dlr_agent_origin *from, int rc, const char *why)
{
    if (rc < 0 && from->from == DLR_AGENT_SELF)
        dlr_agent_save_lost(s, q->rank, q->version, why);
    dlr_agent_done(s->base, from, rc, why);
}

/* Not bound to the round: after its end the survivors' state is written before a
 * requeue.
 */
void dlr_agent_persist(struct dlr_agent_snapshots *s, const json_t *msg,
                       const struct dlr_agent_origin *from)
{
    const json_t *with = json_object_get(msg, "with");
    size_t n = json_array_size(with);
    struct dlr_agent_origin origin = *from;
    struct dlr_agent_request q = {.type = DLR_LOCAL_D_SAVE};
    uint64_t id;
    int32_t other;
    int rc = dlr_agent_copy_of(msg, &origin, &q.rank, &q.version);

    if (rc < 0 || dlr_msg_str(msg, "path", &q.text) < 0 ||
        strlen(q.text) >= DLR_LOCAL_TEXT)
        rc = -EBADMSG;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = read_other(with, i, &other, &id);
    if (rc < 0)
        return;
    if (dlr_msg_uint(msg, "rate", INT64_MAX, &q.rate) < 0)
        q.rate = 0;
    q.follow = (unsigned)n;
    dlr_agent_request(s, &q, &origin, written);
    for (size_t i = 0; i < n; i++) {
        read_other(with, i, &q.rank, &origin.id);
        q.follow = (unsigned)(n - 1 - i);
        dlr_agent_request(s, &q, &origin, written);
    }
}
