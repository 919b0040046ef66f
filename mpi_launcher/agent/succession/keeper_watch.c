/* SPDX-License-Identifier: Apache-2.0 */
/* On the batch host: the keeper is the srun of the script. One that is killed alone is noticed by
 * its supervisor, which ends the run. When both are gone nobody will start another, and an
 * election would requeue a job whose script may go on: the run ends here, as a plain srun's would.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/agent.h"
#include "mpi_launcher/process/process_id.h"

#define FAREWELL_MS 500 /* for our word to the other agents to be on its way */

static int leave(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent *a = arg;

    a->keeper.timer = -1;
    dlr_agent_end(a->base);
    return 0;
}

static void run_is_over(struct dlr_agent *a)
{
    dlr_warn("%s: the srun of the script was killed and its supervisor with it: ending "
             "the run",
             a->self.node);
    dlr_agent_tasks_kill_with_srun(a->tasks);
    dlr_agent_succeed_over(a);
    for (unsigned i = 0; i < dlr_agent_peer_list(a->base)->n; i++)
        if (!dlr_streq(dlr_agent_peer_list(a->base)->all[i].node, a->self.node))
            dlr_agent_peers_say(a->base, dlr_agent_peer_list(a->base)->all[i].node,
                                json_pack("{s:i, s:s, s:I}", "v", DLR_MSG_VERSION, "t",
                                          "over", "gen", (json_int_t)a->self.run.gen));
    dlr_agent_timer(a->base, &a->keeper.timer, FAREWELL_MS, leave, a);
}

/* A supervisor that lives answers beats until it has ended the run. */
static int look(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent *a = arg;
    int64_t left_ms = a->dead_ms - (dlr_now_ns() - a->heard_ns) / 1000000;

    a->keeper.timer = -1;
    if (a->suspended || left_ms > 0 || dlr_agent_in_grace(a))
        dlr_agent_timer(a->base, &a->keeper.timer, left_ms > 0 ? left_ms : a->dead_ms,
                        look, a);
    else if (!dlr_agent_ends(a->base))
        run_is_over(a);
    return 0;
}

static void forget(struct dlr_agent *a)
{
    if (a->keeper.pidfd < 0)
        return;
    dlr_agent_unwatch(a->base, a->keeper.pidfd);
    close(a->keeper.pidfd);
    a->keeper.pidfd = -1;
}

static int on_gone(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent *a = arg;

    forget(a);
    dlr_agent_timer(a->base, &a->keeper.timer, a->dead_ms, look, a);
    return 0;
}

void dlr_agent_keeper_watch(struct dlr_agent *a, const char *text)
{
    struct dlr_procid id;

    if (a->keeper.pidfd >= 0 || dlr_procid_parse(text, &id) < 0)
        return;
    a->keeper.pidfd = (int)syscall(SYS_pidfd_open, id.pid, 0);
    if (a->keeper.pidfd < 0)
        return;
    if (!dlr_procid_alive(&id)) { /* of another host, or gone before we looked */
        close(a->keeper.pidfd);
        a->keeper.pidfd = -1;
        return;
    }
    dlr_agent_watch(a->base, a->keeper.pidfd, on_gone, a);
}

void dlr_agent_keeper_stop(struct dlr_agent *a)
{
    forget(a);
    dlr_agent_timer_end(a->base, &a->keeper.timer);
}
