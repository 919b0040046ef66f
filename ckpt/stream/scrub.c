/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/stream/scrub.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/slot/meta.h"
#include "common/base/clock.h"

struct dlr_scrub {
    struct dlr_job job; /* one at a time */
    struct dlr_data *d;
    /* a thread of its own, which runs when nobody else wants to */
    struct dlr_work *work;
    int64_t pass_ms, next_ms;
    bool busy;

    /* Where it is: block of slot (rank, k), which need not be there any more. */
    int32_t rank;
    uint32_t k, block;

    /* Of the job. */
    struct dlr_slot_table_slot *held;
    struct dlr_version version;
    uint64_t bytes;
    unsigned char copy[]; /* a block of memory */
};

static bool is_whole(const struct dlr_slot *slot)
{
    enum dlr_slot_state state = dlr_slot_state(slot);

    return state == DLR_SLOT_SEALED || state == DLR_SLOT_COMMITTED;
}

/* It holds v still: a worker of this node asks nobody before it fills a slot that is
 * free, but none holds the same version twice.
 */
static bool holds(const struct dlr_slot *slot, struct dlr_version v)
{
    struct dlr_slot_info info;

    return is_whole(slot) && dlr_slot_info(slot, &info) == 0 &&
           dlr_version_eq(info.version, v);
}

/* Memory of ours that the kernel reads: of a page that it has poisoned it says so,
 * where a look at it ends the process. False: such a page is among it. Where the kernel
 * reads for nobody (EPERM, ENOSYS in a container) *ret_there is data itself.
 */
static bool read_memory(void *copy, void *data, size_t bytes, const void **ret_there)
{
    const struct iovec to = {copy, bytes}, from = {data, bytes};
    ssize_t n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);

    *ret_there = n == (ssize_t)bytes ? copy : data;
    return n == (ssize_t)bytes || (n < 0 && errno != EFAULT && errno != EHWPOISON);
}

static uint64_t place_of(const struct dlr_slot *slot, const void *data)
{
    return (uint64_t)((const char *)data - (const char *)dlr_slot_base(slot));
}

/* What cannot be read would end whoever writes it next, too: its rank's worker. */
static void renew(const struct dlr_slot_table_slot *held, const void *data,
                  size_t bytes)
{
    dlr_slot_renew(held->slot, held->fd, place_of(held->slot, data), bytes);
}

/* --- heads: everybody here looks at them ------------------------------------------ */

static bool renew_head(const struct dlr_slot_table_slot *held)
{
    bool lost = false;

    for (unsigned i = 0; i < 2; i++) {
        if (dlr_slot_has_page(held->slot, i))
            continue;
        dlr_slot_renew(held->slot, held->fd, i * DLR_SLOT_PAGE, 1);
        lost = true;
    }
    return lost;
}

/* All of the meta block, page by page. */
static bool read_meta(struct dlr_scrub *s)
{
    const void *meta, *there;
    size_t all;

    dlr_slot_meta(s->held->slot, &meta, &all);
    for (size_t at = 0; at < all; at += DLR_SLOT_PAGE) {
        size_t n = all - at < DLR_SLOT_PAGE ? all - at : DLR_SLOT_PAGE;

        if (read_memory(s->copy, (char *)meta + at, n, &there))
            continue;
        renew(s->held, (const char *)meta + at, n);
        return false;
    }
    return true;
}

/* --- the job ---------------------------------------------------------------------- */

/* What is wrong with the block of the version; NULL: nothing. */
static const char *fault(struct dlr_scrub *s, size_t *ret_bytes)
{
    const void *found;
    uint32_t crc;
    void *data;

    if (dlr_slot_block(s->held->slot, s->block, &data, ret_bytes, &crc) < 0)
        /* it is another's by now, or its head is damaged: seen elsewhere */
        return NULL;
    if (!read_memory(s->copy, data, *ret_bytes, &found)) {
        if (!holds(s->held->slot, s->version))
            return NULL;
        renew(s->held, data, *ret_bytes);
        return "cannot be read from memory";
    }
    if (dlr_crc32c(0, found, *ret_bytes) == crc || !holds(s->held->slot, s->version))
        return NULL;
    return "is corrupt in memory";
}

static int run_block(struct dlr_job *job, struct dlr_err *err)
{
    struct dlr_scrub *s = (struct dlr_scrub *)job;
    const struct sched_param none = {0};
    const char *why, *again;
    size_t bytes = 0;

    s->bytes = 0;
    sched_setscheduler(0, SCHED_IDLE, &none); /* of this thread */
    if (!dlr_slot_has_head(s->held->slot))
        return 0; /* the loop's thread finds it */
    if (s->block == 0 && !read_meta(s))
        return dlr_fail(err, -EBADMSG, "the head cannot be read from memory");
    why = fault(s, &bytes);
    again = why ? fault(s, &bytes) : NULL; /* it may have been another's in between */
    s->bytes = bytes;
    return again ? dlr_fail(err, -EBADMSG, "block %u %s", s->block, why) : 0;
}

static void tell_bad(struct dlr_data *d, const struct dlr_slot_table_slot *held,
                     struct dlr_version v, const char *why)
{
    struct dlr_local_msg msg;

    dlr_local_init(&msg, DLR_LOCAL_D_BAD);
    msg.round = d->round;
    msg.rank = held->rank;
    msg.step = v.step;
    msg.arg[0] = v.round;
    dlr_local_text(&msg, "%s", why);
    dlr_stream_send_agent(d, &msg, NULL, 0);
}

