/* SPDX-License-Identifier: Apache-2.0 */
/* The events of all engines: which of the others is told of each, and in which order.
 * arg is a struct dlr_sup.
 */
#ifndef DLR_MPI_LAUNCHER_SUPERVISOR_DISPATCH_H
#define DLR_MPI_LAUNCHER_SUPERVISOR_DISPATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

struct dlr_sup;

/* engines.c: gives s its engines. False: out of memory. */
bool dlr_sup_engines_new(struct dlr_sup *s);
/* The policy is there, and the job's nodes. */
int dlr_sup_engines_open(struct dlr_sup *s, struct dlr_err *err);
void dlr_sup_engines_free(struct dlr_sup *s);

/* tick.c: what is written or moved has ended, perhaps. */
void dlr_sup_moves_check(struct dlr_sup *s);

extern const struct dlr_sup_io_ops dlr_sup_io_ops;             /* tick.c */
extern const struct dlr_sup_nodes_ops dlr_sup_nodes_ops;       /* dispatch.c */
extern const struct dlr_sup_steps_ops dlr_sup_steps_ops;       /* dispatch_steps.c */
extern const struct dlr_sup_copies_ops dlr_sup_copies_ops;     /* dispatch_copies.c */
extern const struct dlr_sup_planning_ops dlr_sup_planning_ops; /* plan_gates.c */
extern const struct dlr_sup_versions_ops dlr_sup_versions_ops; /* dispatch_versions.c */
extern const struct dlr_sup_rounds_ops dlr_sup_rounds_ops;     /* dispatch_rounds.c */
extern const struct dlr_sup_disk_ops dlr_sup_disk_ops;         /* dispatch_disk.c */
extern const struct dlr_policy_ops dlr_sup_policy_ops;         /* policy_ops.c */
extern const struct dlr_sup_ending_ops dlr_sup_ending_ops;     /* dispatch_ending.c */
extern const struct dlr_sup_watch_ops dlr_sup_watch_ops;       /* dispatch_watch.c */
extern const struct dlr_sup_stacks_ops dlr_sup_stacks_ops;     /* the same */

/* dispatch_watch.c: the round goes on, or does not; with every tick */
void dlr_sup_watch_round(struct dlr_sup *s, int64_t now_ms);
/* the agent of node has said where its ranks stand */
void dlr_sup_on_stacks(struct dlr_sup *s, unsigned node, const json_t *msg);

/* answers.c: what several engines tell, or ask */
void dlr_sup_state_changed(void *arg, bool lasting); /* it is saved */
void dlr_sup_lost_before(void *arg, unsigned node);  /* the policy */
bool dlr_sup_has_ended(void *arg);                   /* the run */
bool dlr_sup_is_over(void *arg); /* and nothing that is waited for is left of it */
bool dlr_sup_is_barred(void *arg, unsigned node); /* from its step */
uint32_t dlr_sup_round_now(void *arg);
int64_t dlr_sup_phase_since(void *arg);
uint32_t dlr_sup_running_now(void *arg);  /* the round that runs, or ran last */
uint64_t dlr_sup_next_request(void *arg); /* its id */

#endif
