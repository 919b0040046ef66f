/* SPDX-License-Identifier: Apache-2.0 */
/* The communicators of this process: by handle their id, which all members have alike
 * without a message, and their line on the watch page.
 */
#ifndef DLR_INTERPOSE_COMMUNICATORS_H
#define DLR_INTERPOSE_COMMUNICATORS_H

#include "interpose/abi.h"
#include "watch/comms.h"

/* What an operation of a communicator is called on the page. */
struct dlr_mpi_operation {
    uint32_t call, agreed; /* agreed: bytes of an element where all must name the same
                              number of bytes, else 0 */
    uint32_t root;         /* DLR_WATCH_NO_ROOT: none */
    uint64_t bytes;
};

struct dlr_mpi_comm {
    _Atomic uintptr_t handle; /* 0: free */
    struct dlr_watch_member member;
    int line;            /* of the page */
    bool inter;          /* its ranks are those of the lower group, then the others */
    uint32_t peers_from; /* the number of the first rank that can be a peer */
    uint32_t children;   /* made by all its members so far */
};

/* MPI_COMM_WORLD, after MPI_Init. */
void dlr_mpi_comms_begin(const struct dlr_mpi_abi *abi, struct dlr_watch_page *page,
                         uint64_t now_ns);

/* NULL for one that is not known: made by a call without a line in the table, or by
 * processes that were spawned or connected.
 */
struct dlr_mpi_comm *dlr_mpi_comm_of(uintptr_t handle);

/* All members of parent, or (ordered is false, with tag) those alone that will be in
 * it, make a communicator: to be called before. What dlr_mpi_comm_add() wants.
 */
struct dlr_mpi_birth {
    const struct dlr_mpi_comm *parent;
    uint32_t ordinal;
    int tag;
    bool ordered;
};
struct dlr_mpi_birth dlr_mpi_comm_birth(struct dlr_mpi_comm *parent, bool ordered,
                                        int tag);

/* The communicator is there. */
void dlr_mpi_comm_add(const struct dlr_mpi_abi *abi, struct dlr_watch_page *page,
                      const struct dlr_mpi_birth *birth, uintptr_t handle,
                      uint64_t now_ns);

/* It is about to be freed. */
void dlr_mpi_comm_del(struct dlr_watch_page *page, uintptr_t handle);

/* An operation of it begins; one that has begun has ended. */
void dlr_mpi_comm_enter(struct dlr_mpi_comm *comm, struct dlr_watch_page *page,
                        const struct dlr_mpi_operation *op, uint64_t now_ns);
void dlr_mpi_comm_leave(struct dlr_mpi_comm *comm, struct dlr_watch_page *page,
                        uint64_t now_ns);

/* A peer as the page has it. */
int32_t dlr_mpi_comm_peer(const struct dlr_mpi_abi *abi,
                          const struct dlr_mpi_comm *comm, int peer);

#endif
