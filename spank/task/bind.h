/* SPDX-License-Identifier: Apache-2.0 */
/* A task's binding to cores, and what it is told of its devices, where the job asks for
 * it: DLROVER_BIND in the step's environment, as --dlrover-set=bind says.
 */
#ifndef DLR_SPANK_TASK_BIND_H
#define DLR_SPANK_TASK_BIND_H

#include "common/base/err.h"
#include "hwloc_topo/machine.h"
#include "spank/task/task_env.h"

#define DLR_TASK_BIND_FILE "machine" /* beside the agent's socket */

/* In the task, as the user: binds this process as local rank `local` of n, and adds to
 * vars what goes with it, of what env has not set. Nothing happens without
 * DLROVER_BIND, and to the only task of a node: it may be a launcher. Else a reason
 * why the task is as Slurm left it is -errno with text: Slurm has bound it already
 * (-EALREADY: it may use less than its cgroup lets it), there are more tasks than
 * cores, or it cannot be told which GPUs it has (-ENODATA). socket: the agent's, as it
 * is called on this node.
 */
int dlr_task_bind(const char *socket, unsigned local, unsigned n, char *const env[],
                  struct dlr_task_env *vars, struct dlr_err *err);

/* The GPUs of n local ranks, as dlr_bind_plan() takes them: what CUDA shows to the
 * tasks, as indices into m->gpu; of more than there are ranks the first n, since local
 * rank i uses the i-th. With *order, where CUDA's order can be set (its variables are
 * not, or as we would), they are all of the node's, and *order stays true. The number,
 * or -ENODATA with text. Foreign bytes: fuzz target task_env.
 */
int dlr_task_bind_gpus(const struct dlr_machine *m, char *const env[], unsigned n,
                       unsigned gpus[DLR_MACHINE_GPUS], bool *order,
                       struct dlr_err *err);

#endif
