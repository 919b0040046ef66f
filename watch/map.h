/* SPDX-License-Identifier: Apache-2.0 */
/* A component's view of its rank's watch page and ring. It is the process's own: a
 * forked child has none, or it would write its parent's lines.
 */
#ifndef DLR_WATCH_MAP_H
#define DLR_WATCH_MAP_H

#include "common/base/err.h"
#include "watch/page.h"

struct dlr_watch_map {
    struct dlr_watch_page *page; /* NULL: there is none, or this is a forked child */
    struct dlr_watch_ring *ring; /* NULL: there is none */
    uint32_t records;            /* of ring */
    struct dlr_watch_map *next;
};

/* Maps both (ring_fd -1: no ring); the descriptors stay the caller's. They must have
 * their full size and be sealed against shrinking, or whoever shrinks them would kill
 * this process: -EBADMSG. map stays where it is until it is closed.
 */
int dlr_watch_map_open(struct dlr_watch_map *map, int page_fd, int ring_fd,
                       struct dlr_err *err);

/* Zeros, and a map that is closed already: nothing. */
void dlr_watch_map_close(struct dlr_watch_map *map);

#endif
