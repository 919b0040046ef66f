/* SPDX-License-Identifier: Apache-2.0 */
/* Options that are one of a few words, and these words in the order of the numbers. */
#ifndef DLR_COMMON_CONFIG_CHOICES_H
#define DLR_COMMON_CONFIG_CHOICES_H

/* How copies go from node to node. */
enum dlr_transport {
    DLR_TRANSPORT_AUTO,   /* RDMA by UCX where both ends have it, else sealed */
    DLR_TRANSPORT_STREAM, /* sealed, over TCP */
    DLR_TRANSPORT_UCX,    /* as UCX likes, over TCP too: not sealed */
};

/* What the local ranks of a node are bound to. */
enum dlr_bind {
    DLR_BIND_OFF,   /* as Slurm has it */
    DLR_BIND_NUMA,  /* the NUMA nodes of their share */
    DLR_BIND_CORES, /* their share of the cores, with the variables that go with it */
};

/* In whose programs calls of MPI are watched that say nothing themselves. */
enum dlr_watch_calls {
    DLR_WATCH_CALLS_AUTO, /* in programs that are linked with MPI */
    DLR_WATCH_CALLS_ALL,  /* in all that a task starts */
    DLR_WATCH_CALLS_OFF,
};

/* In which rounds something is done. */
enum dlr_rounds {
    DLR_ROUNDS_OFF,
    DLR_ROUNDS_FIRST, /* the first of an allocation */
    DLR_ROUNDS_ALWAYS,
};

/* Whether ranks of live nodes move after a swap, for a better order. */
enum dlr_reorder {
    DLR_REORDER_NEVER,
    DLR_REORDER_ALWAYS,
    DLR_REORDER_AUTO, /* where that is worth more than moving snapshots costs */
};

/* What is done about a round that stands still. */
enum dlr_hang {
    DLR_HANG_ACT,  /* named, and ended where it is proven that it never goes on */
    DLR_HANG_NAME, /* named */
    DLR_HANG_OFF,  /* nobody asks */
};

/* Each ends with NULL. */
extern const char *const dlr_transport_words[];
extern const char *const dlr_bind_words[];
extern const char *const dlr_watch_calls_words[];
extern const char *const dlr_rounds_words[];
extern const char *const dlr_reorder_words[];
extern const char *const dlr_hang_words[];

#endif
