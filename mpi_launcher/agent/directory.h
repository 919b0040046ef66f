/* SPDX-License-Identifier: Apache-2.0 */
/* The memory directory of the run on this node. */
#ifndef DLR_MPI_LAUNCHER_AGENT_DIRECTORY_H
#define DLR_MPI_LAUNCHER_AGENT_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"
#include "mpi_launcher/agent/base/self.h"

/* Chooses its name: self->conf.memory becomes another when somebody else has the usual
 * one, which goes to foreign_memory_name. Makes it and its parent, both ours and 0700,
 * once an agent that still keeps it has ended: self->dir_fd. Blocking, for the start.
 * -EBUSY: that one does not end.
 */
int dlr_agent_memory_take(struct dlr_agent_self *self, char *foreign_memory_name,
                          size_t size, struct dlr_err *err);
/* Removes what dlr_agent_memory_take() made; with contents also when it is not empty.
 */
void dlr_agent_memory_remove(const char *path, bool contents);

#endif
