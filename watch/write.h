/* SPDX-License-Identifier: Apache-2.0 */
/* What writes a watch page: inline, no system call, nothing that waits. Times come in
 * (CLOCK_BOOTTIME). A line that somebody else is writing is left alone, and what was to
 * be written there counts as lost.
 */
#ifndef DLR_WATCH_WRITE_H
#define DLR_WATCH_WRITE_H

#include <stdbool.h>
#include <string.h>

#include "watch/page.h"

#define DLR_WATCH_PUT(field, value)                                                    \
    atomic_store_explicit(&(field), (value), memory_order_relaxed)
#define DLR_WATCH_GET(field) atomic_load_explicit(&(field), memory_order_relaxed)

/* A line with several writers, or one whose owner may change: false when it is taken. */
static inline bool dlr_watch_begin(_Atomic uint32_t *version)
{
    uint32_t was = DLR_WATCH_GET(*version);

    if (was & 1 || !atomic_compare_exchange_strong_explicit(version, &was, was + 1,
                                                            memory_order_acquire,
                                                            memory_order_relaxed))
        return false;
    atomic_thread_fence(memory_order_release);
    return true;
}

static inline void dlr_watch_end(_Atomic uint32_t *version)
{
    atomic_store_explicit(version, DLR_WATCH_GET(*version) + 1, memory_order_release);
}

/* One of the flags of watch/page.h. */
static inline void dlr_watch_put_flag(struct dlr_watch_page *page, uint32_t flag,
                                      bool on)
{
    if (on)
        atomic_fetch_or(&page->flags, flag);
    else
        atomic_fetch_and(&page->flags, ~flag);
}

/* total 0: unknown. */
static inline void dlr_watch_put_total(struct dlr_watch_page *page, uint64_t total)
{
    DLR_WATCH_PUT(page->total, total);
}

/* A step begins. Steps may go back. The time since the one before counts as its. */
static inline void dlr_watch_put_step(struct dlr_watch_page *page, uint64_t step,
                                      uint64_t now_ns)
{
    const uint64_t before_ns = DLR_WATCH_GET(page->step_ns);

    if (!dlr_watch_begin(&page->steps_version))
        return;
    if (DLR_WATCH_GET(page->step) != DLR_WATCH_NEVER && now_ns > before_ns) {
        DLR_WATCH_PUT(page->steps, DLR_WATCH_GET(page->steps) + 1);
        DLR_WATCH_PUT(page->steps_ns,
                      DLR_WATCH_GET(page->steps_ns) + (now_ns - before_ns));
    }
    DLR_WATCH_PUT(page->step, step);
    DLR_WATCH_PUT(page->step_ns, now_ns);
    dlr_watch_end(&page->steps_version);
}

/* name NULL: none; one that is too long is cut. limit_ns 0: none declared. */
static inline void dlr_watch_put_phase(struct dlr_watch_page *page, const char *name,
                                       uint64_t limit_ns, uint64_t now_ns)
{
    uint64_t words[DLR_WATCH_NAME / 8] = {0};

    if (name)
        memcpy(words, name, strnlen(name, DLR_WATCH_NAME - 1));
    if (!dlr_watch_begin(&page->phase.version))
        return;
    DLR_WATCH_PUT(page->phase.since_ns, name ? now_ns : 0);
    DLR_WATCH_PUT(page->phase.limit_ns, name ? limit_ns : 0);
    for (unsigned i = 0; i < DLR_WATCH_NAME / 8; i++)
        DLR_WATCH_PUT(page->phase.name[i], words[i]);
    dlr_watch_end(&page->phase.version);
}

/* An operation of communicator id begins; line: what dlr_watch_comm_open() has given.
 * False: the line is another's by now, or is being written; open it again.
 */
