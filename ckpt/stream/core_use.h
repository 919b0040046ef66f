/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a thread has all of a core, and others should help it: from the CPU time that
 * it has used. Pure.
 */
#ifndef DLR_CKPT_STREAM_CORE_USE_H
#define DLR_CKPT_STREAM_CORE_USE_H

#include <stdbool.h>
#include <stdint.h>

#define DLR_CORE_SPAN_NS 10000000 /* judged over that */

struct dlr_core {
    int64_t ran_ns, at_ns; /* when the span began */
    bool full;
};

/* ran_ns: CPU time of the thread, at now_ns. True: it used as much as that of a core of
 * late; percent 0: it always did.
 */
static inline bool dlr_core_full(struct dlr_core *c, unsigned percent, int64_t ran_ns,
                                 int64_t now_ns)
{
    int64_t ran = ran_ns - c->ran_ns, passed = now_ns - c->at_ns;

    if (percent == 0)
        return true;
    if (passed < DLR_CORE_SPAN_NS && ran >= 0)
        return c->full;
    c->full = 100.0 * (double)ran > percent * (double)passed;
    c->ran_ns = ran_ns;
    c->at_ns = now_ns;
    return c->full;
}

#endif
