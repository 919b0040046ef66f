/* SPDX-License-Identifier: Apache-2.0 */
/* A policy engine whose every action is a word in a log. */
#ifndef DLR_TESTS_MPI_LAUNCHER_POLICY_POLICY_RIG_H
#define DLR_TESTS_MPI_LAUNCHER_POLICY_POLICY_RIG_H

#include "mpi_launcher/policy/policy.h"

struct policy_log {
    char text[4096];
    char why[512];
    int code;
    bool rigid;     /* resize fails */
    bool unwritten; /* memory has what the disk lacks */
};

extern const struct dlr_policy_ops policy_ops;   /* arg: a policy_log */
extern const struct dlr_policy_conf policy_conf; /* 5 nodes, 4 places, 2 restarts */

/* A started engine; dlr_policy_free(). */
struct dlr_policy *policy_begin(struct policy_log *l);
/* The same with other settings, not started. */
struct dlr_policy *policy_new(struct policy_log *l, const struct dlr_policy_conf *conf);
/* One in round 0 on nodes 0..3, node 4 the spare, with an empty log. */
struct dlr_policy *policy_running(struct policy_log *l);
struct dlr_policy *policy_running_by(struct policy_log *l,
                                     const struct dlr_policy_conf *conf);

/* members: 'x' for each node with a place, "xxxx." */
void policy_plan(struct dlr_policy *p, const char *members, int64_t now);
void policy_all_clean(struct dlr_policy *p, uint32_t round, int64_t now);
void policy_all_up(struct dlr_policy *p, int64_t now); /* but those that are lost */

#endif
