/* SPDX-License-Identifier: Apache-2.0 */
/* Under a job: the node's agent gives the slots and says when to use them
 * (docs/protocol.md section 3). The program's thread uses the socket until the saver
 * runs, the saver from then on.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ckpt/base/thread_affinity.h"
#include "ckpt/client/client.h"
#include "ckpt/client/oom.h"
#include "ckpt/client/region_layout.h"
#include "ckpt/slot/meta.h"
#include "ckpt/supervised/lease.h"
#include "ckpt/supervised/supervised.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/local/agent_socket.h"
#include "common/local/message.h"

static int map_page(struct dlr_ckpt *ck, int fd)
{
    struct supervised *sup = ck->mode;
    struct dlr_page *page =
        mmap(NULL, DLR_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (page == MAP_FAILED)
        return dlr_fail(&ck->err, -errno, "cannot map the progress page: %m");
    if (lseek(fd, 0, SEEK_END) < DLR_PAGE_SIZE || page->magic != DLR_PAGE_MAGIC ||
        page->size != DLR_PAGE_SIZE || page->rank != ck->conf.rank ||
        page->round != sup->round) {
        munmap(page, DLR_PAGE_SIZE);
        return dlr_fail(&ck->err, -EBADMSG,
                        "the progress page is not that of this rank");
    }
    ck->page = page;
    return dlr_lease_follow(fd, &ck->err);
}

/* What WELCOME says and carries; closes the descriptors. */
static int take_welcome(struct dlr_ckpt *ck, const int *fds, unsigned nfds)
{
    struct supervised *sup = ck->mode;
    const struct dlr_local_msg *msg = &sup->msg;
    struct dlr_err err = {0};
    int rc = nfds > 0 ? map_page(ck, fds[0])
                      : dlr_fail(&ck->err, -EBADMSG, "the agent sent no progress page");

    ck->key = dlr_slot_key(msg->text);
    sup->offered = rc == 0 && msg->arg[0] == 1;
    sup->offer = (struct dlr_version){(uint32_t)msg->arg[1], msg->step};
    sup->offer_world = msg->arg[3] ? (uint32_t)msg->arg[3] : (uint32_t)ck->conf.world;
    sup->offer_elsewhere = msg->arg[3] == (uint64_t)ck->conf.world;
    if (sup->offered && sup->offer_world == (uint32_t)ck->conf.world &&
        !sup->offer_elsewhere) {
        if (nfds < 2 || msg->arg[2] >= nfds - 1)
            dlr_fail(&err, -EBADMSG, "the agent did not send the slot it names");
        else
            dlr_slot_map(fds[1 + msg->arg[2]], false, &sup->offer_slot, &err);
        dlr_format(sup->offer_fault, sizeof(sup->offer_fault), "%s", err.text);
    }
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
    return rc;
}

static void release(struct dlr_ckpt *ck)
{
    struct supervised *sup = ck->mode;

    for (unsigned i = 0; i < DLR_LOCAL_FDS; i++)
        dlr_slot_unmap(sup->slots[i]);
    dlr_slot_unmap(sup->offer_slot);
    if (ck->page)
        munmap(ck->page, DLR_PAGE_SIZE);
    if (sup->sock >= 0)
        close(sup->sock);
    pthread_mutex_destroy(&sup->lock);
    free(sup);
    ck->mode = NULL;
    ck->page = NULL;
}

static int join(struct dlr_ckpt *ck)
{
    struct supervised *sup = ck->mode;
    const char *round = getenv("DLROVER_ROUND");
    int fds[DLR_LOCAL_FDS], rc;
    unsigned nfds = 0;

    rc = dlr_parse_uint(round, UINT_MAX, &sup->round);
    if (rc < 0)
        return dlr_fail(&ck->err, rc, "DLROVER_ROUND='%s' must be a number", round);
    rc = dlr_agent_socket_connect(DLR_CONNECT_MS, &sup->sock, &ck->err);
    if (rc < 0)
        return rc;
    if (fcntl(sup->sock, F_SETFL, O_NONBLOCK) < 0)
        return dlr_fail(&ck->err, -errno, "cannot set up the agent's socket: %m");
    dlr_supervised_compose(ck, DLR_LOCAL_HELLO, 0)->arg[0] = (uint64_t)ck->conf.world;
    rc = dlr_supervised_tell(sup);
    if (rc < 0)
        return dlr_fail(&ck->err, rc, "cannot speak to the agent: %s", strerror(-rc));
    rc = dlr_supervised_await(ck, DLR_LOCAL_WELCOME, fds, &nfds);
    return rc < 0 ? rc : take_welcome(ck, fds, nfds);
}

