/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent says (docs/protocol.md section 3). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/data_sum.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/msg.h"

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
            "UCX's address has %zu bytes: choose devices in UCX_NET_DEVICES", bytes);
    dlr_local_init(&msg, DLR_LOCAL_D_HELLO);
    for (size_t i = 0; i < bytes; i++) {
        msg.text[2 * i] = digits[((const unsigned char *)addr)[i] >> 4];
        msg.text[2 * i + 1] = digits[((const unsigned char *)addr)[i] & 15];
    }
    msg.text_len = (uint32_t)(2 * bytes);
    dlr_data_say(d, &msg, NULL, 0);
    return 0;
}

struct config {
    uint64_t round;
    const char *dir, *key;
    unsigned char token[DLR_WIRE_TOKEN];
    int32_t *accept;
    unsigned naccept;
};

static int read_token(const char *text, unsigned char *token)
{
    static const char digits[] = "0123456789abcdef";

    if (strlen(text) != 2 * DLR_WIRE_TOKEN)
        return -EBADMSG;
    for (unsigned i = 0; i < 2 * DLR_WIRE_TOKEN; i++) {
        const char *digit = strchr(digits, text[i]);

        if (!digit)
            return -EBADMSG;
        token[i / 2] = (unsigned char)(token[i / 2] << 4 | (digit - digits));
    }
    return 0;
}

static int read_accept(const json_t *list, struct config *c)
{
    size_t i;
    json_t *rank;

    if (!json_is_array(list))
        return -EBADMSG;
    c->accept = calloc(json_array_size(list) + 1, sizeof(*c->accept));
    if (!c->accept)
        return -ENOMEM;
    json_array_foreach(list, i, rank)
    {
        json_int_t value = json_integer_value(rank);

        if (!json_is_integer(rank) || value < 0 || value > INT32_MAX)
            return -EBADMSG;
        c->accept[c->naccept++] = (int32_t)value;
    }
    return 0;
}

static int read_config(const json_t *json, struct config *c)
{
    const char *token;
    int rc = dlr_msg_uint(json, "round", UINT32_MAX, &c->round);

    if (rc == 0)
        rc = dlr_msg_str(json, "dir", &c->dir);
    if (rc == 0)
        rc = dlr_msg_str(json, "key", &c->key);
    if (rc == 0)
        rc = dlr_msg_str(json, "token", &token);
    if (rc == 0)
        rc = read_token(token, c->token);
    return rc < 0 ? rc : read_accept(json_object_get(json, "accept"), c);
}

/* A slot that was half received when a data process died: nobody will finish it. */
static void bury_unfinished(struct dlr_data *d)
{
    for (struct dlr_held *held = d->held.first; held; held = held->next)
        for (unsigned i = 0; i < d->naccept; i++)
            if (held->rank == d->accept[i] && !held->writing &&
                dlr_slot_state(held->slot) == DLR_SLOT_OPEN)
                dlr_slot_set_state(held->slot, DLR_SLOT_DEAD);
}

static void open_dir(struct dlr_data *d, const char *path)
{
    struct dlr_err err;

    if (d->dir >= 0)
        return;
    d->dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (d->dir < 0)
        dlr_error("cannot open '%s': %m", path);
    else if (dlr_held_scan(&d->held, d->dir, &err) < 0)
        dlr_error("%s", err.text);
}

static void configure(struct dlr_data *d, const struct dlr_local_msg *msg)
{
    DLR_AUTO_JSON json_t *json = json_loadb(msg->text, msg->text_len, 0, NULL);
    struct config c = {0};
    int rc = json ? read_config(json, &c) : -EBADMSG;

    if (rc < 0) {
        dlr_error("the agent sent a malformed configuration");
        free(c.accept);
        return;
    }
    free(d->accept);
    d->accept = c.accept;
    d->naccept = c.naccept;
    if ((uint32_t)c.round != d->round)
        dlr_data_sum_round(d);
    d->round = (uint32_t)c.round;
    d->key = dlr_slot_key(c.key);
    memcpy(d->token, c.token, sizeof(d->token));
    d->configured = true;
    open_dir(d, c.dir);
    bury_unfinished(d);
    dlr_data_send_round(d);
    dlr_data_recv_round(d);
    dlr_net_drop_idle(
        d->net); /* to nodes that are peers no longer, or soon made again */
}

static void drop(struct dlr_data *d, const struct dlr_local_msg *msg)
{
    struct dlr_version v = {(uint32_t)msg->arg[0], msg->step};

    if (msg->arg[0] == UINT32_MAX && msg->step == UINT64_MAX)
        dlr_held_drop(&d->held, NULL);
    else
        dlr_held_drop(&d->held, &v);
}

void dlr_data_obey(struct dlr_data *d, const struct dlr_local_msg *msg)
{
    struct dlr_version v = {(uint32_t)msg->arg[0], msg->step};

    switch (msg->type) {
    case DLR_LOCAL_D_CONFIG:
        configure(d, msg);
        break;
    case DLR_LOCAL_D_RESERVE:
        dlr_data_reserve(d, msg->rank, msg->arg[0],
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
    case DLR_LOCAL_D_SUM:
        dlr_data_sum(d, msg);
        break;
    case DLR_LOCAL_D_COMMIT:
        dlr_held_commit(&d->held, v);
        break;
    case DLR_LOCAL_D_ABORT:
        dlr_held_abort(&d->held, v);
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
    dlr_data_recv_retry(d);
}
