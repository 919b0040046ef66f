/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/stream/slot_table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/slot/meta.h"
#include "ckpt/slot/store.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"

#define NAME_BYTES 32

static bool whole(const struct dlr_slot_table_slot *held, struct dlr_slot_info *ret)
{
    enum dlr_slot_state state = dlr_slot_state(held->slot);

    return (state == DLR_SLOT_SEALED || state == DLR_SLOT_COMMITTED) &&
           dlr_slot_info(held->slot, ret) == 0;
}

static bool in_use(const struct dlr_slot_table_slot *held)
{
    return held->readers || held->writing;
}

struct dlr_slot_table_slot *dlr_slot_table_find(const struct dlr_slot_table *h,
                                                int32_t rank, uint32_t k)
{
    struct dlr_slot_table_slot *held = h->first;

    while (held && (held->rank != rank || held->k != k))
        held = held->next;
    return held;
}

static void allow(const struct dlr_slot_table *h, struct dlr_slot *slot, bool write)
{
    if (h->guarded)
        (void)dlr_slot_allow(slot, 0, dlr_slot_bytes(slot), write);
}

static void replace(struct dlr_slot_table_slot *held, struct dlr_slot *slot, int fd)
{
    if (held->slot && dlr_slot_fd(held->slot) < 0)
        close(held->fd);
    dlr_slot_unmap(held->slot);
    held->slot = slot;
    held->fd = fd;
}

static int put(struct dlr_slot_table *h, int32_t rank, uint32_t k,
               struct dlr_slot *slot, int fd)
{
    struct dlr_slot_table_slot *held = dlr_slot_table_find(h, rank, k);

    allow(h, slot, false);
    if (held && in_use(held)) {
        dlr_slot_unmap(held->grown);
        held->grown = slot;
        return 0;
    }
    if (!held) {
        held = calloc(1, sizeof(*held));
        if (!held)
            return -ENOMEM;
        held->rank = rank;
        held->k = k;
        held->next = h->first;
        h->first = held;
    }
    replace(held, slot, fd);
    return 0;
}

int dlr_slot_table_add(struct dlr_slot_table *h, int32_t rank, uint32_t k,
                       struct dlr_slot *slot)
{
    int rc = put(h, rank, k, slot, dlr_slot_fd(slot));

    if (rc < 0)
        dlr_slot_unmap(slot);
    return rc;
}

static int adopt(struct dlr_slot_table *h, int dirfd, const char *name)
{
    DLR_AUTO_CLOSE int fd = -1;
    struct dlr_slot *slot;
    char again[NAME_BYTES];
    int32_t rank;
    unsigned k;
    int rc;

    if (sscanf(name, "r%d.s%u", &rank, &k) != 2 || rank < 0 ||
        dlr_store_name(rank, k, again, sizeof(again)) < 0 || !dlr_streq(again, name))
        return -EINVAL;
    if (dlr_slot_table_find(h, rank, k))
        return 0;
    fd = openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    rc = dlr_slot_map(fd, true, &slot, NULL);
    if (rc < 0)
        return rc;
    rc = put(h, rank, k, slot, fd);
    if (rc < 0) {
        dlr_slot_unmap(slot);
        return rc;
    }
    (void)dlr_steal_fd(&fd);
    return 0;
}

int dlr_slot_table_scan(struct dlr_slot_table *h, int dirfd, struct dlr_err *err)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DLR_AUTO_CLOSEDIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!dir) {
        int rc = -errno;

        if (fd >= 0)
            close(fd);
        return dlr_fail(err, rc, "cannot read the memory directory: %s", strerror(-rc));
    }
    while ((entry = readdir(dir)))
        adopt(h, dirfd, entry->d_name);
    return 0;
}

struct dlr_slot_table_slot *dlr_slot_table_version(const struct dlr_slot_table *h,
                                                   int32_t rank, struct dlr_version v)
{
    struct dlr_slot_info info;

    for (struct dlr_slot_table_slot *held = h->first; held; held = held->next)
        if (held->rank == rank && !held->writing && !held->rejected &&
            whole(held, &info) && info.rank == rank &&
            dlr_version_eq(info.version, v) &&
            !(held->has_bad && dlr_version_eq(held->bad, v)))
            return held;
    return NULL;
}

static bool was_aborted(const struct dlr_slot_table *h, struct dlr_version v)
{
    for (unsigned i = 0; i < h->naborted && i < DLR_SLOT_TABLE_ABORTS; i++)
        if (dlr_version_eq(h->aborted[i], v))
            return true;
    return false;
}

bool dlr_slot_table_is_over(const struct dlr_slot_table *h, struct dlr_version v)
{
    return was_aborted(h, v) ||
           (h->has_newest && v.round == h->newest.round && v.step < h->newest.step &&
            !(h->has_vetted && dlr_version_eq(v, h->vetted)));
}

