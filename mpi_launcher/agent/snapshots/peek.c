/* SPDX-License-Identifier: Apache-2.0 */
/* A worker asks for another rank's slot of the version to restore: from this node's memory, or
 * from where the supervisor has it brought from (fetch.c). A file is only named, for its file
 * system may hang and the reactor must not.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/agent.h"

static bool holds(const struct dlr_agent *a, int32_t rank, const struct dlr_slot *slot)
{
    enum dlr_slot_state state = DLR_SLOT_DEAD;
    struct dlr_slot_info info;

    if (dlr_slot_has_head(slot))
        state = dlr_slot_state(slot);
    return (state == DLR_SLOT_SEALED || state == DLR_SLOT_COMMITTED) &&
           dlr_slot_info(slot, &info) == 0 && info.rank == rank &&
           info.key == dlr_slot_key(a->self.conf.key) &&
           dlr_version_eq(info.version, a->round.restore);
}

/* The slot that holds the version, mapped, and its number: unmap, close. -1 when none does here. */
static int find_slot(const struct dlr_agent *a, int32_t rank, bool write,
                     struct dlr_slot **ret, unsigned *ret_k)
{
    int mode = write ? O_RDWR : O_RDONLY;

    for (unsigned k = 0; k <= DLR_STORE_BROUGHT; k++) {
        DLR_AUTO_CLOSE int fd = -1;
        struct dlr_slot *slot;
        struct dlr_err err;
        char name[64];

        dlr_store_name(rank, k, name, sizeof(name));
        fd = openat(a->self.dir_fd, name, mode | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 || dlr_slot_map(fd, write, &slot, &err) < 0)
            continue;
        if (holds(a, rank, slot)) {
            *ret = slot;
            *ret_k = k;
            return dlr_steal_fd(&fd);
        }
        dlr_slot_unmap(slot);
    }
    return -1;
}

/* A descriptor for reading of it. */
static int open_slot(const struct dlr_agent *a, int32_t rank)
{
    struct dlr_slot *slot;
    unsigned k;
    int fd = find_slot(a, rank, false, &slot, &k);

    if (fd >= 0)
        dlr_slot_unmap(slot);
    return fd;
}

void dlr_agent_peek_bury(struct dlr_agent *a, int32_t rank)
{
    struct dlr_agent_rank *r = dlr_agent_rank(a, rank, false);
    struct dlr_slot *slot;
    unsigned k;
    DLR_AUTO_CLOSE int fd = find_slot(a, rank, true, &slot, &k);

    if (fd < 0)
        return;
    if (r && k < DLR_STORE_SLOTS_MAX && r->reading[k])
        r->corrupt[k] = true;
    else
        dlr_slot_set_state(slot, DLR_SLOT_DEAD);
    dlr_slot_unmap(slot);
}

void dlr_agent_peek_answer(struct dlr_agent *a, struct dlr_agent_conn *c, int32_t rank,
                           int rc, const char *text)
{
    DLR_AUTO_CLOSE int fd = rc == 0 && !text[0] ? open_slot(a, rank) : -1;
    struct dlr_local_msg m;

    dlr_local_init(&m, DLR_LOCAL_PEEKED);
    m.round = a->round.round;
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

static bool is_here(const struct dlr_agent *a, int32_t rank)
{
    DLR_AUTO_CLOSE int fd = open_slot(a, rank);

    return fd >= 0;
}

void dlr_agent_peek(struct dlr_agent *a, struct dlr_agent_conn *c, uint64_t rank)
{
    if (!a->round.has_restore || rank > INT32_MAX)
        dlr_agent_peek_answer(a, c, -1, -ENOENT, "nothing was restored");
    else if (is_here(a, (int32_t)rank))
        dlr_agent_peek_answer(a, c, (int32_t)rank, 0, "");
    else
        dlr_agent_bring(a, c, (int32_t)rank);
}

void dlr_agent_bad_retell(struct dlr_agent *a)
{
    if (a->bad.known)
        dlr_agent_say(
            a->base, json_pack("{s:i, s:s, s:I, s:i, s:I}", "v", DLR_MSG_VERSION, "t",
                               "bad", "round", (json_int_t)a->bad.version.round, "rank",
                               a->bad.rank, "step", (json_int_t)a->bad.version.step));
}

void dlr_agent_bad(struct dlr_agent *a, struct dlr_agent_conn *c, uint64_t step)
{
    struct dlr_local_msg m;

    if (!a->bad.known || a->bad.version.round != a->round.round ||
        step < a->bad.version.step) {
        a->bad.known = true;
        a->bad.rank = c->rank;
        a->bad.version = (struct dlr_version){a->round.round, step};
    }
    dlr_agent_bad_retell(a);
    dlr_local_init(&m, DLR_LOCAL_BAD_TOLD);
    m.round = a->round.round;
    m.rank = c->rank;
    m.step = step;
    dlr_agent_local_send(c, &m, NULL, 0);
}
