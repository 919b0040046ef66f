/* SPDX-License-Identifier: Apache-2.0 */
/* Under a job: what is restored, and what other ranks had. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "ckpt/persist/slot_file.h"
#include "ckpt/restore/load.h"
#include "ckpt/restore/reshape.h"
#include "ckpt/slot/meta.h"
#include "ckpt/supervised/supervised.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/local/agent_socket.h"

/* A slot must be what the agent said it is: of this version, rank and number of ranks.
 */
static int check_slot(struct dlr_ckpt *ck, const struct dlr_slot *slot, int rank,
                      struct dlr_slot_info *info, struct dlr_err *err)
{
    struct supervised *sup = ck->mode;
    enum dlr_slot_state state = dlr_slot_state(slot);

    if (state != DLR_SLOT_SEALED && state != DLR_SLOT_COMMITTED)
        return dlr_fail(err, -EBADMSG, "the slot is in state %d, not sealed",
                        (int)state);
    if (dlr_slot_info(slot, info) < 0)
        return dlr_fail(err, -EBADMSG, "the snapshot's head is corrupt");
    if (!dlr_version_eq(info->version, sup->offer))
        return dlr_fail(
            err, -EBADMSG,
            "the slot holds version %" PRIu32 ".%" PRIu64 ", not %" PRIu32 ".%" PRIu64,
            info->version.round, info->version.step, sup->offer.round, sup->offer.step);
    if (info->rank != rank)
        return dlr_fail(err, -EBADMSG, "the snapshot is rank %" PRId32 "'s, not %d's",
                        info->rank, rank);
    if (info->world != sup->offer_world)
        return dlr_fail(err, -EBADMSG,
                        "the snapshot is of %" PRIu32 " ranks, not of %" PRIu32,
                        info->world, sup->offer_world);
    return 0;
}

/* --- other ranks ------------------------------------------------------------------ */

/* Asks the agent on a connection of its own: the worker's is the saver's once restore
 * is over.
 */
static int ask(struct dlr_ckpt *ck, struct dlr_local_msg *msg,
               enum dlr_local_type answer, int *ret_fd, struct dlr_err *err)
{
    struct supervised *sup = ck->mode;
    const struct timeval limit = {.tv_sec = DLR_FETCH_MS / 1000};
    DLR_AUTO_CLOSE int sock = -1;
    int fds[DLR_LOCAL_FDS], rc;
    unsigned nfds = 0;

    rc = dlr_agent_socket_connect(DLR_CONNECT_MS, &sock, err);
    if (rc < 0)
        return rc;
    msg->round = sup->round;
    msg->rank = ck->conf.rank;
    if (answer == DLR_LOCAL_PEEKED) /* it may have to come over the network first */
        setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    rc = dlr_local_send(sock, msg, NULL, 0);
    if (rc == 0)
        rc = dlr_local_recv(sock, msg, fds, &nfds);
    if (rc <= 0 || msg->type != answer)
        return dlr_fail(err, rc < 0 ? rc : -ECONNRESET, "the agent does not answer");
    for (unsigned i = 1; i < nfds; i++)
        close(fds[i]);
    *ret_fd = nfds ? fds[0] : -1;
    return 0;
}

int dlr_supervised_mark_bad(struct dlr_ckpt *ck, uint64_t step)
{
    DLR_AUTO_CLOSE int fd = -1;
    struct dlr_local_msg msg;

    dlr_local_init(&msg, DLR_LOCAL_BAD);
    msg.step = step;
    return ask(ck, &msg, DLR_LOCAL_BAD_REPORTED, &fd, &ck->err);
}

