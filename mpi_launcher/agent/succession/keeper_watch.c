/* SPDX-License-Identifier: Apache-2.0 */
/* On the batch host: the keeper is the srun of the script. One that is killed alone is
 * noticed by its supervisor, which ends the run. When both are gone nobody will start
 * another, and an election would requeue a job whose script may go on: the run ends
 * here, as a plain srun's would.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/succession/succession_state.h"
#include "mpi_launcher/agent/tasks/tasks.h"
#include "mpi_launcher/process/process_id.h"

#define FAREWELL_MS 500 /* for our word to the other agents to be on its way */

static int leave(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_succession *su = arg;

    su->keeper.timer = -1;
    dlr_agent_end(su->base);
    return 0;
}

static void run_is_over(struct dlr_agent_succession *su)
{
    dlr_warn("%s: the srun of the script was killed and its supervisor with it: ending "
             "the run",
             su->self->node);
    dlr_agent_tasks_kill_with_srun(su->tasks);
    dlr_agent_succeed_over(su);
    dlr_agent_peers_send_all(su->base, su->self->node,
                             json_pack("{s:i, s:s, s:I}", "v", DLR_MSG_VERSION, "t",
                                       "over", "gen", (json_int_t)su->self->run.gen));
    dlr_agent_timer(su->base, &su->keeper.timer, FAREWELL_MS, leave, su);
}

/* A supervisor that lives answers beats until it has ended the run. */
static int look(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_succession *su = arg;
    int64_t left_ms = dlr_agent_dead_ms(su) - su->ops->unheard_ms(su->arg);

    su->keeper.timer = -1;
    if (su->ops->suspended(su->arg) || left_ms > 0 || dlr_agent_in_grace(su))
        dlr_agent_timer(su->base, &su->keeper.timer,
                        left_ms > 0 ? left_ms : dlr_agent_dead_ms(su), look, su);
    else if (!dlr_agent_ends(su->base))
        run_is_over(su);
    return 0;
}

static void forget(struct dlr_agent_succession *su)
{
    if (su->keeper.pidfd < 0)
        return;
    dlr_agent_unwatch(su->base, su->keeper.pidfd);
    close(su->keeper.pidfd);
    su->keeper.pidfd = -1;
}

static int on_gone(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent_succession *su = arg;

    forget(su);
    dlr_agent_timer(su->base, &su->keeper.timer, dlr_agent_dead_ms(su), look, su);
    return 0;
}

void dlr_agent_keeper_watch(struct dlr_agent_succession *su, const char *text)
{
    struct dlr_procid id;

    if (su->keeper.pidfd >= 0 || dlr_procid_parse(text, &id) < 0)
        return;
    su->keeper.pidfd = (int)syscall(SYS_pidfd_open, id.pid, 0);
    if (su->keeper.pidfd < 0)
        return;
    if (!dlr_procid_alive(&id)) { /* of another host, or gone before we looked */
        close(su->keeper.pidfd);
        su->keeper.pidfd = -1;
        return;
    }
    dlr_agent_watch(su->base, su->keeper.pidfd, on_gone, su);
}

void dlr_agent_keeper_stop(struct dlr_agent_succession *su)
{
    forget(su);
    dlr_agent_timer_end(su->base, &su->keeper.timer);
}
