/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent says (docs/protocol.md section 3). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/redundancy/parity_order.h"
#include "ckpt/slot/store.h"
#include "ckpt/stream/listen.h"
#include "ckpt/stream/parity_sum.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/json/message.h"

int dlr_data_hello(struct dlr_data *d, struct dlr_err *err)
{
    static const char digits[] = "0123456789abcdef";
    struct dlr_local_msg msg;
    const void *addr;
    size_t bytes;

    dlr_net_address(d->net, &addr, &bytes);
    if (bytes > DLR_WIRE_ADDRESS_MAX || 2 * bytes >= DLR_LOCAL_TEXT)
        return dlr_fail(
            err, -EMSGSIZE,
            "this node's address has %zu bytes: choose devices with --dlrover-set=net",
            bytes);
    dlr_local_init(&msg, DLR_LOCAL_D_HELLO);
    for (size_t i = 0; i < bytes; i++) {
        msg.text[2 * i] = digits[((const unsigned char *)addr)[i] >> 4];
        msg.text[2 * i + 1] = digits[((const unsigned char *)addr)[i] & 15];
    }
    msg.text_len = (uint32_t)(2 * bytes);
    dlr_stream_send_agent(d, &msg, NULL, 0);
    return 0;
}

struct config {
    uint64_t round;
    const char *dir, *key;
    unsigned char secret[DLR_WIRE_TOKEN];
    int32_t *accept, *fetch, *own;
    unsigned naccept, nfetch, nown;
    bool resized, local;
    struct in6_addr *hosts; /* NULL: any */
    unsigned nhosts;
};

static int read_token(const char *text, unsigned char *secret)
{
    static const char digits[] = "0123456789abcdef";

    if (strlen(text) != 2 * DLR_WIRE_TOKEN)
        return -EBADMSG;
    for (unsigned i = 0; i < 2 * DLR_WIRE_TOKEN; i++) {
        const char *digit = strchr(digits, text[i]);

        if (!digit)
            return -EBADMSG;
        secret[i / 2] = (unsigned char)(secret[i / 2] << 4 | (digit - digits));
    }
    return 0;
}

static int read_ranks(const json_t *list, int32_t **ret, unsigned *ret_n)
{
    size_t i;
    json_t *rank;

    if (!json_is_array(list))
        return -EBADMSG;
    *ret = calloc(json_array_size(list) + 1, sizeof(**ret));
    if (!*ret)
        return -ENOMEM;
    json_array_foreach(list, i, rank)
    {
        json_int_t value = json_integer_value(rank);

        if (!json_is_integer(rank) || value < 0 || value > INT32_MAX)
            return -EBADMSG;
        (*ret)[(*ret_n)++] = (int32_t)value;
    }
    return 0;
}

static int read_hosts(const json_t *list, struct config *c)
{
    size_t i;
    json_t *host;

    if (!json_is_array(list))
        return -EBADMSG;
    c->hosts = calloc(json_array_size(list) + 1, sizeof(*c->hosts));
    if (!c->hosts)
        return -ENOMEM;
    json_array_foreach(list, i, host)
    {
        const char *text = json_string_value(host);

        if (!text || !dlr_listen_number(text, &c->hosts[c->nhosts++]))
            return -EBADMSG;
    }
    return 0;
}

static int read_config(const json_t *json, struct config *c)
{
    const json_t *own = json_object_get(json, "own");
    const char *token;
    int rc = dlr_msg_uint(json, "round", UINT32_MAX, &c->round);

    if (rc == 0)
        rc = dlr_msg_str(json, "dir", &c->dir);
    if (rc == 0)
        rc = dlr_msg_str(json, "key", &c->key);
    if (rc == 0)
        rc = dlr_msg_str(json, "token", &token);
    if (rc == 0)
        rc = read_token(token, c->secret);
    if (rc == 0)
        rc = read_ranks(json_object_get(json, "accept"), &c->accept, &c->naccept);
    if (rc == 0 && json_object_get(json, "fetch"))
        rc = read_ranks(json_object_get(json, "fetch"), &c->fetch, &c->nfetch);
    if (rc == 0 && own)
        rc = read_ranks(own, &c->own, &c->nown);
    if (rc == 0 && json_object_get(json, "hosts"))
        rc = read_hosts(json_object_get(json, "hosts"), c);
    c->resized = json_is_true(json_object_get(json, "resized"));
    c->local = !json_is_false(json_object_get(json, "local"));
    return rc;
}

/* A slot that was half received when a data process died: nobody will finish it. Those
 * of ranks that run here their workers write.
 */
static void discard_unfinished(struct dlr_data *d)
{
    for (struct dlr_slot_table_slot *held = d->held.first; held; held = held->next) {
        enum dlr_slot_state state = dlr_slot_state(held->slot);

        if (dlr_rank_among(d->accept, d->naccept, held->rank) && !held->writing &&
            (state == DLR_SLOT_COPYING ||
             (state == DLR_SLOT_OPEN &&
              !dlr_rank_among(d->held.own, d->held.nown, held->rank))))
            dlr_slot_set_state(held->slot, DLR_SLOT_DEAD);
    }
}

/* Not a copy that was fetched for a restore which is over. */
static bool is_read(void *arg, const struct dlr_slot_table_slot *held)
{
    const struct dlr_data *d = arg;

    return held->k != DLR_STORE_FETCHED ||
           dlr_rank_among(d->fetch, d->nfetch, held->rank);
}

