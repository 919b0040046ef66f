/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads drive one loop in turn: one of the priority that the process has, and one that runs when
 * nobody else wants the core (SCHED_IDLE). It needs two, since who has no privilege may lower a thread's
 * priority and not raise it again. The first watches the second, and takes the loop back where it
 * starves.
 */
#ifndef DLR_CKPT_DATA_TURNS_H
#define DLR_CKPT_DATA_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

#define DLR_TURNS_LOOK_MS 100 /* so often the thread of low priority is looked at */
#define DLR_TURNS_LOOKS 3     /* at which it had work and hardly ran: it starves */
#define DLR_TURNS_SHARE 0.1   /* of a core: less is hardly */
#define DLR_TURNS_REFRAIN_MS 60000 /* after that the loop stays where it is */

/* Drives the loop; low: in the thread of low priority. True when it is the other's turn, false at the end
 * of all.
 */
typedef bool (*dlr_turns_fn)(void *arg, bool low);

struct dlr_turns;

/* Blocking until drive() returned false. The caller's thread begins. */
void dlr_turns_run(struct dlr_turns *turns);
int dlr_turns_new(dlr_turns_fn drive, void *arg, struct dlr_turns **ret,
                  struct dlr_err *err);

/* For drive(), often: whether it is to return true. may_be_low: there is work, and all of it can wait. */
bool dlr_turns_over(struct dlr_turns *turns, bool low, bool may_be_low, int64_t now_ms);
/* For drive(): it was late for its own deadlines, as one that starves is. */
void dlr_turns_late(struct dlr_turns *turns, int64_t now_ms);

/* Pure: what three looks at a thread say. */
struct dlr_starving {
    int64_t ran_ns, at_ns; /* of the last look */
    unsigned looks; /* in a row at which it starved; the first look counts for none */
    bool known;
};
/* ran_ns: CPU time it has had; wants: it is on a core or waits for one. True: it starves. */
bool dlr_starving_see(struct dlr_starving *s, int64_t ran_ns, bool wants,
                      int64_t now_ns);

#endif
