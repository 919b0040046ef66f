/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/ckpt/stream/data_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct dlr_version v7 = {ROUND, 7};

void pair_up(struct pair *p, uint64_t data, const char *option)
{
    rig_start(&p->from, NULL, option);
    rig_start(&p->to, NULL, option);
    pair_fill(p, data);
}

void pair_fill(struct pair *p, uint64_t data)
{
    p->data = data;
    rig_config(&p->from, ROUND, RIG_TOKEN, "[]");
    rig_config(&p->to, ROUND, RIG_TOKEN, "[2,3]");
    assert_int_equal(rig_reserve(&p->from, RANK, rig_slot_bytes(data)), 0);
    assert_int_equal(rig_reserve(&p->to, RANK, rig_slot_bytes(data)), 0);
    p->src = rig_slot(&p->from, RANK, 0);
    p->dst[0] = rig_slot(&p->to, RANK, 0);
    p->dst[1] = rig_slot(&p->to, RANK, 1);
    rig_snapshot(p->src, RANK, v7, data);
}

void pair_down(struct pair *p)
{
    dlr_slot_unmap(p->src);
    dlr_slot_unmap(p->dst[0]);
    dlr_slot_unmap(p->dst[1]);
    if (p->from.pid)
        rig_end(&p->from);
    if (p->to.pid)
        rig_end(&p->to);
    rig_remove(&p->from);
    rig_remove(&p->to);
}

void pair_send(struct pair *p, struct dlr_version v, uint64_t id)
{
    rig_order(&p->from, DLR_LOCAL_D_SEND, ROUND, RANK, v, id, p->to.address);
}

bool pair_any_whole(const struct pair *p)
{
    for (unsigned k = 0; k < 2; k++)
        if (dlr_slot_state(p->dst[k]) == DLR_SLOT_SEALED ||
            dlr_slot_state(p->dst[k]) == DLR_SLOT_COMMITTED)
            return true;
    return false;
}

struct dlr_slot *pair_expect_copy(struct pair *p, const struct dlr_slot *from)
{
    struct dlr_slot_info want, have;

    assert_int_equal(dlr_slot_info(from, &want), 0);
    for (unsigned k = 0; k < 2; k++) {
        if (dlr_slot_state(p->dst[k]) < DLR_SLOT_SEALED ||
            dlr_slot_state(p->dst[k]) > DLR_SLOT_COMMITTED ||
            dlr_slot_info(p->dst[k], &have) < 0 ||
            !dlr_version_eq(have.version, want.version))
            continue;
        assert_true(rig_same(p->dst[k], from));
        return p->dst[k];
    }
    fail_msg("the receiver has no whole copy");
    return NULL;
}

/* Orders come in turn, and an answer to a later one says that the earlier were done. */
void pair_settle(struct rig_data *p)
{
    rig_order(p, DLR_LOCAL_D_SEND, ROUND, 99, v7, 77, "00");
    assert_int_not_equal(rig_done(p, 77, NULL, 0), 0);
}
