/* SPDX-License-Identifier: Apache-2.0 */
#include "feed/order.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/base/str.h"

#define NO_WINDOW UINT64_MAX

static int parse_number(const char *text, size_t size, uint32_t *ret)
{
    char digits[12];
    unsigned value = 0;

    if (size >= sizeof(digits))
        return -ERANGE;
    memcpy(digits, text, size);
    digits[size] = '\0';
    if (dlr_parse_uint(digits, INT_MAX, &value) < 0 || value == 0)
        return -EINVAL;
    *ret = value;
    return 0;
}

int dlr_order_parse(const char *text, struct dlr_order *ret, struct dlr_err *err)
{
    struct dlr_order order = {DLR_ORDER_FULL, 1, 1};
    const char *block = text ? dlr_after(text, "blocks:") : NULL;
    int rc = 0;

    if (block) {
        const size_t size = strcspn(block, "x");

        order.kind = DLR_ORDER_BLOCKS;
        rc = parse_number(block, size, &order.block);
        if (rc == 0 && block[size])
            rc =
                parse_number(block + size + 1, strlen(block + size + 1), &order.window);
    } else if (dlr_streq(text, "none")) {
        order.kind = DLR_ORDER_NONE;
    } else if (text && !dlr_streq(text, "full")) {
        rc = -EINVAL;
    }
    if (rc < 0)
        return dlr_fail(err, -EINVAL,
                        "order '%s' is not full, blocks:B, blocks:BxK or none", text);
    *ret = order;
    return 0;
}

void dlr_order_format(const struct dlr_order *order, char ret[DLR_ORDER_TEXT])
{
    if (order->kind == DLR_ORDER_BLOCKS)
        snprintf(ret, DLR_ORDER_TEXT, "blocks:%ux%u", order->block, order->window);
    else
        snprintf(ret, DLR_ORDER_TEXT, "%s",
                 order->kind == DLR_ORDER_NONE ? "none" : "full");
}

void dlr_epoch_init(struct dlr_epoch *e, const struct dlr_order *order, uint64_t length,
                    uint64_t key)
{
    e->order = *order;
    e->length = length;
    e->key = key;
    e->window_at = NO_WINDOW;
    if (order->kind == DLR_ORDER_FULL)
        dlr_permute_init(&e->all, length, key);
    if (order->kind != DLR_ORDER_BLOCKS)
        return;
    e->blocks = (length - 1) / order->block + 1;
    e->last = length - (e->blocks - 1) * order->block;
    dlr_permute_init(&e->all, e->blocks, key);
    e->last_at = dlr_permute_find(&e->all, e->blocks - 1);
}

/* The records that stand before a block: only the last one has fewer than the others.
 */
static uint64_t before(const struct dlr_epoch *e, uint64_t block_at)
{
    const uint64_t records = block_at * e->order.block;

    return block_at > e->last_at ? records - e->order.block + e->last : records;
}

/* The block in which a record's place is, by places of blocks. */
static uint64_t block_of(const struct dlr_epoch *e, uint64_t place)
{
    const uint64_t short_from = e->last_at * e->order.block;

    if (place < short_from)
        return place / e->order.block;
    if (place < short_from + e->last)
        return e->last_at;
    return (place - e->last) / e->order.block + 1;
}

static uint64_t at_of_blocks(struct dlr_epoch *e, uint64_t place)
{
    const uint64_t window = block_of(e, place) / e->order.window,
                   first = window * e->order.window, from = before(e, first);
    uint64_t end = first + e->order.window, block_at;

    if (window != e->window_at) {
        end = end < e->blocks ? end : e->blocks;
        dlr_permute_init(&e->window, before(e, end) - from,
                         dlr_permute_mix(e->key, window + 1));
        e->window_at = window;
    }
    place = from + dlr_permute_at(&e->window, place - from);
    block_at = block_of(e, place);
    return dlr_permute_at(&e->all, block_at) * e->order.block + place -
           before(e, block_at);
}

uint64_t dlr_epoch_at(struct dlr_epoch *e, uint64_t place)
{
    if (e->order.kind == DLR_ORDER_FULL)
        return dlr_permute_at(&e->all, place);
    return e->order.kind == DLR_ORDER_NONE ? place : at_of_blocks(e, place);
}
