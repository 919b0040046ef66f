/* SPDX-License-Identifier: Apache-2.0 */
/* Where an order came from, and answers that go there. */
#ifndef DLR_MPI_LAUNCHER_AGENT_BASE_ANSWERS_H
#define DLR_MPI_LAUNCHER_AGENT_BASE_ANSWERS_H

#include <jansson.h>
#include <stdint.h>

#include "mpi_launcher/agent/base/base.h"

enum dlr_agent_from { DLR_AGENT_SELF, DLR_AGENT_SUPERVISOR, DLR_AGENT_PEER };
struct dlr_agent_origin {
    enum dlr_agent_from from;
    struct dlr_route route; /* of a peer */
    uint64_t id;            /* the order's number, echoed */
    uint64_t rate; /* of a file it wants: bytes a second at most, 0: no limit */
    unsigned
        follow; /* orders, right behind this one, whose ranks go into the same file */
    const char *node; /* a send goes there, read at once; NULL: who orders it knows */
};

/* Sends msg to where an order came from and releases it; nothing for SELF. */
void dlr_agent_answer(struct dlr_agent_base *base, const struct dlr_agent_origin *to,
                      json_t *msg);
/* "done" with rc (negative errno or 0) and why. */
void dlr_agent_done(struct dlr_agent_base *base, const struct dlr_agent_origin *to,
                    int rc, const char *why);

#endif