static bool is_brought(const struct dlr_slot_table_slot *held)
{
    return held->k == DLR_STORE_FETCHED;
}

/* A slot that a worker of this node fills: the agent marks it. */
static bool is_own(const struct dlr_slot_table *h,
                   const struct dlr_slot_table_slot *held)
{
    return dlr_rank_among(h->own, h->nown, held->rank) && !is_brought(held);
}

static bool may_be_overwritten(const struct dlr_slot_table *h,
                               const struct dlr_slot_table_slot *held)
{
    struct dlr_slot_info info;

    if (in_use(held))
        return false;
    switch (dlr_slot_state(held->slot)) {
    case DLR_SLOT_FREE:
    case DLR_SLOT_DEAD:
        return true;
    case DLR_SLOT_SEALED:
        return dlr_slot_info(held->slot, &info) < 0 ||
               (h->has_newest && dlr_version_cmp(info.version, h->newest) < 0) ||
               was_aborted(h, info.version);
    default:
        return false;
    }
}

struct dlr_slot_table_slot *
dlr_slot_table_choose_brought(const struct dlr_slot_table *h, int32_t rank)
{
    struct dlr_slot_table_slot *held = dlr_slot_table_find(h, rank, DLR_STORE_FETCHED);

    return held && may_be_overwritten(h, held) ? held : NULL;
}

struct dlr_slot_table_slot *dlr_slot_table_choose(const struct dlr_slot_table *h,
                                                  int32_t rank)
{
    struct dlr_slot_table_slot *best = NULL;

    for (struct dlr_slot_table_slot *held = h->first; held; held = held->next)
        if (held->rank == rank && !is_brought(held) && may_be_overwritten(h, held) &&
            (!best || dlr_slot_bytes(held->slot) > dlr_slot_bytes(best->slot)))
            best = held;
    return best;
}

uint64_t dlr_slot_table_room(const struct dlr_slot_table *h, int32_t rank)
{
    uint64_t room = 0;

    for (struct dlr_slot_table_slot *held = h->first; held; held = held->next) {
        const struct dlr_slot *slot = held->grown ? held->grown : held->slot;

        if (held->rank == rank && !is_brought(held) && dlr_slot_bytes(slot) > room)
            room = dlr_slot_bytes(slot);
    }
    return room;
}

static void forget(struct dlr_slot_table_slot *held, int dirfd)
{
    char name[NAME_BYTES];

    if (dlr_store_name(held->rank, held->k, name, sizeof(name)) == 0)
        unlinkat(dirfd, name, 0);
    replace(held, NULL, -1);
    free(held);
}

void dlr_slot_table_sweep(struct dlr_slot_table *h, int dirfd,
                          dlr_slot_table_wanted_fn fn, void *arg)
{
    struct dlr_slot_table_slot **at = &h->first;

    while (*at) {
        struct dlr_slot_table_slot *held = *at;

        if (in_use(held) || held->grown || fn(arg, held)) {
            at = &held->next;
            continue;
        }
        *at = held->next;
        forget(held, dirfd);
    }
}

/* What was decided while it was in use. */
static void settle(struct dlr_slot_table_slot *held)
{
    if (in_use(held))
        return;
    if (held->rejected)
        dlr_slot_set_state(held->slot, DLR_SLOT_DEAD);
    else if (held->stale)
        dlr_slot_set_state(held->slot, DLR_SLOT_FREE);
    held->rejected = held->stale = false;
    if (held->grown)
        replace(held, held->grown, dlr_slot_fd(held->grown));
    held->grown = NULL;
}

bool dlr_slot_table_fills(const struct dlr_slot_table *h)
{
    for (const struct dlr_slot_table_slot *held = h->first; held; held = held->next)
        if (!held->writing && dlr_slot_state(held->slot) == DLR_SLOT_OPEN)
            return true;
    return false;
}

void dlr_slot_table_read(struct dlr_slot_table_slot *held)
{
    held->readers++;
}

void dlr_slot_table_read_done(struct dlr_slot_table_slot *held)
{
    held->readers--;
    settle(held);
}

bool dlr_slot_table_claim(const struct dlr_slot_table *h,
                          struct dlr_slot_table_slot *held)
{
    enum dlr_slot_state state = dlr_slot_state(held->slot);

    if (is_own(h, held) &&
        (state == DLR_SLOT_OPEN || !dlr_slot_take_for_copy(held->slot, state)))
        return false;
    allow(h, held->slot, true);
    return true;
}

void dlr_slot_table_write(const struct dlr_slot_table *h,
                          struct dlr_slot_table_slot *held, struct dlr_version v)
{
    if (is_own(h, held))
        dlr_slot_set_state(held->slot, DLR_SLOT_COPYING);
    allow(h, held->slot, true);
    held->writing = true;
    held->has_bad = false;
    held->version = v;
}

