/* SPDX-License-Identifier: Apache-2.0 */
/* A worker asks for another rank's slot of the version to restore: from this node's
 * memory, or from where the supervisor has it brought from (fetch.c). A file is only
 * named, for its file system may hang and the reactor must not.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/snapshots/parts.h"

static bool is_here(const struct dlr_agent_snapshots *s, int32_t rank)
{
    DLR_AUTO_CLOSE int fd = dlr_agent_held_open(s, rank);

    return fd >= 0;
}

void dlr_agent_peek(struct dlr_agent_snapshots *s, struct dlr_agent_conn *c,
                    uint64_t rank)
{
    if (!s->round->has_restore || rank > INT32_MAX)
        dlr_agent_peek_answer(s, c, -1, -ENOENT, "nothing was restored");
    else if (is_here(s, (int32_t)rank))
        dlr_agent_peek_answer(s, c, (int32_t)rank, 0, "");
    else
        dlr_agent_fetch(s, c, (int32_t)rank);
}
