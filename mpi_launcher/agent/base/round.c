/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/base/round.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "common/local/message.h"

#define NODES_MAX 131072
#define RANKS_MAX (1 << 20)
#define TOKEN_DIGITS 32

bool dlr_agent_round_is(const struct dlr_agent_round *round, uint64_t number)
{
    return round->known && round->round == number;
}

const struct dlr_agent_node *dlr_agent_round_node(const struct dlr_agent_round *round,
                                                  const char *name)
{
    for (unsigned i = 0; i < round->nnodes; i++)
        if (dlr_streq(round->nodes[i].name, name))
            return &round->nodes[i];
    return NULL;
}

void dlr_agent_round_done(struct dlr_agent_round *round)
{
    for (unsigned i = 0; i < round->nnodes; i++) {
        free(round->nodes[i].ranks);
        free(round->nodes[i].name);
        free(round->nodes[i].data);
    }
    for (unsigned i = 0; i < round->nsums; i++)
        free(round->sums[i].terms);
    free(round->sums);
    free(round->nodes);
    free(round->accept);
    memset(round, 0, sizeof(*round));
}

static int parse_node(const json_t *j, struct dlr_agent_node *ret)
{
    const json_t *ranks = json_object_get(j, "ranks");
    const char *name, *data;
    size_t n = json_array_size(ranks);

    if (dlr_msg_str(j, "node", &name) < 0 || dlr_msg_str(j, "data", &data) < 0 ||
        strlen(name) >= DLR_AGENT_NODE || strlen(data) >= DLR_AGENT_UCX ||
        !json_is_array(ranks) || n > RANKS_MAX)
        return -EBADMSG;
    ret->name = strdup(name);
    ret->data = strdup(data);
    ret->ranks = calloc(n ? n : 1, sizeof(*ret->ranks));
    if (!ret->name || !ret->data || !ret->ranks)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const json_t *rank = json_array_get(ranks, i);

        if (!json_is_integer(rank) || json_integer_value(rank) < 0 ||
            json_integer_value(rank) >= RANKS_MAX)
            return -EBADMSG;
        ret->ranks[ret->nranks++] = (int32_t)json_integer_value(rank);
    }
    return 0;
}

static int parse_nodes(const json_t *list, struct dlr_agent_round *ret)
{
    size_t n = json_array_size(list);

    if (!json_is_array(list) || n > NODES_MAX)
        return -EBADMSG;
    ret->nodes = calloc(n ? n : 1, sizeof(*ret->nodes));
    if (!ret->nodes)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        int rc = parse_node(json_array_get(list, i), &ret->nodes[ret->nnodes++]);

        if (rc < 0)
            return rc;
    }
    return 0;
}

static int accept_ranks(struct dlr_agent_round *r, const struct dlr_agent_node *node)
{
    int32_t *more;

    if (!node || node->nranks == 0)
        return 0;
    more = realloc(r->accept, (r->naccept + node->nranks) * sizeof(*more));
    if (!more)
        return -ENOMEM;
    r->accept = more;
    memcpy(more + r->naccept, node->ranks, node->nranks * sizeof(*more));
    r->naccept += node->nranks;
    return 0;
}

/* The nodes that keep the copies of one, as the message names them. */
static int parse_partners_of(const char *of, const json_t *list, const char *me,
                             struct dlr_agent_round *ret)
{
    size_t n = json_array_size(list);
    int rc = 0;

    if (!json_is_array(list) || n > DLR_COPIES_MAX)
        return -EBADMSG;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const char *to = json_string_value(json_array_get(list, i));

        if (!to)
            return -EBADMSG;
        if (dlr_streq(to, of))
            continue;
        if (dlr_streq(of, me) &&
            dlr_format(ret->partners[ret->npartners++], DLR_AGENT_NODE, "%s", to) < 0)
            return -EBADMSG;
        if (dlr_streq(to, me))
            rc = accept_ranks(ret, dlr_agent_round_node(ret, of));
    }
    return rc;
}

/* Copies may come here of our own ranks (restore) and of those whose partner this node
 * is.
 */
