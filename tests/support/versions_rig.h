/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of a supervisor's versions, in tests of what is beside and above it. */
#ifndef DLR_TESTS_SUPPORT_VERSIONS_RIG_H
#define DLR_TESTS_SUPPORT_VERSIONS_RIG_H

#include <stdlib.h>

#include "mpi_launcher/supervisor/supervisor.h"

/* Gives s one, once s->nodes, s->plan and s->policy are there. */
static inline void versions_rig(struct dlr_sup *s,
                                const struct dlr_sup_versions_ops *ops)
{
    struct dlr_sup_versions_env env = {.io = s->io,
                                       .nodes = s->nodes,
                                       .copies = s->copies,
                                       .conf = &s->conf,
                                       .plan = s->plan,
                                       .resume_round = &s->resume_round,
                                       .took_over = &s->took_over};
    struct dlr_err err;

    s->versions = dlr_sup_versions_new(&env, ops, s);
    if (!s->versions || dlr_sup_versions_open(s->versions, s->policy, &err) < 0)
        abort();
    s->commit = dlr_sup_commit(s->versions);
}

#endif