void dlr_slot_table_guard(const struct dlr_slot_table *h,
                          const struct dlr_slot_table_slot *held, const void *at,
                          size_t bytes)
{
    uint64_t off = (uint64_t)((const char *)at - (char *)dlr_slot_base(held->slot));

    if (h->guarded)
        (void)dlr_slot_allow(held->slot, off, bytes, false);
}

bool dlr_slot_table_write_done(const struct dlr_slot_table *h,
                               struct dlr_slot_table_slot *held, bool good)
{
    good = good && !held->rejected;
    allow(h, held->slot, false);
    held->writing = false;
    dlr_slot_set_state(held->slot, good ? DLR_SLOT_SEALED : DLR_SLOT_DEAD);
    settle(held);
    return good;
}

void dlr_slot_table_freed(const struct dlr_slot_table *h)
{
    if (h->on_free)
        h->on_free(h->on_free_arg);
}

void dlr_slot_table_reject(struct dlr_slot_table_slot *held)
{
    held->rejected = true;
    settle(held);
}

/* Those that are as large as the rank's largest: one left from smaller states is none.
 */
static unsigned count_slots(const struct dlr_slot_table *h, int32_t rank)
{
    uint64_t room = dlr_slot_table_room(h, rank);
    unsigned n = 0;

    for (const struct dlr_slot_table_slot *held = h->first; held; held = held->next)
        n += held->rank == rank && !is_brought(held) &&
             dlr_slot_bytes(held->grown ? held->grown : held->slot) >= room;
    return n;
}

void dlr_slot_table_commit(struct dlr_slot_table *h, struct dlr_version v,
                           const struct dlr_version *vetted)
{
    struct dlr_slot_info info;

    if (!h->has_newest || dlr_version_cmp(v, h->newest) > 0)
        h->newest = v;
    h->has_newest = true;
    h->has_vetted = vetted != NULL;
    if (vetted)
        h->vetted = *vetted;
    for (struct dlr_slot_table_slot *held = h->first; held; held = held->next) {
        if (held->writing) {
            if (dlr_version_cmp(held->version, v) < 0 &&
                !(vetted && dlr_version_eq(held->version, *vetted)))
                held->rejected = true;
            continue;
        }
        if (is_own(h, held))
            continue;
        if (dlr_slot_damaged(held->slot))
            held->rejected = true;
        else if (!whole(held, &info))
            continue;
        else if (dlr_version_eq(info.version, v))
            dlr_slot_set_state(held->slot, DLR_SLOT_COMMITTED);
        else if (dlr_version_cmp(info.version, v) < 0 &&
                 !(vetted && dlr_version_eq(info.version, *vetted) &&
                   count_slots(h, held->rank) > DLR_STORE_SLOTS))
            held->stale = true;
        settle(held);
    }
}

void dlr_slot_table_abort(struct dlr_slot_table *h, struct dlr_version v)
{
    struct dlr_slot_info info;

    if (!was_aborted(h, v))
        h->aborted[h->naborted++ % DLR_SLOT_TABLE_ABORTS] = v;
    for (struct dlr_slot_table_slot *held = h->first; held; held = held->next) {
        if (is_own(h, held))
            continue;
        if (held->writing) {
            if (dlr_version_eq(held->version, v))
                held->rejected = true;
        } else if (dlr_slot_state(held->slot) == DLR_SLOT_SEALED &&
                   whole(held, &info) && dlr_version_eq(info.version, v)) {
            dlr_slot_table_reject(held);
        }
    }
}

void dlr_slot_table_drop(struct dlr_slot_table *h, const struct dlr_version *v)
{
    struct dlr_slot_info info;

    h->has_newest = v != NULL;
    if (v)
        h->newest = *v;
    for (struct dlr_slot_table_slot *held = h->first; held; held = held->next) {
        if (held->writing) {
            if (!v || dlr_version_cmp(held->version, *v) > 0)
                held->rejected = true;
        } else if (dlr_slot_state(held->slot) == DLR_SLOT_OPEN ||
                   dlr_slot_state(held->slot) == DLR_SLOT_COPYING ||
                   dlr_slot_damaged(held->slot)) {
            dlr_slot_table_reject(held);
        } else if (whole(held, &info) &&
                   (!v || dlr_version_cmp(info.version, *v) > 0)) {
            /* At once, though it be read: the worker that takes it next must not lose
             * what it saves in it, and who reads compares sums.
             */
            if (is_own(h, held))
                dlr_slot_set_state(held->slot, DLR_SLOT_DEAD);
            else
                dlr_slot_table_reject(held);
        }
    }
}
