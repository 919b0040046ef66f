/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's beginning, its loop and its end. */
#include "mpi_launcher/agent/base/base.h"

#include <czmq.h>
#include <stdlib.h>

#include "mpi_launcher/agent/base/base_state.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"

struct dlr_agent_base *dlr_agent_base_new(const struct dlr_agent_base_ops *ops,
                                          void *arg)
{
    static const struct dlr_agent_base_ops none;
    struct dlr_agent_base *base = calloc(1, sizeof(*base));

    if (!base)
        return NULL;
    base->ops = ops ? ops : &none;
    base->arg = arg;
    base->note_timer = -1;
    base->loop = zloop_new();
    if (!base->loop) {
        free(base);
        return NULL;
    }
    zloop_set_nonstop(base->loop, true);
    return base;
}

struct dlr_agent_base *dlr_agent_base_free(struct dlr_agent_base *base)
{
    if (!base)
        return NULL;
    dlr_agent_supervisor_close(base, 0);
    dlr_agent_peers_close(base);
    dlr_agent_timers_free(base);
    zloop_destroy(&base->loop);
    dlr_agent_watched_free(base);
    free(base);
    return NULL;
}

void dlr_agent_base_run(struct dlr_agent_base *base)
{
    zloop_start(base->loop);
}

void dlr_agent_leave(struct dlr_agent_base *base)
{
    base->leaving = true;
}

bool dlr_agent_leaves(const struct dlr_agent_base *base)
{
    return base->leaving;
}

bool dlr_agent_ends(const struct dlr_agent_base *base)
{
    return base->ending;
}

static int stop_loop(zloop_t *loop, int timer, void *arg)
{
    return -1;
}

void dlr_agent_end(struct dlr_agent_base *base)
{
    int timer = -1;

    if (base->ending)
        return;
    base->ending = true;
    if (base->ops->end)
        base->ops->end(base->arg);
    dlr_agent_timer(base, &timer, 1, stop_loop, base);
}
