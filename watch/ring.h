/* SPDX-License-Identifier: Apache-2.0 */
/* Writes operations that have ended into a watch page's ring: any thread, inline, no
 * system call. The oldest are overwritten.
 */
#ifndef DLR_WATCH_RING_H
#define DLR_WATCH_RING_H

#include "watch/write.h"

struct dlr_ring_entry {
    uint64_t began_ns, took_ns, bytes;
    uint32_t seq;
    uint16_t op, comm;
    uint8_t kind;
};

/* records: as mapped (watch/map.h), not what the ring itself says by now. */
static inline void dlr_ring_put(struct dlr_watch_ring *ring, uint32_t records,
                                const struct dlr_ring_entry *entry)
{
    const uint64_t number =
        atomic_fetch_add_explicit(&ring->next, 1, memory_order_relaxed);
    struct dlr_ring_record *to = &ring->record[number & (records - 1)];
    const bool micro = entry->took_ns > UINT32_MAX;
    const uint64_t took = micro ? entry->took_ns / 1000 : entry->took_ns;

    DLR_WATCH_PUT(to->lap, 0);
    atomic_thread_fence(memory_order_release);
    DLR_WATCH_PUT(to->began_ns, entry->began_ns);
    DLR_WATCH_PUT(to->took, took < UINT32_MAX ? (uint32_t)took : UINT32_MAX);
    DLR_WATCH_PUT(to->op, entry->op);
    DLR_WATCH_PUT(to->kind, entry->kind);
    DLR_WATCH_PUT(to->flags, micro ? DLR_RING_MICRO : 0);
    DLR_WATCH_PUT(to->bytes, entry->bytes);
    DLR_WATCH_PUT(to->seq, entry->seq);
    DLR_WATCH_PUT(to->comm, entry->comm);
    atomic_store_explicit(&to->lap, (uint16_t)(1 + number / records),
                          memory_order_release);
}

#endif
