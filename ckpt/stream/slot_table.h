/* SPDX-License-Identifier: Apache-2.0 */
/* The slots that this node's data process holds: which may be read, which may be
 * overwritten. What is known is in the slots' own headers; only who uses one right now
 * is kept beside.
 */
#ifndef DLR_CKPT_STREAM_SLOT_TABLE_H
#define DLR_CKPT_STREAM_SLOT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/base/version.h"
#include "ckpt/slot/slot.h"
#include "common/base/err.h"

#define DLR_SLOT_TABLE_ABORTS 32

struct dlr_slot_table_slot {
    struct dlr_slot_table_slot *next;
    int32_t rank;
    uint32_t k;
    struct dlr_slot *slot;
    int fd;                     /* of its file */
    struct dlr_slot *grown;     /* takes slot's place when it is no longer in use */
    unsigned readers;           /* transfers and saves that read it */
    bool writing;               /* a transfer or a load of version fills it */
    bool rejected;              /* becomes DEAD when it is no longer used */
    bool stale;                 /* becomes FREE then */
    struct dlr_version version; /* while writing */
    bool has_bad; /* an own rank's: this version's bytes here are no copy */
    struct dlr_version bad;
    struct dlr_version seen; /* what was summed here last (scrub.h) */
};

struct dlr_slot_table {
    struct dlr_slot_table_slot *first;
    bool has_newest;
    struct dlr_version newest; /* the newest commit, or what was restored */
    bool has_vetted;
    struct dlr_version vetted; /* the older one that the newest commit has left */
    /* the last: a copy may come after */
    struct dlr_version aborted[DLR_SLOT_TABLE_ABORTS];
    unsigned naborted; /* were ever aborted */
    bool guarded; /* a slot is written to by whom it was given to, and while it was */
    int32_t *own; /* ranks whose slots the agent marks, not a decision; the caller's */
    unsigned nown;
    void (*on_free)(void *arg); /* what dlr_slot_table_freed() calls, or NULL */
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
int dlr_slot_table_scan(struct dlr_slot_table *h, int dirfd, struct dlr_err *err);

/* Takes slot over (also on failure); replaces what was held under rank and k, when that
 * is in use as soon as it is not: slot is the same file then, longer.
 */
int dlr_slot_table_add(struct dlr_slot_table *h, int32_t rank, uint32_t k,
                       struct dlr_slot *slot);

struct dlr_slot_table_slot *dlr_slot_table_find(const struct dlr_slot_table *h,
                                                int32_t rank, uint32_t k);

/* The whole (SEALED or COMMITTED) snapshot of rank at v, NULL when there is none. */
struct dlr_slot_table_slot *dlr_slot_table_version(const struct dlr_slot_table *h,
                                                   int32_t rank, struct dlr_version v);

/* A slot of rank that may be overwritten: FREE, DEAD, undecided but older than the
 * newest commit, or aborted before it was whole; never one in use, never a COMMITTED
 * one.
 */
struct dlr_slot_table_slot *dlr_slot_table_choose(const struct dlr_slot_table *h,
                                                  int32_t rank);
/* The same of the slot for a copy that is only read here; NULL: there is none, or it is
 * used.
 */
struct dlr_slot_table_slot *
dlr_slot_table_choose_brought(const struct dlr_slot_table *h, int32_t rank);

/* The largest slot of rank in bytes, of those that are kept; 0 when there is none. */
uint64_t dlr_slot_table_room(const struct dlr_slot_table *h, int32_t rank);

/* Removes slots that fn does not want any more, with their files; one in use stays. */
typedef bool (*dlr_slot_table_wanted_fn)(void *arg,
                                         const struct dlr_slot_table_slot *held);
void dlr_slot_table_sweep(struct dlr_slot_table *h, int dirfd,
                          dlr_slot_table_wanted_fn fn, void *arg);

/* Whether a worker of this node fills one. */
bool dlr_slot_table_fills(const struct dlr_slot_table *h);

void dlr_slot_table_read(struct dlr_slot_table_slot *held);
void dlr_slot_table_read_done(struct dlr_slot_table_slot *held);
/* A slot that was chosen is the caller's to fill; false: its rank's worker was first.
 */
bool dlr_slot_table_claim(const struct dlr_slot_table *h,
                          struct dlr_slot_table_slot *held);
/* After what opens it. An own rank's is COPYING then. */
void dlr_slot_table_write(const struct dlr_slot_table *h,
                          struct dlr_slot_table_slot *held, struct dlr_version v);
/* These bytes of it are in their place: nothing changes them from here on where slots
 * are guarded. By any thread.
 */
void dlr_slot_table_guard(const struct dlr_slot_table *h,
                          const struct dlr_slot_table_slot *held, const void *at,
                          size_t bytes);
/* good: it is whole. Returns false when it became DEAD: not good, or given up
 * meanwhile.
 */
bool dlr_slot_table_write_done(const struct dlr_slot_table *h,
                               struct dlr_slot_table_slot *held, bool good);

/* Slots may have become free by what was done: whoever waits for one looks again
 * (on_free). Not called by the functions here: what they end is told first.
 */
void dlr_slot_table_freed(const struct dlr_slot_table *h);

/* It is no copy any more, and DEAD when it is not in use. */
void dlr_slot_table_reject(struct dlr_slot_table_slot *held);

/* v was decided against: it was aborted of late, or a newer one of its round is
 * committed.
 */
bool dlr_slot_table_is_over(const struct dlr_slot_table *h, struct dlr_version v);

/* Decisions. */
/* Older ones are freed, but *kept (or NULL) of ranks that have a slot for it beside
 * two.
 */
void dlr_slot_table_commit(struct dlr_slot_table *h, struct dlr_version v,
                           const struct dlr_version *vetted);
void dlr_slot_table_abort(struct dlr_slot_table *h, struct dlr_version v);
/* Kills every version newer than *v (NULL: all) and whatever is half written. */
void dlr_slot_table_drop(struct dlr_slot_table *h, const struct dlr_version *v);

#endif
