/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a watch page into a look. The page is memory of the program: whatever is in it
 * by accident or by intent, no index, name or size leaves here unchecked.
 */
#ifndef DLR_WATCH_READ_H
#define DLR_WATCH_READ_H

#include "watch/look.h"
#include "watch/page.h"
#include "watch/ring.h"

/* Makes a page or a ring of zeros into an empty one. pid: who has asked for it, 0: not
 * known. records: 0 (no ring yet) or a power of two.
 */
void dlr_watch_page_init(struct dlr_watch_page *page, int32_t rank, uint32_t round,
                         uint32_t pid, uint32_t records, uint64_t now_ns);
void dlr_watch_ring_init(struct dlr_watch_ring *ring, uint32_t records);

/* What the page of this rank and round says now. A line that is written is tried three
 * times, one that cannot be is not taken; both count, and data is TORN. state stays
 * ALIVE. 10 microseconds. Foreign bytes: fuzz target watch.
 */
void dlr_watch_read(const struct dlr_watch_page *page, int32_t rank, uint32_t round,
                    uint64_t now_ns, struct dlr_look *ret);

/* The same without communicators and calls, for every beat: moved_ns is of the step and
 * the phase alone. Foreign bytes: fuzz target watch.
 */
void dlr_watch_read_steps(const struct dlr_watch_page *page, int32_t rank,
                          uint32_t round, uint64_t now_ns, struct dlr_look *ret);

/* The operation of this number, counted from 0 on, of a ring with so many records.
 * False: it is written just now, was overwritten, or never was.
 * Foreign bytes: fuzz target watch.
 */
bool dlr_ring_read(const struct dlr_watch_ring *ring, uint32_t records, uint64_t number,
                   struct dlr_ring_entry *ret);

#endif
