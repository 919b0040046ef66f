/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the engine, for its own sources and its tests. */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_COPIES_STATE_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_COPIES_STATE_H

#include "mpi_launcher/supervisor/copies/copies.h"
#include "mpi_launcher/supervisor/copies/requests.h"

/* Consecutive ids, and who is told their ends. */
struct dlr_sup_request {
    uint64_t first;
    unsigned n;
    dlr_sup_done_fn done;
    void *arg;
};

struct dlr_sup_copies {
    struct dlr_sup_copies_env env;
    uint32_t last_id;
    struct dlr_sup_request *requests; /* ascending */
    unsigned nrequests, room;
};

#endif
