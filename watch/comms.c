/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/comms.h"

#include "watch/look.h"
#include "watch/write.h"

static uint64_t used_ns(const struct dlr_watch_comm *comm)
{
    const uint64_t entered_ns = DLR_WATCH_GET(comm->entered_ns);
    const uint64_t left_ns = DLR_WATCH_GET(comm->left_ns);

    return entered_ns > left_ns ? entered_ns : left_ns;
}

static bool may_go(const struct dlr_watch_comm *comm)
{
    return DLR_WATCH_GET(comm->id) != DLR_LOOK_WORLD &&
           !(DLR_WATCH_GET(comm->version) & 1) &&
           DLR_WATCH_GET(comm->left) >= DLR_WATCH_GET(comm->entered);
}

/* Its own line, else a free one, else the one that was used longest ago; -1: none. */
static int choose(struct dlr_watch_page *page, uint64_t id)
{
    int free_line = -1, oldest = -1;

    for (int i = 0; i < DLR_WATCH_COMMS; i++) {
        const uint64_t has = DLR_WATCH_GET(page->comms[i].id);

        if (has == id)
            return i;
        if (has == 0 && free_line < 0)
            free_line = i;
        if (has != 0 && may_go(&page->comms[i]) &&
            (oldest < 0 || used_ns(&page->comms[i]) < used_ns(&page->comms[oldest])))
            oldest = i;
    }
    return free_line >= 0 ? free_line : oldest;
}

static bool give(struct dlr_watch_comm *comm, const struct dlr_watch_member *member,
                 uint64_t now_ns)
{
    if (!dlr_watch_begin(&comm->version))
        return false;
    if (DLR_WATCH_GET(comm->left) < DLR_WATCH_GET(comm->entered)) {
        dlr_watch_end(&comm->version); /* it has entered since it was chosen */
        return false;
    }
    DLR_WATCH_PUT(comm->id, member->id);
    DLR_WATCH_PUT(comm->parent, member->parent);
    DLR_WATCH_PUT(comm->size, member->size);
    DLR_WATCH_PUT(comm->my_rank, member->my_rank);
    DLR_WATCH_PUT(comm->lost, member->lost);
    DLR_WATCH_PUT(comm->op, 0);
    DLR_WATCH_PUT(comm->type, 0);
    DLR_WATCH_PUT(comm->root, DLR_WATCH_NO_ROOT);
    DLR_WATCH_PUT(comm->bytes, 0);
    DLR_WATCH_PUT(comm->entered, member->entered);
    DLR_WATCH_PUT(comm->left, member->left);
    DLR_WATCH_PUT(comm->entered_ns, now_ns);
    DLR_WATCH_PUT(comm->left_ns, now_ns);
    dlr_watch_end(&comm->version);
    return true;
}

int dlr_watch_comm_open(struct dlr_watch_page *page,
                        const struct dlr_watch_member *member, uint64_t now_ns)
{
    uint32_t idle = 0;
    int line = -1;

    if (member->id && atomic_compare_exchange_strong(&page->comms_lock, &idle, 1)) {
        line = choose(page, member->id);
        if (line >= 0 && DLR_WATCH_GET(page->comms[line].id) != member->id &&
            !give(&page->comms[line], member, now_ns))
            line = -1;
        atomic_store(&page->comms_lock, 0);
    }
    if (line < 0)
        atomic_fetch_add_explicit(&page->lost, 1, memory_order_relaxed);
    return line;
}

static void put(struct dlr_watch_comm *comm, const struct dlr_watch_state *state,
                uint64_t now_ns)
{
    if (DLR_WATCH_GET(comm->entered) != state->entered)
        DLR_WATCH_PUT(comm->entered_ns, now_ns);
    if (DLR_WATCH_GET(comm->left) != state->left)
        DLR_WATCH_PUT(comm->left_ns, now_ns);
    DLR_WATCH_PUT(comm->op, state->op);
    DLR_WATCH_PUT(comm->type, state->type);
    DLR_WATCH_PUT(comm->root, state->root);
    DLR_WATCH_PUT(comm->lost, state->lost);
    DLR_WATCH_PUT(comm->bytes, state->bytes);
    DLR_WATCH_PUT(comm->entered, state->entered);
    DLR_WATCH_PUT(comm->left, state->left);
}

bool dlr_watch_comm_put(struct dlr_watch_page *page, int line, uint64_t id,
                        const struct dlr_watch_state *state, uint64_t now_ns)
{
    struct dlr_watch_comm *comm = line >= 0 ? &page->comms[line] : NULL;
    bool ours;

    if (!comm || DLR_WATCH_GET(comm->id) != id || !dlr_watch_begin(&comm->version))
        return false;
    ours = DLR_WATCH_GET(comm->id) == id;
    if (ours)
        put(comm, state, now_ns);
    dlr_watch_end(&comm->version);
    return ours;
}

void dlr_watch_comm_close(struct dlr_watch_page *page, int line, uint64_t id)
{
    struct dlr_watch_comm *comm = line >= 0 ? &page->comms[line] : NULL;

    if (!comm || DLR_WATCH_GET(comm->id) != id || !dlr_watch_begin(&comm->version))
        return;
    if (DLR_WATCH_GET(comm->id) == id) {
        DLR_WATCH_PUT(comm->id, 0);
        DLR_WATCH_PUT(comm->entered, 0);
        DLR_WATCH_PUT(comm->left, 0);
    }
    dlr_watch_end(&comm->version);
}
