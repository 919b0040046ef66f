/* SPDX-License-Identifier: Apache-2.0 */
/* Where an order came from, and answers that go there. */
#ifndef DLR_MPI_LAUNCHER_AGENT_BASE_ANSWERS_H
#define DLR_MPI_LAUNCHER_AGENT_BASE_ANSWERS_H

#include <jansson.h>
#include <stdint.h>

#include "mpi_launcher/agent/base/base.h"

/* rc and why as of dlr_agent_done(). */
typedef void dlr_agent_reported_fn(void *arg, uint64_t id, int rc, const char *why);

enum dlr_agent_from { DLR_AGENT_SELF, DLR_AGENT_SUPERVISOR, DLR_AGENT_PEER };
struct dlr_agent_origin {
    enum dlr_agent_from from;
    struct dlr_route route;      /* of a peer */
    uint64_t id;                 /* the order's number, echoed */
    dlr_agent_reported_fn *told; /* of SELF: told how it ended; NULL: nobody is */
    void *arg;
};

/* Sends msg to where an order came from and releases it; nothing for SELF. */
void dlr_agent_answer(struct dlr_agent_base *base, const struct dlr_agent_origin *to,
                      json_t *msg);
/* The same: "done" with rc (negative errno or 0) and why; of SELF who is to be told. */
void dlr_agent_done(struct dlr_agent_base *base, const struct dlr_agent_origin *to,
                    int rc, const char *why);

#endif
