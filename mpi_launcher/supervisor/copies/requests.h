/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to agents: their ids, and who is told what has become of each. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_REQUESTS_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_REQUESTS_H

#include <jansson.h>
#include <stdint.h>

#include "mpi_launcher/supervisor/copies/copies.h"

/* What node says of request id: rc is 0 or -errno, why its words. It may make and drop
 * requests.
 */
typedef void (*dlr_sup_done_fn)(void *arg, unsigned node, uint64_t id, int rc,
                                const char *why);

/* The first of n consecutive ids; nobody is told what becomes of them. A former
 * supervisor of this incarnation gave none of them: what becomes of its requests is
 * told to us.
 */
uint64_t dlr_sup_ids(struct dlr_sup_copies *copies, unsigned n);
/* The same, and done is told of each, as often as a node says it, until they are
 * dropped. Out of memory it is not: who waits must have a limit.
 */
uint64_t dlr_sup_request(struct dlr_sup_copies *copies, unsigned n,
                         dlr_sup_done_fn done, void *arg);
/* That one, and those beside it; all that done is told of. */
void dlr_sup_request_drop(struct dlr_sup_copies *copies, uint64_t id);
void dlr_sup_requests_drop(struct dlr_sup_copies *copies, dlr_sup_done_fn done);

/* A node's "done". */
void dlr_sup_on_done(struct dlr_sup_copies *copies, unsigned node, const json_t *msg);
/* The same rc, of a copy: that a node is lost or full is for us to find. */
int dlr_sup_copy_rc(int rc);

#endif
