/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DLR_CKPT_CLIENT_OOM_H
#define DLR_CKPT_CLIENT_OOM_H

/* When memory runs out the kernel kills the process that has most, and the agent's and
 * the data process's share of the slots counts as theirs. A worker says that it goes
 * first: it is started again from what they hold. Raises only, never lowers; a failure
 * changes nothing else.
 */
#define DLR_OOM_SCORE 500 /* half of the node's memory on top of its own */
void dlr_oom_first(void);

#endif
