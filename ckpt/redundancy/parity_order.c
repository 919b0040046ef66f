/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/redundancy/parity_order.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ckpt/redundancy/parity.h"

static_assert(DLR_PARITY_TERMS_MAX == DLR_PARITY_DATA_MAX, "a sum has a set's terms");

bool dlr_parity_order_is_shard(const struct dlr_parity_order *o, int32_t rank)
{
    return (uint32_t)rank >= o->world;
}

int dlr_parity_order_term(const struct dlr_parity_order *o, int32_t rank)
{
    for (unsigned i = 0; i < o->n; i++)
        if (o->term[i].rank == rank)
            return (int)i;
    return -1;
}

struct dlr_parity_order *dlr_parity_order_for(struct dlr_parity_order *list,
                                              int32_t rank, struct dlr_version v,
                                              bool same_world)
{
    struct dlr_parity_order *o = list;

    while (o && (dlr_parity_order_term(o, rank) < 0 ||
                 !(o->any ? same_world : dlr_version_eq(o->version, v))))
        o = o->next;
    return o;
}

/* A rank of another number of ranks may be called what a shard of this round is. */
struct dlr_parity_order *dlr_parity_order_of(struct dlr_parity_order *list,
                                             int32_t target, bool any)
{
    struct dlr_parity_order *o = list;

    while (o && (o->target != target || o->any != any))
        o = o->next;
    return o;
}

void dlr_parity_order_del(struct dlr_parity_order **list, struct dlr_parity_order *o)
{
    while (*list && *list != o)
        list = &(*list)->next;
    if (*list)
        *list = o->next;
    free(o);
}

int dlr_parity_order_read(const struct dlr_local_msg *msg, struct dlr_parity_order *o)
{
    const char *at = msg->text;
    int used = 0;

    *o = (struct dlr_parity_order){.target = msg->rank,
                                   .any = msg->arg[0] == UINT32_MAX,
                                   .version = {(uint32_t)msg->arg[0], msg->step},
                                   .id = msg->arg[1]};
    if (sscanf(at, "%u%n", &o->world, &used) != 1 || at[used] != ' ')
        return -EBADMSG;
    at += used + 1;
    while (*at) {
        struct dlr_parity_term *t = &o->term[o->n];
        unsigned coef;

        if (o->n == DLR_PARITY_TERMS_MAX ||
            sscanf(at, "%d*%u%n", &t->rank, &coef, &used) != 2 || t->rank < 0 ||
            coef > 255 || dlr_parity_order_term(o, t->rank) >= 0)
            return -EBADMSG;
        t->coef = (unsigned char)coef;
        o->n++;
        at += used + (at[used] == ' ');
    }
    return o->n && o->target >= 0 && o->any == dlr_parity_order_is_shard(o, o->target)
               ? 0
               : -EBADMSG;
}
