/* SPDX-License-Identifier: Apache-2.0 */
/* What snapshots may take of a node's memory: --dlrover-ckpt-mem. */
#ifndef DLR_MPI_LAUNCHER_AGENT_BUDGET_H
#define DLR_MPI_LAUNCHER_AGENT_BUDGET_H

#include <stdint.h>

#include "common/err.h"

/* Bytes that this process's job may use here: the least of the node's memory and of the limits of
 * the cgroups around the process. root: "" or where a test keeps its /proc and /sys. 0: unknown.
 */
uint64_t dlr_budget_node(const char *root);

struct dlr_budget {
    const char *option; /* --dlrover-ckpt-mem as given: a size or N% of node */
    uint64_t node;      /* dlr_budget_node() */
};

/* May a rank have slots of bytes each beside others ranks whose slots have all_others bytes
 * together? -EDQUOT with the arithmetic.
 */
int dlr_budget_check(const struct dlr_budget *budget, int32_t rank, unsigned slots,
                     uint64_t bytes, unsigned others, uint64_t all_others,
                     struct dlr_err *err);

#endif
