/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's loop in a test of one of its engines. */
#ifndef DLR_TESTS_SUPPORT_AGENT_LOOP_H
#define DLR_TESTS_SUPPORT_AGENT_LOOP_H

#include "mpi_launcher/agent/base/reactor.h"

#define AGENT_LOOP_LIMIT_MS 30000

struct agent_loop {
    int timer;
    bool late;
};

static inline int agent_loop_late(zloop_t *loop, int timer, void *arg)
{
    *(struct agent_loop *)arg = (struct agent_loop){.timer = -1, .late = true};
    return -1;
}

/* Runs until dlr_agent_end(). False: nobody has called it within the limit. */
static inline bool agent_loop_ends(struct dlr_agent_base *base)
{
    struct agent_loop limit = {.timer = -1};

    dlr_agent_timer(base, &limit.timer, AGENT_LOOP_LIMIT_MS, agent_loop_late, &limit);
    dlr_agent_base_run(base);
    dlr_agent_timer_end(base, &limit.timer);
    return !limit.late;
}

#endif
