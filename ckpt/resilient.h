/* SPDX-License-Identifier: Apache-2.0 */
/* A process that stays when another node of its job is lost: it leaves the round that has
 * ended, waits, and goes on in the next one. docs/resilient.md says what a program does
 * before it waits and what it makes again. Link with -ldlrover.
 */
#ifndef DLROVER_RESILIENT_H
#define DLROVER_RESILIENT_H

#ifdef __cplusplus
extern "C" {
#endif

struct dlr_resilient; /* opaque */

/* From now on this process may stay; once in a process that srun has started. 0 and
 * *ret_r, the caller's. -ENOTSUP: processes do not stay here (no supervised job,
 * --dlrover-set=in-process=off, or a launcher such as torchrun stands between srun and
 * this process); the program goes on as without. Else -errno of the way to the agent.
 * Blocks 5 s at most. In a process that runs ahead on a spare (DLROVER_WARM is in its
 * environment, no rank) it returns when this node has got ranks, with one of them and
 * the whole environment of its task: -ECONNRESET there means that none will come, and
 * the process has to end.
 */
int dlr_resilient_open(struct dlr_resilient **ret_r);

/* Waits until the round has ended: 1, and from then on 1 at once. 0: not within
 * timeout_ms (-1: any time). -ECONNRESET: the node's agent is gone, and this process will
 * be ended. For a thread of the program beside the one that trains.
 */
int dlr_resilient_wait(struct dlr_resilient *r, int timeout_ms);

/* After dlr_resilient_wait() has said 1, when this process has left its communicators and
 * closed its checkpoint, within --dlrover-set=park-timeout: waits for the next round, as
 * long as that takes. 0: it is there. Environment (RANK, MASTER_ADDR, SLURM_*,
 * DLROVER_ROUND ...), stdout and stderr are of the next round; another thread must not
 * read the environment meanwhile. -EAGAIN: the round has not ended. -ECONNRESET: as
 * above.
 */
int dlr_resilient_next(struct dlr_resilient *r);

/* It does not stay any more. Accepts NULL. */
void dlr_resilient_close(struct dlr_resilient *r);

#ifdef __cplusplus
}
#endif

#endif
