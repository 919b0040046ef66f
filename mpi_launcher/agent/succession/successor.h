/* SPDX-License-Identifier: Apache-2.0 */
/* What the elected agent knows. Private to mpi_launcher/agent/succession/. */
#ifndef DLR_MPI_LAUNCHER_AGENT_SUCCESSION_SUCCESSOR_H
#define DLR_MPI_LAUNCHER_AGENT_SUCCESSION_SUCCESSOR_H

#include "ckpt/manifest/manifest.h"
#include "mpi_launcher/agent/succession/succession_state.h"
#include "mpi_launcher/plan/parity_sets.h"
#include "mpi_launcher/plan/plan.h"

enum dlr_agent_succeed_phase {
    DLR_SUCCEED_COLLECT,
    DLR_SUCCEED_PERSIST,
    DLR_SUCCEED_REQUEUE,
    DLR_SUCCEED_OVER
};

struct dlr_successor {
    struct dlr_agent_succession *of;
    dlr_agent_reported_fn *told; /* of orders to this node itself; its argument is of */
    void (*over)(struct dlr_agent_succession *su); /* of only_write: it is done */
    enum dlr_agent_succeed_phase phase;
    unsigned waiting; /* answers of this phase that are still out */
    struct dlr_plan_report *reports;
    unsigned nreports;
    struct dlr_parity_sets sets; /* rows 0: no parity */
    struct dlr_plan plan;
    struct dlr_plan_file *files; /* [plan.made_by] once persisting */
    unsigned *writer;            /* [plan.made_by] whose file: of which report */
    unsigned making;             /* ranks that are being made of parity */
    struct dlr_persist_write write;
    bool whole; /* every one of them was written */
    int timer, pidfd;
    bool end_after;  /* we were told to end: first the child */
    bool only_write; /* the job is being ended: no requeue, and no journal of one */
};

/* --- write_state.c */
/* Has each rank's state of the plan written: by each node in one file what it holds of
 * them, and of parity what nobody holds. Fills in files, counts the answers to come;
 * not whole: some cannot be written.
 */
void dlr_agent_succeed_write(struct dlr_successor *s);
/* A rank was made of parity, or could not be: with the last one each node that has made
 * some is asked to write them. False: the answer is of something else.
 */
bool dlr_agent_succeed_made(struct dlr_successor *s, unsigned rank, int rc);
/* The rank's node found that all of its are too much for one file: this one gets its
 * own. False: it has.
 */
bool dlr_agent_succeed_write_alone(struct dlr_successor *s, unsigned rank);

#endif
