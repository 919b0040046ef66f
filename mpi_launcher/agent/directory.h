/* SPDX-License-Identifier: Apache-2.0 */
/* The memory directory of the run on this node. */
#ifndef DLR_MPI_LAUNCHER_AGENT_DIRECTORY_H
#define DLR_MPI_LAUNCHER_AGENT_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "mpi_launcher/agent/base/self.h"

/* Chooses its name: self->conf.memory becomes another when somebody else has the usual
 * one, which goes to taken.
 */
int dlr_agent_memory_place(struct dlr_agent_self *self, char *foreign_memory_name,
                           size_t size, struct dlr_err *err);
/* Waits for an agent that still keeps path to end. Blocking, for the start. -EBUSY. */
int dlr_agent_memory_wait(const char *path, int64_t timeout_ms, struct dlr_err *err);
/* Makes path and its parent, both ours and 0700, never through a link. *ret_fd:
 * caller's.
 */
int dlr_agent_memory_open(const char *path, int *ret_fd, struct dlr_err *err);
/* Removes what dlr_agent_memory_open() made; with contents also when it is not empty.
 */
void dlr_agent_memory_remove(const char *path, bool contents);

#endif