static inline bool dlr_watch_enter(struct dlr_watch_page *page, int line, uint64_t id,
                                   uint32_t op, uint32_t type, uint32_t root,
                                   uint64_t bytes, uint64_t now_ns)
{
    struct dlr_watch_comm *comm = line >= 0 ? &page->comms[line] : NULL;
    bool ours;

    if (!comm || DLR_WATCH_GET(comm->id) != id || !dlr_watch_begin(&comm->version))
        return false;
    ours = DLR_WATCH_GET(comm->id) == id;
    if (ours) {
        DLR_WATCH_PUT(comm->op, op);
        DLR_WATCH_PUT(comm->type, type);
        DLR_WATCH_PUT(comm->root, root);
        DLR_WATCH_PUT(comm->bytes, bytes);
        DLR_WATCH_PUT(comm->entered_ns, now_ns);
        DLR_WATCH_PUT(comm->entered, DLR_WATCH_GET(comm->entered) + 1);
    }
    dlr_watch_end(&comm->version);
    return ours;
}

/* The oldest operation that is not ended has ended; false as above. */
static inline bool dlr_watch_leave(struct dlr_watch_page *page, int line, uint64_t id,
                                   uint64_t now_ns)
{
    struct dlr_watch_comm *comm = line >= 0 ? &page->comms[line] : NULL;
    bool ours;

    if (!comm || DLR_WATCH_GET(comm->id) != id || !dlr_watch_begin(&comm->version))
        return false;
    ours = DLR_WATCH_GET(comm->id) == id &&
           DLR_WATCH_GET(comm->left) < DLR_WATCH_GET(comm->entered);
    if (ours) {
        DLR_WATCH_PUT(comm->left, DLR_WATCH_GET(comm->left) + 1);
        DLR_WATCH_PUT(comm->left_ns, now_ns);
    }
    dlr_watch_end(&comm->version);
    return ours;
}

/* Thread tid begins to wait. The line for dlr_watch_clear(), -1 when none is free. */
static inline int dlr_watch_block(struct dlr_watch_page *page, uint32_t tid,
                                  uint32_t call, uint64_t comm, int32_t peer,
                                  int32_t tag, uint64_t bytes, uint64_t now_ns)
{
    for (unsigned i = 0; i < DLR_WATCH_CALLS; i++) {
        const unsigned at = (tid + i) % DLR_WATCH_CALLS;
        struct dlr_watch_call *line = &page->calls_in[at];

        if (DLR_WATCH_GET(line->tid) != 0 || !dlr_watch_begin(&line->version))
            continue;
        if (DLR_WATCH_GET(line->tid) == 0) {
            DLR_WATCH_PUT(line->tid, tid);
            DLR_WATCH_PUT(line->call, call);
            DLR_WATCH_PUT(line->comm, comm);
            DLR_WATCH_PUT(line->peer, peer);
            DLR_WATCH_PUT(line->tag, tag);
            DLR_WATCH_PUT(line->bytes, bytes);
            DLR_WATCH_PUT(line->entered_ns, now_ns);
            dlr_watch_end(&line->version);
            return (int)at;
        }
        dlr_watch_end(&line->version);
    }
    atomic_fetch_add_explicit(&page->lost, 1, memory_order_relaxed);
    return -1;
}

/* It waits no more; line -1 does nothing but that. */
static inline void dlr_watch_clear(struct dlr_watch_page *page, int line,
                                   uint64_t now_ns)
{
    /* A thread that looks for a line may have its version, and leaves it at this tid. */
    if (line >= 0)
        atomic_store_explicit(&page->calls_in[line].tid, 0, memory_order_release);
    DLR_WATCH_PUT(page->call_ns, now_ns);
}

/* Adds to the totals of the round. */
static inline void dlr_watch_add(struct dlr_watch_page *page, uint64_t calls,
                                 uint64_t bytes, uint64_t waited_ns)
{
    atomic_fetch_add_explicit(&page->calls, calls, memory_order_relaxed);
    atomic_fetch_add_explicit(&page->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&page->waited_ns, waited_ns, memory_order_relaxed);
}

#endif
