/* SPDX-License-Identifier: Apache-2.0 */
/* What the data process was asked for and has not ended yet. */
#ifndef DLR_MPI_LAUNCHER_AGENT_DATA_REQUESTS_H
#define DLR_MPI_LAUNCHER_AGENT_DATA_REQUESTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "ckpt/base/version.h"
#include "common/local/message.h"
#include "mpi_launcher/agent/base/answers.h"

struct dlr_agent;

/* rc: 0 or negative errno; why: its words, or what the data process says. */
typedef void dlr_agent_request_fn(void *arg, int rc, const char *why);

struct dlr_agent_request {
    enum dlr_local_type type; /* D_SEND, D_LOAD, D_ADOPT, D_SAVE or D_SUM */
    int32_t rank;
    struct dlr_version version;
    const char *text; /* address, path or terms; read at once */
    const char *node; /* a send goes there, read at once; NULL: who orders it knows */
    bool save;        /* a copy that a save's commit waits for, not a round's start */
    uint64_t rate;    /* of a file: bytes a second at most, 0: no limit */
    unsigned follow;  /* requests behind this one whose ranks go into the same file */
    dlr_agent_request_fn *done; /* told once how it has ended, perhaps at once */
    void *arg;
};

/* Its number, for D_DONE. 0: it has ended already, since no data process runs. */
uint64_t dlr_agent_requests_add(struct dlr_agent *a, const struct dlr_agent_request *q);
/* Request id has ended. False: there is none. */
bool dlr_agent_requests_end(struct dlr_agent *a, uint64_t id, int rc, const char *why);
/* All have failed. */
void dlr_agent_requests_fail(struct dlr_agent *a, const char *why);

/* The fields that every order about one version of one rank has; the id goes to
 * ret_from. -EBADMSG.
 */
int dlr_agent_copy_of(const json_t *msg, struct dlr_agent_origin *ret_from,
                      int32_t *ret_rank, struct dlr_version *ret_version);

#endif
