/* SPDX-License-Identifier: Apache-2.0 */
/* Who goes on when the supervisor's host is gone: the lowest-named live agent that a
 * majority of the agents agrees with. Pure: events and time in, actions out.
 *
 * The electorate is every peer but the batch node's. An agent votes "silent" when it
 * has heard nothing from the supervisor for a dead-time and the supervisor's host does
 * not answer a connect. Votes age: one older than vote_ms counts no more, so a
 * dead voter is no voter.
 *   more than half of the electorate votes silent     -> quorum
 *   electorate of 1, or half of 2                      -> slurmctld is the witness:
 *   quorum when
 *                                                        it can be reached from here
 *   fewer                                              -> quorum when slurmctld does
 *   not hear the
 *                                                        batch node for two minutes, or
 *                                                        calls it
 *                                                        down; or, after a long
 *                                                        time, when it answers and that
 *                                                        node
 *                                                        takes our connect: we are not
 *                                                        cut off
 * With a quorum the lowest name among the silent voters wins. It has to hold for one
 * vote_ms, so that two agents whose views differ by a message do not both win.
 */
#ifndef DLR_MPI_LAUNCHER_POLICY_ELECTION_H
#define DLR_MPI_LAUNCHER_POLICY_ELECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

struct dlr_election; /* opaque */

enum dlr_witness {
    DLR_WITNESS_NONE,    /* slurmctld cannot be reached from here */
    DLR_WITNESS_ANSWERS, /* and it hears the batch node */
    DLR_WITNESS_MISSES,  /* and its newest ping of that was not answered */
    DLR_WITNESS_GONE,    /* and calls that down, or has taken it from the job */
};

/* Each is called from inside an event function and must not call one itself. */
struct dlr_election_ops {
    void (*ask)(void *arg,
                const char *node); /* "the supervisor is silent here; there?" */
    void (*witness)(void *arg);    /* find out what slurmctld says */
    void (*win)(void *arg);        /* this agent goes on; once */
    void (*stand_down)(void *arg); /* the supervisor is back, after a win */
};

/* nodes: the peers' names, me among them; copied. batch: the supervisor's node. */
int dlr_election_new(const char *me, const char *batch, const char *const *nodes,
                     unsigned n, int64_t vote_ms, const struct dlr_election_ops *ops,
                     void *arg, struct dlr_election **ret, struct dlr_err *err);
struct dlr_election *dlr_election_free(struct dlr_election *e); /* accepts NULL */

/* What this agent sees; true starts asking, false ends everything. */
void dlr_election_silent(struct dlr_election *e, bool silent, int64_t now_ms);

/* A peer said how it sees the supervisor, asked or not. Unknown names are ignored. */
void dlr_election_vote(struct dlr_election *e, const char *node, bool silent,
                       int64_t now_ms);

/* The answer to ops.witness. */
void dlr_election_witness(struct dlr_election *e, enum dlr_witness said,
                          int64_t now_ms);

/* Whether the batch node took the last connect, or refused it: it is there, and can be
 * reached.
 */
void dlr_election_host(struct dlr_election *e, bool answers);

/* Call every vote_ms / 2 while silent: asks again and counts. */
void dlr_election_tick(struct dlr_election *e, int64_t now_ms);

bool dlr_election_is_silent(const struct dlr_election *e);

/* True when node's vote is fresh: it is alive, and here. */
bool dlr_election_live(const struct dlr_election *e, const char *node, int64_t now_ms);
/* And it misses the supervisor, too. */
bool dlr_election_agrees(const struct dlr_election *e, const char *node,
                         int64_t now_ms);

#endif