static int supervised_open(struct dlr_ckpt *ck)
{
    struct supervised *sup = calloc(1, sizeof(*sup));
    int rc;

    if (!sup)
        return dlr_fail(&ck->err, -ENOMEM, "no memory");
    sup->sock = -1;
    pthread_mutex_init(&sup->lock, NULL);
    ck->mode = sup;
    rc = join(ck);
    if (rc < 0)
        release(ck);
    else
        dlr_oom_first();
    return rc;
}

/* --- in the helper thread --------------------------------------------------------- */

/* Seals the snapshot or lets the slot go, and puts the word about it into sup->msg. */
static int finish(void *arg, int rc, struct dlr_err *err)
{
    struct dlr_ckpt *ck = arg;
    struct supervised *sup = ck->mode;
    struct dlr_slot *slot = sup->slots[sup->slot];
    struct dlr_local_msg *msg;

    if (rc == 0) {
        dlr_slot_seal(slot, ck->plan);
        atomic_fetch_add(&ck->page->copied_bytes, dlr_slot_plan_data(ck->plan));
        msg = dlr_supervised_compose(ck, DLR_LOCAL_SEALED, sup->version.step);
        msg->arg[0] = sup->slot;
        msg->arg[1] = atomic_load(&ck->page->begun_step);
        msg->arg[2] = dlr_slot_plan_shared(ck->plan);
    } else {
        atomic_fetch_add(&ck->page->given_up, 1);
        dlr_slot_set_state(slot, DLR_SLOT_DEAD);
        dlr_layout_given_up(ck, sup->version.step, rc, err);
        msg = dlr_supervised_compose(ck, DLR_LOCAL_DEAD, sup->version.step);
        dlr_local_text(msg, "%s", err->text);
    }
    return rc;
}

/* An answer can be the order of the next snapshot: it must find this one finished. */
static void finished(void *arg)
{
    struct dlr_ckpt *ck = arg;
    struct supervised *sup = ck->mode;

    if (!atomic_load(&sup->gone))
        dlr_supervised_tell(sup);
}

/* What the smallest slot takes; 0: there is none yet. Under the lock. */
static uint64_t room(const struct supervised *sup)
{
    uint64_t bytes = sup->nslots ? UINT64_MAX : 0;

    for (unsigned i = 0; i < sup->nslots; i++)
        if (dlr_slot_bytes(sup->slots[i]) < bytes)
            bytes = dlr_slot_bytes(sup->slots[i]);
    return bytes;
}

/* Asks for larger slots when the layout needs them. One question at a time: the answer
 * to the last one may be too small already.
 */
static void reserve_more(struct dlr_ckpt *ck)
{
    struct supervised *sup = ck->mode;
    uint64_t bytes;
    bool ask;

    pthread_mutex_lock(&sup->lock);
    bytes = sup->want_bytes;
    ask =
        !sup->asked && sup->nslots > 0 && room(sup) < bytes && !atomic_load(&sup->gone);
    sup->asked = sup->asked || ask;
    pthread_mutex_unlock(&sup->lock);
    if (!ask)
        return;
    dlr_supervised_compose(ck, DLR_LOCAL_RESERVE, 0)->arg[0] = bytes;
    dlr_supervised_tell(sup);
}

/* The oldest miss that is not told yet goes into sup->msg; false when there is none. */
static bool take_missed(struct dlr_ckpt *ck)
{
    struct supervised *sup = ck->mode;
    bool any;

    pthread_mutex_lock(&sup->lock);
    any = sup->nmissed > 0;
    if (any) {
        dlr_supervised_compose(ck, DLR_LOCAL_DEAD, sup->missed[0].step)->arg[0] =
            sup->missed[0].torn;
        dlr_local_text(&sup->msg, "%s", sup->missed[0].why);
        memmove(sup->missed, sup->missed + 1, --sup->nmissed * sizeof(*sup->missed));
    }
    pthread_mutex_unlock(&sup->lock);
    return any;
}

