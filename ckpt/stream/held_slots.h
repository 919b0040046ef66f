/* SPDX-License-Identifier: Apache-2.0 */
/* The slots that this node's data process holds: which may be read, which may be overwritten.
 * What is known is in the slots' own headers; only who uses one right now is kept beside.
 */
#ifndef DLR_CKPT_STREAM_HELD_SLOTS_H
#define DLR_CKPT_STREAM_HELD_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/base/version.h"
#include "ckpt/slot/slot.h"
#include "common/base/err.h"

#define DLR_HELD_ABORTS 32

struct dlr_held {
    struct dlr_held *next;
    int32_t rank;
    uint32_t k;
    struct dlr_slot *slot;
    int fd;                     /* of its file */
    struct dlr_slot *grown;     /* takes slot's place when it is no longer in use */
    unsigned readers;           /* transfers and saves that read it */
    bool writing;               /* a transfer or a load of version fills it */
    bool doomed;                /* becomes DEAD when it is no longer used */
    bool stale;                 /* becomes FREE then */
    struct dlr_version version; /* while writing */
    bool has_bad; /* an own rank's: this version's bytes here are no copy */
    struct dlr_version bad;
    struct dlr_version seen; /* what was summed here last (scrub.h) */
};

struct dlr_holdings {
    struct dlr_held *first;
    bool has_newest;
    struct dlr_version newest; /* the newest commit, or what was restored */
    bool has_kept;
    struct dlr_version kept; /* the older one that the newest commit has left */
    struct dlr_version aborted[DLR_HELD_ABORTS]; /* the last: a copy may come after */
    unsigned naborted;                           /* were ever aborted */
    bool guarded; /* a slot is written to by whom it was given to, and while it was */
    int32_t *own; /* ranks whose slots the agent marks, not a decision; the caller's */
    unsigned nown;
    void (*on_free)(void *arg); /* what dlr_held_freed() calls, or NULL */
    void *on_free_arg;
};

static inline bool dlr_rank_among(const int32_t *list, unsigned n, int32_t rank)
{
    for (unsigned i = 0; i < n; i++)
        if (list[i] == rank)
            return true;
    return false;
}

/* Maps the slot files lying in a directory. Those that cannot be used are skipped. */
int dlr_held_scan(struct dlr_holdings *h, int dirfd, struct dlr_err *err);

/* Takes slot over (also on failure); replaces what was held under rank and k, when that is in use
 * as soon as it is not: slot is the same file then, longer.
 */
int dlr_held_add(struct dlr_holdings *h, int32_t rank, uint32_t k,
                 struct dlr_slot *slot);

struct dlr_held *dlr_held_find(const struct dlr_holdings *h, int32_t rank, uint32_t k);

/* The whole (SEALED or COMMITTED) snapshot of rank at v, NULL when there is none. */
struct dlr_held *dlr_held_version(const struct dlr_holdings *h, int32_t rank,
                                  struct dlr_version v);

/* A slot of rank that may be overwritten: FREE, DEAD, undecided but older than the newest
 * commit, or aborted before it was whole; never one in use, never a COMMITTED one.
 */
struct dlr_held *dlr_held_choose(const struct dlr_holdings *h, int32_t rank);
/* The same of the slot for a copy that is only read here; NULL: there is none, or it is used. */
struct dlr_held *dlr_held_choose_brought(const struct dlr_holdings *h, int32_t rank);

/* The largest slot of rank in bytes, of those that are kept; 0 when there is none. */
uint64_t dlr_held_room(const struct dlr_holdings *h, int32_t rank);

/* Removes slots that fn does not want any more, with their files; one in use stays. */
typedef bool (*dlr_held_wanted_fn)(void *arg, const struct dlr_held *held);
void dlr_held_sweep(struct dlr_holdings *h, int dirfd, dlr_held_wanted_fn fn,
                    void *arg);

/* Whether a worker of this node fills one. */
bool dlr_held_fills(const struct dlr_holdings *h);

void dlr_held_read(struct dlr_held *held);
void dlr_held_read_done(struct dlr_held *held);
/* A slot that was chosen is the caller's to fill; false: its rank's worker was first. */
bool dlr_held_claim(const struct dlr_holdings *h, struct dlr_held *held);
/* After what opens it. An own rank's is COPYING then. */
void dlr_held_write(const struct dlr_holdings *h, struct dlr_held *held,
                    struct dlr_version v);
/* These bytes of it are in their place: nothing changes them from here on where slots are guarded. By any thread. */
void dlr_held_guard(const struct dlr_holdings *h, const struct dlr_held *held,
                    const void *at, size_t bytes);
/* good: it is whole. Returns false when it became DEAD: not good, or given up meanwhile. */
bool dlr_held_write_done(const struct dlr_holdings *h, struct dlr_held *held,
                         bool good);

/* Slots may have become free by what was done: whoever waits for one looks again (on_free). Not called by the
 * functions here: what they end is told first.
 */
void dlr_held_freed(const struct dlr_holdings *h);

/* It is no copy any more, and DEAD when it is not in use. */
void dlr_held_doom(struct dlr_held *held);

/* v was decided against: it was aborted of late, or a newer one of its round is committed. */
bool dlr_held_is_over(const struct dlr_holdings *h, struct dlr_version v);

/* Decisions. */
/* Older ones are freed, but *kept (or NULL) of ranks that have a slot for it beside two. */
void dlr_held_commit(struct dlr_holdings *h, struct dlr_version v,
                     const struct dlr_version *kept);
void dlr_held_abort(struct dlr_holdings *h, struct dlr_version v);
/* Kills every version newer than *v (NULL: all) and whatever is half written. */
void dlr_held_drop(struct dlr_holdings *h, const struct dlr_version *v);

#endif
