/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of the version to restore that this node holds, of whatever rank: for workers
 * that read them.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/snapshots/parts.h"

static bool holds(const struct dlr_agent_snapshots *s, int32_t rank,
                  const struct dlr_slot *slot)
{
    enum dlr_slot_state state = DLR_SLOT_DEAD;
    struct dlr_slot_info info;

    if (dlr_slot_has_head(slot))
        state = dlr_slot_state(slot);
    return (state == DLR_SLOT_SEALED || state == DLR_SLOT_COMMITTED) &&
           dlr_slot_info(slot, &info) == 0 && info.rank == rank &&
           info.key == dlr_slot_key(s->self->conf.key) &&
           dlr_version_eq(info.version, s->round->restore);
}

/* The slot that holds the version, mapped, and its number: unmap, close. -1 when none
 * does here.
 */
static int find_slot(const struct dlr_agent_snapshots *s, int32_t rank, bool write,
                     struct dlr_slot **ret, unsigned *ret_k)
{
    int mode = write ? O_RDWR : O_RDONLY;

    for (unsigned k = 0; k <= DLR_STORE_FETCHED; k++) {
        DLR_AUTO_CLOSE int fd = -1;
        struct dlr_slot *slot;
        struct dlr_err err;
        char name[64];

        dlr_store_name(rank, k, name, sizeof(name));
        fd = openat(s->self->dir_fd, name, mode | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 || dlr_slot_map(fd, write, &slot, &err) < 0)
            continue;
        if (holds(s, rank, slot)) {
            *ret = slot;
            *ret_k = k;
            return dlr_steal_fd(&fd);
        }
        dlr_slot_unmap(slot);
    }
    return -1;
}

/* A descriptor for reading of it. */
int dlr_agent_held_open(const struct dlr_agent_snapshots *s, int32_t rank)
{
    struct dlr_slot *slot;
    unsigned k;
    int fd = find_slot(s, rank, false, &slot, &k);

    if (fd >= 0)
        dlr_slot_unmap(slot);
    return fd;
}

void dlr_agent_peek_discard_slot(struct dlr_agent_snapshots *s, int32_t rank)
{
    struct dlr_agent_rank *r = dlr_agent_rank(s, rank, false);
    struct dlr_slot *slot;
    unsigned k;
    DLR_AUTO_CLOSE int fd = find_slot(s, rank, true, &slot, &k);

    if (fd < 0)
        return;
    dlr_agent_changed(s->base);
    if (r && k < DLR_STORE_SLOTS_MAX && r->reading[k])
        r->corrupt[k] = true;
    else
        dlr_slot_set_state(slot, DLR_SLOT_DEAD);
    dlr_slot_unmap(slot);
}

void dlr_agent_peek_answer(struct dlr_agent_snapshots *s, struct dlr_agent_conn *c,
                           int32_t rank, int rc, const char *text)
{
    DLR_AUTO_CLOSE int fd = rc == 0 && !text[0] ? dlr_agent_held_open(s, rank) : -1;
    struct dlr_local_msg m;

    dlr_local_init(&m, DLR_LOCAL_PEEKED);
    m.round = s->round->round;
    m.rank = c->rank;
    m.arg[0] = (uint64_t)rank;
    if (rc == 0 && !text[0] && fd < 0) {
        rc = -ENOENT;
        text = "its copy has gone";
    }
    m.arg[1] = (uint64_t)-rc;
    dlr_local_text(&m, "%s", text);
    dlr_agent_local_send(c, &m, &fd, fd >= 0);
}