static void posted(void *arg)
{
    struct dlr_ckpt *ck = arg;
    struct supervised *sup = ck->mode;

    while (take_missed(ck))
        if (!atomic_load(&sup->gone))
            dlr_supervised_tell(sup);
    reserve_more(ck);
}

/* The slots, or larger ones in their place; the descriptors are closed by the caller.
 * The program's thread leaves slots alone that are too small for its layout, so those
 * may go.
 */
static void take_slots(struct dlr_ckpt *ck, const int *fds, unsigned nfds)
{
    struct supervised *sup = ck->mode;
    struct dlr_slot *mapped[DLR_LOCAL_FDS], *old[DLR_LOCAL_FDS];
    unsigned nold;
    struct dlr_err err;

    if (nfds == 0) {
        dlr_supervised_gone(sup, sup->msg.text[0] ? sup->msg.text
                                                  : "the agent has no memory");
        return;
    }
    for (unsigned i = 0; i < nfds; i++)
        if (dlr_slot_map(fds[i], true, &mapped[i], &err) < 0) {
            while (i-- > 0)
                dlr_slot_unmap(mapped[i]);
            dlr_supervised_gone(sup, err.text);
            return;
        }
    /* Here and not in the first copies, for which a fence would wait. */
    for (unsigned i = 0; i < nfds; i++)
        dlr_slot_touch(mapped[i], 1);
    pthread_mutex_lock(&sup->lock);
    nold = sup->nslots;
    memcpy(old, sup->slots, nold * sizeof(*old));
    memcpy(sup->slots, mapped, nfds * sizeof(*mapped));
    sup->nslots = nfds;
    sup->asked = false;
    pthread_mutex_unlock(&sup->lock);
    while (nold-- > 0)
        dlr_layout_unmap(ck, old[nold]);
}

static int receive(void *arg)
{
    struct dlr_ckpt *ck = arg;
    struct supervised *sup = ck->mode;
    int fds[DLR_LOCAL_FDS];
    unsigned nfds = 0;
    int rc = dlr_local_recv(sup->sock, &sup->msg, fds, &nfds);

    if (rc == -EAGAIN)
        return 0;
    if (rc <= 0) {
        dlr_supervised_gone(sup, "the agent of this node is gone");
        return -ECONNRESET;
    }
    if (sup->msg.type == DLR_LOCAL_SLOTS && sup->asked) {
        take_slots(ck, fds, nfds);
        reserve_more(ck);
    }
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
    return 0;
}

static const struct dlr_snapshot_thread_ops snapshot_thread_ops = {finish, finished,
                                                                   posted, receive};

/* --- in the program's thread ------------------------------------------------------ */

static int supervised_start(struct dlr_ckpt *ck)
{
    struct supervised *sup = ck->mode;
    int rc;

    sup->want_bytes = dlr_slot_plan_bytes(ck->plan);
    sup->asked = true;
    dlr_supervised_compose(ck, DLR_LOCAL_RESERVE, 0)->arg[0] = sup->want_bytes;
    rc = dlr_supervised_tell(sup);
    if (rc < 0)
        return dlr_fail(&ck->err, rc, "cannot ask the agent for memory: %s",
                        strerror(-rc));
    rc = dlr_snapshot_thread_new(dlr_layout_threads(ck), &snapshot_thread_ops, ck,
                                 sup->sock, &ck->snapshot_thread, &ck->err);
    if (rc == 0)
        dlr_snapshot_thread_affinity(ck->snapshot_thread, ck->page->helper_cpus);
    if (rc == 0 && ck->pin)
        dlr_thread_affinity(dlr_pin_thread(ck->pin), ck->page->helper_cpus);
    return rc;
}

static void tell_missed(struct dlr_ckpt *ck, uint64_t step, const char *why, bool torn)
{
    struct supervised *sup = ck->mode;

    pthread_mutex_lock(&sup->lock);
    if (sup->nmissed < MISSED_MAX) { /* else the supervisor's limit decides */
        struct missed *m = &sup->missed[sup->nmissed++];

        m->step = step;
        m->torn = torn;
        dlr_format(m->why, sizeof(m->why), "%s", why);
    }
    pthread_mutex_unlock(&sup->lock);
    dlr_snapshot_thread_post(ck->snapshot_thread);
}

