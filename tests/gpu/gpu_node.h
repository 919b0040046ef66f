/* SPDX-License-Identifier: Apache-2.0 */
/* Two nodes of a job, played on this machine for one rank, so that device memory can be
 * saved as under a job without Slurm: the rank's agent, which orders saves, and two
 * dlrover-data, the second one the partner's. What is saved goes to the partner over
 * UCX and is committed when it is there. Whatever fails ends the caller with a line on
 * stderr.
 */
#ifndef DLR_TESTS_GPU_GPU_NODE_H
#define DLR_TESTS_GPU_GPU_NODE_H

#include <stdbool.h>
#include <stdint.h>

#define GPU_NODE_MS 60000 /* longest wait for a version to be committed */

struct gpu_node; /* opaque */

/* The environment is that of the rank from now on. Every every-th step is ordered, 0:
 * none.
 */
struct gpu_node *gpu_node_start(unsigned every);
/* Waits until step or a later one is committed. */
uint64_t gpu_node_committed(struct gpu_node *node, uint64_t step);
/* The rank's node is another one: its copies are gone, the partner's is sent back. The
 * next handle that is opened is offered it.
 */
void gpu_node_replace(struct gpu_node *node);
/* One line of what saving cost the worker. */
void gpu_node_report(struct gpu_node *node);
/* Accepts NULL; NULL. The worker has closed its handle. */
struct gpu_node *gpu_node_end(struct gpu_node *node);

#endif