/* Nor one in which another number of ranks has left nothing that is good. */
static bool is_kept(void *arg, const struct dlr_slot_table_slot *held)
{
    const struct dlr_data *d = arg;
    enum dlr_slot_state state = dlr_slot_state(held->slot);

    if (held->k == DLR_STORE_FETCHED || !d->resized)
        return is_read(arg, held);
    return dlr_rank_among(d->accept, d->naccept, held->rank) ||
           dlr_parity_order_of(d->parity_orders, held->rank, true) ||
           (state != DLR_SLOT_FREE && state != DLR_SLOT_DEAD);
}

static void open_dir(struct dlr_data *d, const char *path)
{
    struct dlr_err err;

    if (d->dir >= 0)
        return;
    d->dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (d->dir < 0)
        dlr_error("cannot open '%s': %m", path);
    else if (dlr_slot_table_scan(&d->held, d->dir, &err) < 0)
        dlr_error("%s", err.text);
}

/* Its lists are ours then. True: of the same round, and turn of it, as before. */
static bool take_config(struct dlr_data *d, const struct config *c)
{
    unsigned char token[DLR_WIRE_TOKEN] = {0};
    bool again;

    free(d->accept);
    free(d->fetch);
    d->accept = c->accept;
    d->naccept = c->naccept;
    d->fetch = c->fetch;
    d->nfetch = c->nfetch;
    d->resized = c->resized;
    dlr_listen_admit(c->local, c->hosts, c->nhosts);
    if (dlr_net_set_key(d->net, c->secret, sizeof(c->secret), token) < 0 ||
        dlr_mac_round(c->secret, sizeof(c->secret), d->mac_key) < 0)
        dlr_error("no key for this round's copies can be made: nothing is copied");
    again = d->configured && d->round == (uint32_t)c->round &&
            dlr_data_same_token(d->token, token);
    free(d->held.own);
    d->held.own = c->own;
    d->held.nown = c->nown;
    if (!again) { /* the same steps come once more */
        dlr_parity_sum_round(d);
        d->held.naborted = 0;
        d->forged = false;
    }
    d->round = (uint32_t)c->round;
    d->key = dlr_slot_key(c->key);
    memcpy(d->token, token, sizeof(d->token));
    d->configured = true;
    return again;
}

static void configure(struct dlr_data *d, const struct dlr_local_msg *msg)
{
    DLR_AUTO_JSON json_t *json = NULL;
    struct config c = {0};
    bool again;
    int rc = dlr_split_take(&d->config, msg);

    if (rc == 0)
        return; /* more of it follows */
    if (rc > 0)
        json = json_loadb(d->config.text, d->config.bytes, 0, NULL);
    dlr_split_done(&d->config);
    rc = json ? read_config(json, &c) : -EBADMSG;
    if (rc < 0) {
        dlr_error("the agent sent a malformed configuration");
        free(c.accept);
        free(c.fetch);
        free(c.own);
        free(c.hosts);
        return;
    }
    again = take_config(d, &c);
    open_dir(d, c.dir);
    if (!again) /* else a worker may be writing one */
        discard_unfinished(d);
    dlr_slot_table_sweep(&d->held, d->dir, is_read, d);
    dlr_data_send_round(d);
    dlr_data_recv_round(d);
    if (!again) /* to nodes that are peers no longer, or soon made again */
        dlr_net_drop_idle(d->net);
}

static void drop(struct dlr_data *d, const struct dlr_local_msg *msg)
{
    struct dlr_version v = {(uint32_t)msg->arg[0], msg->step};

    if (msg->arg[0] == UINT32_MAX && msg->step == UINT64_MAX)
        dlr_slot_table_drop(&d->held, NULL);
    else
        dlr_slot_table_drop(&d->held, &v);
    dlr_slot_table_sweep(&d->held, d->dir, is_kept, d);
}

void dlr_stream_handle_order(struct dlr_data *d, const struct dlr_local_msg *msg)
{
    struct dlr_version v = {(uint32_t)msg->arg[0], msg->step};
    const struct dlr_version vetted = {(uint32_t)msg->arg[2], msg->arg[3]};

    switch (msg->type) {
    case DLR_LOCAL_D_CONFIG:
        configure(d, msg);
        break;
    case DLR_LOCAL_D_RESERVE:
        dlr_data_reserve(d, msg->rank, msg->arg[0],
                         msg->arg[2] == DLR_STORE_FETCHED ? DLR_STORE_FETCHED : 0,
                         msg->arg[1] > UINT16_MAX ? UINT16_MAX : (unsigned)msg->arg[1]);
        break;
    case DLR_LOCAL_D_SEND:
        dlr_data_send(d, msg);
        break;
    case DLR_LOCAL_D_LOAD:
    case DLR_LOCAL_D_ADOPT:
        dlr_data_load(d, msg);
        break;
    case DLR_LOCAL_D_SAVE:
        dlr_data_save(d, msg);
        break;
    case DLR_LOCAL_D_PARITY:
        dlr_parity_sum_begin(d, msg);
        break;
    case DLR_LOCAL_D_COMMIT:
        dlr_slot_table_commit(&d->held, v, msg->arg[1] ? &vetted : NULL);
        dlr_slot_table_sweep(&d->held, d->dir, is_kept, d);
        dlr_data_recv_decided(d);
        break;
    case DLR_LOCAL_D_ABORT:
        dlr_slot_table_abort(&d->held, v);
        dlr_data_send_abort(d, v);
        dlr_data_recv_decided(d);
        break;
    case DLR_LOCAL_D_PACE:
        dlr_bucket_rate(&d->bucket, msg->arg[0], dlr_now_ns());
        break;
    case DLR_LOCAL_D_DROP:
        drop(d, msg);
        break;
    default:
        d->dropped++;
        return;
    }
    dlr_slot_table_freed(&d->held);
}
