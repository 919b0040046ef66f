/* SPDX-License-Identifier: Apache-2.0 */
/* What all of the agent stands on: the reactor with its timers and children, the
 * connection to the supervisor, the socket that peers speak to, and answers. The lowest
 * of its engines: it knows none of the others, and says by its events what has
 * happened. One thread, which nothing here blocks.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_BASE_BASE_H
#define DLR_MPI_LAUNCHER_AGENT_BASE_BASE_H

#include <stdbool.h>

#include "mpi_launcher/wire/endpoint.h"

struct dlr_agent_base; /* opaque */

/* What happened; arg is dlr_agent_base_new()'s. Each may be NULL. */
struct dlr_agent_base_ops {
    /* The supervisor sent this; it is the engine's. */
    void (*supervisor)(void *arg, const struct dlr_packet *packet);
    /* Somebody who has proven a key sent this to our own socket; it is the engine's. */
    void (*peer)(void *arg, const struct dlr_packet *packet);
    /* A peer that we spoke to answers; it is the engine's. */
    void (*answer)(void *arg, const char *node, const struct dlr_packet *packet);
    /* dlr_agent_end(): once, before the loop ends. */
    void (*end)(void *arg);
    /* What the next agent must know has changed: to be noted in dlr_agent_kept(). Not
     * called where nobody keeps it.
     */
    void (*note)(void *arg);
};

/* Without sockets: these come with functions of their own. ops may be NULL; ops and arg
 * must live as long. dlr_endpoint_prepare() was called before. NULL when out of memory.
 */
struct dlr_agent_base *dlr_agent_base_new(const struct dlr_agent_base_ops *ops,
                                          void *arg);
/* Closes what is open. What was watched is the caller's. Accepts NULL, returns NULL. */
struct dlr_agent_base *dlr_agent_base_free(struct dlr_agent_base *base);

/* Waits for what happens and tells it, until the end. */
void dlr_agent_base_run(struct dlr_agent_base *base);
/* The end has been ordered: it comes with dlr_agent_end(), and nothing is started anew.
 */
void dlr_agent_leave(struct dlr_agent_base *base);
bool dlr_agent_leaves(const struct dlr_agent_base *base);
/* Tells it, and ends the loop when what happens now is over. Again: nothing. */
void dlr_agent_end(struct dlr_agent_base *base);
bool dlr_agent_ends(const struct dlr_agent_base *base); /* it was told */

#endif
