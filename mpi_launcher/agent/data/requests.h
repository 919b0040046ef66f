/* SPDX-License-Identifier: Apache-2.0 */
/* What the data process can be asked for: its end is told once. */
#ifndef DLR_MPI_LAUNCHER_AGENT_DATA_REQUESTS_H
#define DLR_MPI_LAUNCHER_AGENT_DATA_REQUESTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "ckpt/base/version.h"
#include "common/local/message.h"
#include "mpi_launcher/agent/base/answers.h"

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

/* The fields that every order about one version of one rank has; the id goes to
 * ret_from. -EBADMSG.
 */
int dlr_agent_copy_of(const json_t *msg, struct dlr_agent_origin *ret_from,
                      int32_t *ret_rank, struct dlr_version *ret_version);

#endif
