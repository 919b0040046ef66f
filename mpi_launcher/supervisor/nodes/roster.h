/* SPDX-License-Identifier: Apache-2.0 */
/* Which agent knows which other members: decides when the list of all is made and to
 * whom it goes, and who is told of changes alone. Pure: events and time in, sends out
 * through ops. Nodes are numbers below n.
 *
 * The list is due when everybody is there, when nothing has changed for
 * DLR_ROSTER_QUIET_MS, or when a change is DLR_ROSTER_LATE_MS old. An agent that has
 * said hello gets the whole list; one that has it gets what has changed since. Whole
 * lists are sent as long as less than DLR_ROSTER_WINDOW bytes of them are unconfirmed:
 * of many nodes they would fill the link and the memory before the leases.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_NODES_ROSTER_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_NODES_ROSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DLR_ROSTER_QUIET_MS 200
#define DLR_ROSTER_LATE_MS 2000
/* an agent that has not answered holds up no others after that */
#define DLR_ROSTER_CONFIRM_MS 10000
#define DLR_ROSTER_WINDOW (64u << 20)

struct dlr_roster; /* opaque */

struct dlr_roster_ops {
    /* Makes the list of all that are here, for send_whole(). Its bytes; 0: it cannot be
     * made now.
     */
    size_t (*make_whole)(void *arg);
    /* Makes what has changed: these nodes are here with other fields, or have gone; n
     * may be 0.
     */
    bool (*make_changes)(void *arg, const unsigned *nodes, unsigned n);
    /* Sends what was made last. False: it did not go, and is tried again (whole). */
    bool (*send_whole)(void *arg, unsigned node);
    bool (*send_changes)(void *arg, unsigned node);
};

/* NULL when out of memory. */
struct dlr_roster *dlr_roster_new(unsigned n, const struct dlr_roster_ops *ops,
                                  void *arg);
struct dlr_roster *dlr_roster_free(struct dlr_roster *r); /* accepts NULL */

/* The node's agent has said hello: what it was told before it may have forgotten. */
void dlr_roster_came(struct dlr_roster *r, unsigned node, int64_t now_ms);
void dlr_roster_went(struct dlr_roster *r, unsigned node, int64_t now_ms);
/* Something that stands beside the members, and is in every message, is another. */
void dlr_roster_touch(struct dlr_roster *r, int64_t now_ms);

/* It has the whole list. */
void dlr_roster_confirm(struct dlr_roster *r, unsigned node);

/* Sends what is due. True when changes were made public by this call. */
bool dlr_roster_tick(struct dlr_roster *r, int64_t now_ms);
/* The same, due or not. */
bool dlr_roster_flush(struct dlr_roster *r, int64_t now_ms);

#endif
