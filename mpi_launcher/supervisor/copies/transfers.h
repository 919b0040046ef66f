/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers that must end before the next thing may begin: of a preparation, or of
 * writes to the disk.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_TRANSFERS_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_COPIES_TRANSFERS_H

#include "ckpt/base/file_slice.h"
#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/supervisor/copies/copies.h"

struct dlr_transfer {
    uint64_t id;
    unsigned rank, from, to;   /* nodes */
    unsigned slot;             /* reprotect.c: what it goes into: rank's or a shard's */
    char path[DLR_PLAN_WHERE]; /* not "": between a file and node 'to' */
    bool alone;                /* nothing else goes into that file */
    bool waits;                /* disk/persist_on_failure.c: for others of that file */
    struct dlr_slice slice;    /* of it, once that was written */
    uint64_t of;               /* not 0: a part of what that one rebuilds */
    bool rebuild;              /* node 'to' makes it of its parts */
    bool shard;                /* and that part is parity, not a rank */
    bool fetched;              /* made as a copy that is only read: rebuild.c */
    unsigned tried;            /* nodes before this one that had no room for that */
    bool essential;            /* without it the round cannot begin */
    bool started, ended;
};

struct dlr_sup_transfers {
    struct dlr_transfer *list;
    unsigned n, moved;          /* moved: have ended well */
    struct dlr_version version; /* of which copies are moved */
    int rc;                     /* of one that had to end well and did not; 0 none */
    char why[256];              /* of the first of these */
};

/* The list as it is: pointers into it hold until one is added. */
struct dlr_sup_transfers *dlr_sup_transfers(struct dlr_sup_copies *copies);
/* A new list begins: nobody waits for those of the former one. */
void dlr_sup_transfers_clear(struct dlr_sup_copies *copies);
/* NULL: from or to is below 0, or there is no memory. */
struct dlr_transfer *dlr_sup_add_transfer(struct dlr_sup_copies *copies, unsigned rank,
                                          int from, int to, bool essential);
struct dlr_transfer *dlr_sup_transfer(struct dlr_sup_copies *copies,
                                      uint64_t id); /* NULL none */
/* What had to be done for the next thing has failed; rc is below 0. */
void dlr_sup_transfers_fail(struct dlr_sup_copies *copies, int rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool dlr_sup_transfers_ended(const struct dlr_sup_copies *copies); /* all of them */

/* The receiver has its slots: the holder may send, or it may load the file. */
void dlr_sup_transfer_start(struct dlr_sup_copies *copies, struct dlr_transfer *t);
/* A node has slots for a rank: what was to go there begins. */
void dlr_sup_transfers_ready(struct dlr_sup_copies *copies, unsigned node,
                             unsigned rank);
/* A node has no room for a rank: what was to go there has ended. True when a
 * preparation needs it.
 */
bool dlr_sup_transfers_full(struct dlr_sup_copies *copies, unsigned node, unsigned rank,
                            const char *why);

/* It is gone: what was on its way there or from there has failed. */
void dlr_sup_transfers_end_on(struct dlr_sup_copies *copies, unsigned node);

#endif
