/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads drive one loop in turn: one of the priority that the process has, and one
 * that runs when nobody else wants the core (SCHED_IDLE). It needs two, since who has
 * no privilege may lower a thread's priority and not raise it again. Where the second
 * one has to wait for a core, the first has the loop.
 */
#ifndef DLR_CKPT_STREAM_IDLE_THREAD_H
#define DLR_CKPT_STREAM_IDLE_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"

#define DLR_TURNS_REFRAIN_MS 60000  /* after it waited, the loop stays where it is */
#define DLR_TURNS_WAITED_NS 5000000 /* less does not count */

/* Drives the loop; low: in the thread of low priority. True when it is the other's
 * turn, false at the end of all.
 */
typedef bool (*dlr_turns_fn)(void *arg, bool low);

struct dlr_turns;

/* Blocking until drive() returned false. The caller's thread begins. */
void dlr_turns_run(struct dlr_turns *turns);
int dlr_turns_new(dlr_turns_fn drive, void *arg, struct dlr_turns **ret,
                  struct dlr_err *err);

/* For drive(), often: whether it is to return true. may_be_low: there is work, and all
 * of it can wait.
 */
bool dlr_turns_over(struct dlr_turns *turns, bool low, bool may_be_low, int64_t now_ms);
/* For drive(): it was late for its own deadlines, as one that starves is. */
void dlr_turns_late(struct dlr_turns *turns, int64_t now_ms);

/* Pure: whether a thread that waited so long for a core in a turn of that length waited
 * too long: for more than a quarter of it.
 */
bool dlr_turns_waited(int64_t waited_ns, int64_t turn_ns);

#endif