/* How long to wait after so many bytes. */
static int64_t pause_ms(const struct dlr_scrub *s)
{
    uint64_t all = 0;
    double ms = 1e3 * (double)s->bytes / DLR_SCRUB_RATE, even;

    for (const struct dlr_slot_table_slot *h = s->d->held.first; h; h = h->next)
        all += dlr_slot_bytes(h->slot);
    even = all ? (double)s->pass_ms * (double)s->bytes / (double)all : 0;
    return 1 + (int64_t)(even > ms ? even : ms);
}

/* No copy any more, and whoever has it again is not told that it is there. An own
 * rank's slot its agent marks, which knows when its worker may fill it.
 */
static void condemn(const struct dlr_data *d, struct dlr_slot_table_slot *held,
                    struct dlr_version v)
{
    if (dlr_rank_among(d->held.own, d->held.nown, held->rank)) {
        held->has_bad = true;
        held->bad = v;
    } else {
        dlr_slot_table_reject(held);
    }
}

static void block_done(struct dlr_job *job)
{
    struct dlr_scrub *s = (struct dlr_scrub *)job;

    s->busy = false;
    s->next_ms = dlr_now_ms() + pause_ms(s);
    s->block++;
    if (job->rc < 0) {
        condemn(s->d, s->held, s->version);
        tell_bad(s->d, s->held, s->version, job->err.text);
        s->block = UINT32_MAX; /* the next slot */
    }
    dlr_slot_table_read_done(s->held);
    dlr_slot_table_freed(&s->d->held);
}

/* In the order of ranks and slots: the one with that block, or else the next one. */
static struct dlr_slot_table_slot *choose(struct dlr_scrub *s)
{
    struct dlr_slot_table_slot *best = NULL;
    struct dlr_slot_info info;

    for (struct dlr_slot_table_slot *h = s->d->held.first; h; h = h->next) {
        bool here = h->rank == s->rank && h->k == s->k;

        if (h->writing || h->rejected || !is_whole(h->slot) ||
            dlr_slot_info(h->slot, &info) < 0 ||
            (h->has_bad && dlr_version_eq(h->bad, info.version)) ||
            (here ? s->block >= info.nblocks
                  : h->rank < s->rank || (h->rank == s->rank && h->k < s->k)))
            continue;
        if (!best || h->rank < best->rank || (h->rank == best->rank && h->k < best->k))
            best = h;
    }
    return best;
}

/* Copies under way, and slots that are being filled, are what the node's memory is for.
 */
static bool is_quiet(const struct dlr_data *d)
{
    if (!d->configured || d->sends || d->recvs || d->sums || d->gathering ||
        atomic_load(&d->urgent) || dlr_slot_table_fills(&d->held))
        return false;
    for (const struct dlr_slot_table_slot *h = d->held.first; h; h = h->next)
        if (h->writing)
            return false;
    return true;
}

static void begin(struct dlr_scrub *s, struct dlr_slot_table_slot *held)
{
    struct dlr_slot_info info;

    if (held->rank != s->rank || held->k != s->k)
        s->block = 0;
    s->rank = held->rank;
    s->k = held->k;
    dlr_slot_info(held->slot, &info);
    s->version = held->seen = info.version;
    s->held = held;
    s->busy = true;
    dlr_slot_table_read(held);
    dlr_work_add(s->work, &s->job);
}

/* Before any head is looked at. What a slot held is not to be read there any more;
 * where nobody knows what that was, the newest is a guess.
 */
static void look_at_heads(struct dlr_data *d)
{
    for (struct dlr_slot_table_slot *h = d->held.first; h; h = h->next) {
        struct dlr_version v = h->seen.step ? h->seen : d->held.newest;

        if (!renew_head(h))
            continue;
        condemn(d, h, v);
        tell_bad(d, h, v, "the head cannot be read from memory");
    }
}

int64_t dlr_data_scrub_tick(struct dlr_data *d, int64_t now_ms)
{
    struct dlr_scrub *s = d->scrub;
    struct dlr_slot_table_slot *held;

    if (!s || s->busy || !d->held.first)
        return DLR_DATA_NEVER;
    if (now_ms < s->next_ms)
        return s->next_ms;
    s->next_ms = now_ms + DLR_SCRUB_PAUSE_MS;
    look_at_heads(d);
    if (!is_quiet(d))
        return s->next_ms;
    held = choose(s);
    if (!held) { /* from the beginning again */
        s->rank = -1;
        s->k = s->block = 0;
        return s->next_ms;
    }
    begin(s, held);
    return DLR_DATA_NEVER;
}

int dlr_data_scrub_fd(const struct dlr_data *d)
{
    return d->scrub ? dlr_work_fd(d->scrub->work) : -1;
}

void dlr_data_scrub_finish(struct dlr_data *d)
{
    dlr_work_finish(d->scrub->work);
}

int dlr_data_scrub_new(struct dlr_data *d, int64_t pass_ms, struct dlr_err *err)
{
    struct dlr_scrub *s;
    int rc;

    if (pass_ms <= 0)
        return 0;
    s = calloc(1, sizeof(*s) + DLR_SLOT_BLOCK);
    if (!s)
        return dlr_fail(err, -ENOMEM, "out of memory");
    s->job = (struct dlr_job){.run = run_block, .done = block_done};
    s->d = d;
    s->pass_ms = pass_ms;
    s->next_ms = dlr_now_ms() + pass_ms / 10; /* a start has better things to do */
    s->rank = -1;
    rc = dlr_work_new(1, &s->work, err);
    if (rc < 0) {
        free(s);
        return rc;
    }
    d->scrub = s;
    return 0;
}
