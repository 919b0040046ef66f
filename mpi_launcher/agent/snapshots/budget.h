/* SPDX-License-Identifier: Apache-2.0 */
/* What snapshots may take of a node's memory: --dlrover-set=ckpt-mem. */
#ifndef DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_BUDGET_H
#define DLR_MPI_LAUNCHER_AGENT_SNAPSHOTS_BUDGET_H

#include <stdint.h>

#include "common/base/err.h"

struct dlr_budget {
    const char *option; /* --dlrover-set=ckpt-mem as given: a size or N% of node */
    uint64_t node;      /* bytes that the job may use here; 0: unknown */
    uint64_t free;      /* of them not in use, and not to be left alone */
    uint64_t there;     /* of the snapshots' memory: taken already */
    /* will be asked for, by all that is known: copies for other nodes */
    uint64_t awaited;
};

/* Fills node and free. node is the least of the node's memory and of the limits of the
 * cgroups around this process, the job's among them. free is the least that any of them
 * has left: what programs use is taken off (what the kernel keeps of files is not), and
 * a DLR_BUDGET_SPARE-th of the limit, for programs that grow. root: "" or where a test
 * keeps its /proc and /sys.
 */
#define DLR_BUDGET_SPARE 16
void dlr_budget_look(const char *root, struct dlr_budget *ret);

/* May a rank have slots of bytes each beside others ranks whose slots have all_others
 * bytes together? -EDQUOT with the arithmetic.
 */
int dlr_budget_check(const struct dlr_budget *budget, int32_t rank, unsigned slots,
                     uint64_t bytes, unsigned others, uint64_t all_others,
                     struct dlr_err *err);

#endif