static void supervised_missed(struct dlr_ckpt *ck, uint64_t step, const char *why)
{
    tell_missed(ck, step, why, false);
}

static void supervised_torn(struct dlr_ckpt *ck, uint64_t step, const char *why)
{
    tell_missed(ck, step, why, true);
}

static int supervised_resize(struct dlr_ckpt *ck)
{
    struct supervised *sup = ck->mode;

    pthread_mutex_lock(&sup->lock);
    sup->want_bytes = dlr_slot_plan_bytes(ck->plan);
    pthread_mutex_unlock(&sup->lock);
    dlr_snapshot_thread_post(ck->snapshot_thread);
    return 0;
}

/* The step goes on without a save: nothing is waited for, and all ranks do without it.
 */
static int skip(struct dlr_ckpt *ck, uint64_t step, const char *why)
{
    atomic_fetch_add(&ck->page->skipped, 1);
    supervised_missed(ck, step, why);
    return 0;
}

/* A free slot becomes OPEN: which one; -ENODEV: they are not here yet, -ENOSPC: nor
 * large enough, -EBUSY: none is free.
 */
static int take_slot(struct supervised *sup)
{
    int rc = -ENODEV;

    pthread_mutex_lock(&sup->lock);
    if (sup->nslots > 0)
        rc = -EBUSY;
    /* While larger ones are asked for these are about to go, even if they would do
     * again.
     */
    if (sup->nslots > 0 && (sup->asked || room(sup) < sup->want_bytes))
        rc = -ENOSPC;
    for (unsigned k = 0; k < sup->nslots && rc == -EBUSY; k++)
        if (dlr_slot_take(sup->slots[k]))
            rc = (int)k;
    pthread_mutex_unlock(&sup->lock);
    return rc;
}

static int supervised_due(struct dlr_ckpt *ck, uint64_t step,
                          struct dlr_slot **ret_slot, struct dlr_version *ret_version)
{
    struct supervised *sup = ck->mode;
    int k;

    if (atomic_load(&sup->gone))
        return 0;
    if (dlr_snapshot_thread_busy(ck->snapshot_thread))
        return skip(ck, step, "busy: the last snapshot is not finished");
    k = take_slot(sup);
    if (k == -ENODEV)
        return dlr_fail(&ck->err, k, "the slots are not here yet");
    if (k == -ENOSPC) /* to be expected, and nobody's fault */
        return skip(ck, step, "the memory for the new layout is not here yet");
    if (k < 0)
        return skip(ck, step, "busy: no slot is free");
    sup->slot = (unsigned)k;
    sup->version = (struct dlr_version){sup->round, step};
    *ret_slot = sup->slots[k];
    *ret_version = sup->version;
    return 1;
}

/* The agent takes an order back when its version is decided against. */
static int supervised_comes(struct dlr_ckpt *ck, uint64_t step)
{
    const struct supervised *sup = ck->mode;
    uint64_t begun = atomic_load(&ck->page->begun_step);

    if (atomic_load(&sup->gone))
        return dlr_fail(&ck->err, -ECONNRESET,
                        "nothing is committed any more: the agent of this node is "
                        "gone");
    return begun != DLR_PAGE_NEVER && dlr_page_ordered_within(ck->page, step, begun);
}

static void supervised_close(struct dlr_ckpt *ck)
{
    struct supervised *sup = ck->mode;

    dlr_supervised_compose(ck, DLR_LOCAL_CLOSE, 0);
    if (!atomic_load(&sup->gone))
        dlr_supervised_tell(sup);
    release(ck);
}

const struct dlr_backend dlr_backend_supervised = {
    .open = supervised_open,
    .list = dlr_supervised_list,
    .offer = dlr_supervised_offer,
    .restore = dlr_supervised_restore,
    .peek = dlr_supervised_peek,
    .mark_bad = dlr_supervised_mark_bad,
    .start = supervised_start,
    .resize = supervised_resize,
    .due = supervised_due,
    .missed = supervised_missed,
    .torn = supervised_torn,
    .comes = supervised_comes,
    .close = supervised_close,
};
