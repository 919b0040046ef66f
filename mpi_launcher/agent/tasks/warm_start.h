/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a process that runs ahead on a node without ranks: the message "warm_up" has
 * its words, environment and directory.
 */
#ifndef DLR_MPI_LAUNCHER_AGENT_TASKS_WARM_START_H
#define DLR_MPI_LAUNCHER_AGENT_TASKS_WARM_START_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/base/err.h"

/* It has all that is needed: foreign bytes, fuzz target msg_agent. */
bool dlr_agent_warm_is_order(const json_t *order);

/* A child with a group of its own and default signals, stdin from /dev/null, its output
 * where ours goes, our socket in its environment; it is killed when we end. Found in the PATH of its environment; one
 * that cannot be executed ends with code 127. *ret_pidfd (close-on-exec) is the
 * caller's. -errno.
 */
int dlr_agent_warm_start(const json_t *order, const char *memory, pid_t *ret_pid,
                         int *ret_pidfd, struct dlr_err *err);
/* Of an ended child: its wait status, -1 when it is not known. */
int dlr_agent_warm_reap(int pidfd);

#endif