static int parse_partners(const json_t *map, const char *me,
                          struct dlr_agent_round *ret)
{
    const char *of;
    json_t *value;
    int rc = accept_ranks(ret, dlr_agent_round_node(ret, me));

    if (rc < 0 || !json_is_object(map))
        return rc < 0 ? rc : -EBADMSG;
    json_object_foreach((json_t *)map, of, value)
    {
        rc = parse_partners_of(of, value, me, ret);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* The parity shards of the round; ours are kept. */
static int parse_sums(const json_t *list, const char *me, struct dlr_agent_round *ret)
{
    size_t n = json_array_size(list);

    if (list && (!json_is_array(list) || n > RANKS_MAX))
        return -EBADMSG;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        const char *node, *terms;
        struct dlr_agent_parity *more;
        uint64_t rank;

        if (dlr_msg_str(item, "node", &node) < 0 ||
            dlr_msg_str(item, "terms", &terms) < 0 || strlen(terms) >= DLR_LOCAL_TEXT ||
            dlr_msg_uint(item, "rank", INT32_MAX, &rank) < 0)
            return -EBADMSG;
        if (!dlr_streq(node, me))
            continue;
        more = realloc(ret->sums, (ret->nsums + 1) * sizeof(*more));
        if (!more)
            return -ENOMEM;
        ret->sums = more;
        more += ret->nsums;
        *more = (struct dlr_agent_parity){(int32_t)rank, strdup(terms)};
        ret->nsums++;
        if (!more->terms)
            return -ENOMEM;
    }
    return 0;
}

static int parse_restore(const json_t *j, struct dlr_agent_round *ret)
{
    uint64_t vround, step, world = 0;

    if (json_is_null(j))
        return 0;
    if (dlr_msg_uint(j, "vround", UINT32_MAX, &vround) < 0 ||
        dlr_msg_uint(j, "step", INT64_MAX, &step) < 0)
        return -EBADMSG;
    if (json_object_get(j, "world") && dlr_msg_uint(j, "world", RANKS_MAX, &world) < 0)
        return -EBADMSG;
    ret->made_by = (uint32_t)world;
    ret->has_restore = true;
    ret->restore = (struct dlr_version){(uint32_t)vround, step};
    return 0;
}

static int parse(const struct dlr_agent_round *now, const char *me, const json_t *msg,
                 struct dlr_agent_round *ret)
{
    uint64_t round, world = 0, turn = 0;
    const char *token;
    int rc;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        dlr_msg_str(msg, "token", &token) < 0 || strlen(token) != TOKEN_DIGITS ||
        strspn(token, "0123456789abcdef") != TOKEN_DIGITS)
        return -EBADMSG;
    if ((json_object_get(msg, "world") &&
         dlr_msg_uint(msg, "world", RANKS_MAX, &world) < 0) ||
        (json_object_get(msg, "turn") &&
         dlr_msg_uint(msg, "turn", UINT32_MAX, &turn) < 0))
        return -EBADMSG;
    if (now->known && (round < now->round || (round == now->round && turn < now->turn)))
        return -ESTALE;
    ret->world = (uint32_t)world;
    ret->turn = (uint32_t)turn;
    ret->gathered = json_is_true(json_object_get(msg, "gather"));
    ret->known = true;
    ret->round = (uint32_t)round;
    memcpy(ret->token, token, TOKEN_DIGITS + 1);
    rc = parse_nodes(json_object_get(msg, "nodes"), ret);
    rc = rc < 0 ? rc : parse_partners(json_object_get(msg, "partners"), me, ret);
    rc = rc < 0 ? rc : parse_sums(json_object_get(msg, "parity"), me, ret);
    return rc < 0 ? rc : parse_restore(json_object_get(msg, "restore"), ret);
}

int dlr_agent_round_parse(const struct dlr_agent_round *now, const char *node,
                          const json_t *msg, struct dlr_agent_round *ret_round)
{
    int rc = parse(now, node, msg, ret_round);

    if (rc < 0)
        dlr_agent_round_done(ret_round);
    return rc;
}
