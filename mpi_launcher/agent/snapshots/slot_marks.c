/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of this node's own ranks are marked here, and here alone: the worker takes
 * those that are FREE or DEAD when its step begins, so a mark that comes late would
 * fall into a slot that it has begun to fill again. What the data process still reads
 * is marked when it has ended. Partners' slots are the data process's.
 */
#include "mpi_launcher/agent/snapshots/parts.h"

bool dlr_agent_save_is_open(const struct dlr_agent_snapshots *s, uint64_t step)
{
    for (unsigned i = 0; i < s->nopen; i++)
        if (s->open[i] == step)
            return true;
    return false;
}

/* With the round's first order every rank has what it wanted of what there was: from
 * then on what the round began from frees older versions, like a commit of its own.
 */
bool dlr_agent_save_knows_newest(const struct dlr_agent_snapshots *s)
{
    return s->committed.round == s->round->round || s->save_step > 0;
}

/* Newer than what is committed, or what the round began from, and not to be decided any
 * more: it was decided against, perhaps long ago when a slow reader held the slot.
 */
static bool is_void(const struct dlr_agent_snapshots *s, struct dlr_version v)
{
    if (s->has_committed && dlr_version_cmp(v, s->committed) <= 0)
        return false;
    return v.round != s->round->round || !dlr_agent_save_is_open(s, v.step);
}

static bool get_version(const struct dlr_slot *slot, struct dlr_version *ret)
{
    struct dlr_slot_info info;
    enum dlr_slot_state state;

    if (!slot)
        return false;
    state = dlr_slot_state(slot);
    if ((state != DLR_SLOT_SEALED && state != DLR_SLOT_COMMITTED) ||
        dlr_slot_info(slot, &info) < 0)
        return false;
    *ret = info.version;
    return true;
}

/* A rank without a slot for it would have none left for the next save. */
static bool is_kept(const struct dlr_agent_snapshots *s, const struct dlr_agent_rank *r,
                    struct dlr_version v)
{
    return s->has_vetted && r->spare_slot && dlr_version_eq(v, s->vetted);
}

void dlr_agent_save_settle(struct dlr_agent_snapshots *s, struct dlr_agent_rank *r)
{
    bool committed = s->has_committed && dlr_agent_save_knows_newest(s);

    for (unsigned k = 0; k < DLR_STORE_SLOTS_MAX; k++) {
        struct dlr_version held;

        if (!r->slots[k] || !dlr_slot_has_head(r->slots[k]))
            continue; /* the data process finds it, and makes it memory again */
        if (!r->reading[k] && (r->corrupt[k] || dlr_slot_damaged(r->slots[k]))) {
            dlr_slot_set_state(r->slots[k], DLR_SLOT_DEAD);
            r->corrupt[k] = false;
        }
        if (!get_version(r->slots[k], &held))
            continue;
        if (committed && dlr_version_eq(held, s->committed))
            dlr_slot_set_state(r->slots[k], DLR_SLOT_COMMITTED);
        else if (r->reading[k] || is_kept(s, r, held))
            continue;
        else if (committed && dlr_version_cmp(held, s->committed) < 0)
            dlr_slot_set_state(r->slots[k], DLR_SLOT_FREE);
        else if (is_void(s, held))
            dlr_slot_set_state(r->slots[k], DLR_SLOT_DEAD);
    }
}