/* The agent's answer: a slot of this node's memory, or the path of a file. */
static int open_source(void *arg, int rank, struct dlr_slot **ret, struct dlr_err *err)
{
    struct dlr_ckpt *ck = arg;
    struct supervised *sup = ck->mode;
    DLR_AUTO_CLOSE int fd = -1;
    struct dlr_local_msg msg;
    struct dlr_slot_info info;
    struct dlr_slot *slot;
    struct dlr_err why;
    bool saved;
    int rc;

    dlr_local_init(&msg, DLR_LOCAL_PEEK);
    msg.arg[0] = (uint64_t)rank;
    rc = ask(ck, &msg, DLR_LOCAL_PEEKED, &fd, err);
    if (rc < 0)
        return rc;
    if (msg.arg[1] != 0)
        return dlr_fail(err, -(int)(msg.arg[1] & INT32_MAX), "rank %d: %s", rank,
                        msg.text);
    saved = fd < 0;
    if (saved)
        fd = open(msg.text, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return dlr_fail(err, -errno, "rank %d: cannot open '%s': %m", rank, msg.text);
    rc = saved ? dlr_slot_file_map_by(sup->heads, fd, rank, &slot, &why)
               : dlr_slot_map(fd, false, &slot, &why);
    if (rc < 0)
        return dlr_fail(err, rc, "rank %d: %s", rank, why.text);
    rc = check_slot(ck, slot, rank, &info, &why);
    if (rc < 0) {
        dlr_slot_unmap(slot);
        return dlr_fail(err, rc, "rank %d: %s", rank, why.text);
    }
    *ret = slot;
    return 0;
}

int dlr_supervised_peek(struct dlr_ckpt *ck, int rank, struct dlr_slot **ret_slot)
{
    return open_source(ck, rank, ret_slot, &ck->err);
}

/* This rank's own slot: given with the welcome, or asked for like another rank's. */
static int check_offer(struct dlr_ckpt *ck, struct dlr_slot_info *info,
                       struct dlr_err *err)
{
    struct supervised *sup = ck->mode;
    int rc = 0;

    if (sup->offer_elsewhere && !sup->offer_slot)
        rc = open_source(ck, ck->conf.rank, &sup->offer_slot, err);
    if (rc < 0)
        return rc;
    if (!sup->offer_slot)
        return dlr_fail(err, -EBADMSG, "%s", sup->offer_fault);
    rc = check_slot(ck, sup->offer_slot, ck->conf.rank, info, err);
    if (rc == 0 && info->key != ck->key && !sup->offer_elsewhere)
        return dlr_fail(err, -EBADMSG, "the snapshot is another run's");
    return rc;
}

/* --- restore ---------------------------------------------------------------------- */

int dlr_supervised_list(struct dlr_ckpt *ck, struct dlr_ckpt_version *ret, unsigned max)
{
    struct supervised *sup = ck->mode;
    struct dlr_slot_info info = {0};
    int rc = 0;

    if (!sup->offered || max == 0)
        return 0;
    if (sup->offer_world == (uint32_t)ck->conf.world)
        rc = check_offer(ck, &info, &ck->err);
    if (rc < 0)
        return rc; /* not 0: a rank must not begin anew beside ranks that load it */
    *ret = (struct dlr_ckpt_version){sup->offer.round, sup->offer.step, info.data_bytes,
                                     sup->offer_world};
    return 1;
}

int dlr_supervised_offer(struct dlr_ckpt *ck, uint32_t *ret_world)
{
    struct supervised *sup = ck->mode;

    *ret_world = sup->offer_world;
    return sup->offered;
}

static int load(struct dlr_ckpt *ck)
{
    struct supervised *sup = ck->mode;
    const struct dlr_page *page = ck->page;
    const struct dlr_sources from = {sup->offer_world, open_source, ck, page->mates,
                                     page->nmates <= DLR_PAGE_MATES ? page->nmates : 0};
    struct dlr_slot_info info;
    bool cut = false;
    int rc;

    if (sup->offer_world != (uint32_t)ck->conf.world)
        return dlr_reshape(&from, ck->conf.rank, &ck->regions, &ck->unmatched, ck->ops,
                           ck->dev, &ck->err);
    rc = check_offer(ck, &info, &ck->err);
    ck->unmatched.differs = false;
    if (rc == 0) {
        rc = dlr_load(sup->offer_slot, &ck->regions, &ck->unmatched, ck->ops, ck->dev,
                      &ck->err);
        cut = ck->unmatched.differs && dlr_load_is_cut(sup->offer_slot, &ck->regions);
    }
    sup->offer_slot = dlr_slot_unmap(sup->offer_slot);
    if (cut)
        return dlr_reshape(&from, ck->conf.rank, &ck->regions, &ck->unmatched, ck->ops,
                           ck->dev, &ck->err);
    ck->unmatched.corrupt_of =
        rc == -EBADMSG && !ck->unmatched.differs ? (uint32_t)ck->conf.rank + 1 : 0;
    if (rc > 0)
        rc = dlr_join(&from, ck->conf.rank, &ck->regions, &ck->unmatched, ck->ops,
                      ck->dev, &ck->err);
    return rc;
}

/* The agent learns that this rank has loaded the version, or why not. */
static int report(struct dlr_ckpt *ck, int rc)
{
    struct supervised *sup = ck->mode;
    struct dlr_local_msg *msg =
        dlr_supervised_compose(ck, DLR_LOCAL_RESTORED, sup->offer.step);

    msg->arg[0] = sup->offer.round;
    msg->arg[1] = (uint64_t)-rc;
    msg->arg[2] = ck->unmatched.differs;
    msg->arg[3] = rc < 0 ? ck->unmatched.corrupt_of : 0;
    if (rc < 0)
        dlr_local_text(msg, "%s", ck->err.text);
    return dlr_supervised_tell(sup);
}

int dlr_supervised_restore(struct dlr_ckpt *ck, uint64_t *ret_step)
{
    struct supervised *sup = ck->mode;
    DLR_CLEANUP(dlr_slot_file_heads_done) struct dlr_slot_file_heads heads = {0};
    int64_t began = dlr_now_ns();
    int fds[DLR_LOCAL_FDS], rc;
    struct dlr_err why;
    unsigned nfds = 0;

    if (!sup->offered)
        return 0;
    sup->heads = &heads;
    rc = load(ck);
    sup->heads = NULL;
    ck->load_ns = (uint64_t)(dlr_now_ns() - began);
    sup->offered = false;
    why = ck->err;
    if (report(ck, rc) < 0)
        return dlr_fail(&ck->err, -ECONNRESET, "the agent is gone");
    if (rc < 0) {
        /* All ranks load the same version or none goes on: the round is about to end.
         */
        dlr_supervised_await(ck, DLR_LOCAL_GO, fds, &nfds);
        ck->err = why;
        return rc;
    }
    rc = dlr_supervised_await(ck, DLR_LOCAL_GO, fds, &nfds);
    if (rc < 0)
        return rc;
    ck->from_world = sup->offer_world;
    *ret_step = sup->offer.step;
    return 1;
}
