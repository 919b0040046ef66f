/* SPDX-License-Identifier: Apache-2.0 */
/* Which line of a watch page a communicator has. There are more communicators than
 * lines in some programs: then the one that was used longest ago gives its line away.
 */
#ifndef DLR_WATCH_COMMS_H
#define DLR_WATCH_COMMS_H

#include <stdbool.h>

#include "watch/page.h"

/* A communicator as its members know it. id is equal on all of them; entered and left:
 * what was counted where it had a line before, lost: of which nothing is known.
 */
struct dlr_watch_member {
    uint64_t id, parent;
    uint32_t size, my_rank, lost;
    uint64_t entered, left;
};

/* Gives a communicator a line, or finds the one that it has. The line; -1 when none can
 * be given (all are inside an operation, or another thread gives one away), and the
 * page's `lost` counts. Never waits. World's line is never given away.
 */
int dlr_watch_comm_open(struct dlr_watch_page *page,
                        const struct dlr_watch_member *member, uint64_t now_ns);

/* What a communicator's line says as a whole. */
struct dlr_watch_state {
    uint32_t op, type, root, lost;
    uint64_t entered, left, bytes;
};

/* For who tells the state now and then, and not each operation; now_ns: when it has
 * changed. False: the line is another's by now, or is being written; open it again.
 */
bool dlr_watch_comm_put(struct dlr_watch_page *page, int line, uint64_t id,
                        const struct dlr_watch_state *state, uint64_t now_ns);

/* The communicator is freed; its line is free, unless it is another's by now. */
void dlr_watch_comm_close(struct dlr_watch_page *page, int line, uint64_t id);

#endif
