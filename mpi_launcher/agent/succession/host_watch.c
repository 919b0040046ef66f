/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor is silent. Is its host gone, or only the process (its keeper starts it
 * again within a second)? A connect tells: accepted or refused, the host is there, and
 * is waited for until the election limit. A frozen host still accepts; nobody can tell
 * the two apart. The connect begins at half a dead-time of silence, so that its answer
 * is there when the dead-time ends.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/install_path.h"
#include "common/base/log.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/succession/succession_state.h"
#include "mpi_launcher/policy/election.h"
#include "mpi_launcher/process/slurm_exit_status.h"
#include "mpi_launcher/process/spawn.h"

/* More agents than this wait for the whole dead-time: a supervisor that stands still for
 * a moment is not to find all their connects as well.
 */
#define EARLY_MAX 64

static void probe(struct dlr_agent_succession *su);

static bool is_due(const struct dlr_agent_succession *su)
{
    return su->ops->silent_ms(su->arg) >= dlr_agent_dead_ms(su);
}

/* Of a probe, and from one to the next. */
static int64_t probe_ms(const struct dlr_agent_succession *su)
{
    return is_due(su) ? dlr_agent_dead_ms(su) : dlr_agent_dead_ms(su) / 2;
}

static void end_probe(struct dlr_agent_succession *su)
{
    dlr_agent_timer_end(su->base, &su->probe_timer);
    if (su->probe_fd < 0)
        return;
    dlr_agent_unwatch(su->base, su->probe_fd);
    close(su->probe_fd);
    su->probe_fd = -1;
}

static int tick(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_succession *su = arg;

    su->timer = -1;
    if (!dlr_election_is_silent(su->election))
        return 0;
    dlr_agent_timer(su->base, &su->timer, dlr_agent_dead_ms(su) / 2, tick, su);
    dlr_election_tick(su->election, dlr_now_ms());
    return 0;
}

static void set_silent(struct dlr_agent_succession *su, bool silent)
{
    if (silent && !dlr_election_is_silent(su->election))
        dlr_warn(
            "%s: the supervisor has been silent for %lld ms: asking the other agents",
            su->self->node, (long long)(su->ops->silent_ms(su->arg)));
    dlr_election_silent(su->election, silent, dlr_now_ms());
    if (silent && su->timer < 0)
        dlr_agent_timer(su->base, &su->timer, dlr_agent_dead_ms(su) / 2, tick, su);
    if (!silent)
        dlr_agent_timer_end(su->base, &su->timer);
}

static int probe_again(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_succession *su = arg;

    su->probe_timer = -1;
    probe(su);
    return 0;
}

static bool waited_enough(const struct dlr_agent_succession *su)
{
    return su->ops->silent_ms(su->arg) > su->self->job.election_timeout_ms;
}

/* Some errors mean that the network says the host is gone, sooner than the timer would.
 */
static int probe_answered(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent_succession *su = arg;
    socklen_t len = sizeof(int);
    int error = 0;

    getsockopt(su->probe_fd, SOL_SOCKET, SO_ERROR, &error, &len);
    end_probe(su);
    dlr_election_host(su->election, error == 0 || error == ECONNREFUSED);
    set_silent(su, (is_due(su) && (error == EHOSTUNREACH || error == ENETUNREACH ||
                                   error == ETIMEDOUT)) ||
                       waited_enough(su));
    dlr_agent_timer(su->base, &su->probe_timer, probe_ms(su), probe_again, su);
    return 0;
}

/* A loop that was held up finds the timer and the answer together, the timer first. */
static int probe_late(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_succession *su = arg;
    struct pollfd answer = {.fd = su->probe_fd, .events = POLLOUT};

    su->probe_timer = -1;
    if (poll(&answer, 1, 0) > 0)
        return probe_answered(loop, NULL, su);
    end_probe(su);
    dlr_election_host(su->election, false);
    if (is_due(su))
        set_silent(su, true);
    return 0;
}

/* The network says at once that there is no way. */
static void probe_failed(struct dlr_agent_succession *su)
{
    if (is_due(su))
        set_silent(su, true);
    dlr_agent_timer(su->base, &su->probe_timer, probe_ms(su), probe_again, su);
}

static void probe(struct dlr_agent_succession *su)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    end_probe(su);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)dlr_agent_control_addr(su->base),
                sizeof(struct sockaddr_in)) < 0 &&
        errno != EINPROGRESS && errno != ECONNREFUSED) {
        close(fd);
        probe_failed(su);
        return;
    }
    su->probe_fd = fd;
    dlr_agent_watch_out(su->base, fd, probe_answered, su);
    dlr_agent_timer(su->base, &su->probe_timer, probe_ms(su), probe_late, su);
}

void dlr_agent_watchdog_silence(struct dlr_agent_succession *su)
{
    if (!su->election || su->probe_timer >= 0 ||
        (!is_due(su) && dlr_agent_peer_list(su->base)->n > EARLY_MAX))
        return;
    probe(su);
}

void dlr_agent_watchdog_answered(struct dlr_agent_succession *su)
{
    end_probe(su);
    if (su->election)
        set_silent(su, false);
}

/* --- the election's hands --------------------------------------------------------- */

static void ask(void *arg, const char *node)
{
    struct dlr_agent_succession *su = arg;

    dlr_agent_peers_send(su->base, node,
                         json_pack("{s:i, s:s, s:I, s:s}", "v", DLR_MSG_VERSION, "t",
                                   "silent", "gen", (json_int_t)su->self->run.gen,
                                   "node", su->self->node));
}

static enum dlr_witness read_witness(int status)
{
    switch (WIFEXITED(status) ? WEXITSTATUS(status) : -1) {
    case 0:
        return DLR_WITNESS_ANSWERS;
    case DLR_SLURM_GONE:
        return DLR_WITNESS_GONE;
    case DLR_SLURM_MISSES:
        return DLR_WITNESS_MISSES;
    default:
        return DLR_WITNESS_NONE;
    }
}

static int witness_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent_succession *su = arg;
    int status = -1;

    dlr_agent_unwatch(su->base, su->witness_pidfd);
    if (dlr_spawn_reap(su->witness_pidfd, &status) == -EAGAIN)
        close(su->witness_pidfd);
    su->witness_pidfd = -1;
    if (su->election)
        dlr_election_witness(su->election, read_witness(status), dlr_now_ms());
    return 0;
}

static void ask_slurmctld(void *arg)
{
    struct dlr_agent_succession *su = arg;
    char program[4096];
    const char *const argv[] = {program, "witness", su->self->run.job, su->batch, NULL};
    struct dlr_spawn spawn = {.argv = argv, .out_fd = -1, .pass_fd = -1};
    struct dlr_err err;
    pid_t pid;

    if (su->witness_pidfd >= 0 ||
        dlr_install_path_sibling("dlrover-slurm", program, sizeof(program)) < 0)
        return;
    if (dlr_spawn(&spawn, &pid, &su->witness_pidfd, &err) < 0) {
        dlr_warn("%s: %s", su->self->node, err.text);
        return;
    }
    dlr_agent_watch(su->base, su->witness_pidfd, witness_ended, su);
}

static void win(void *arg)
{
    if (!dlr_agent_take_over(arg))
        dlr_agent_succeed(arg);
}

static void stand_down(void *arg)
{
    struct dlr_agent_succession *su = arg;

    dlr_warn("%s: the supervisor is back", su->self->node);
    dlr_agent_succeed_stop(su);
    dlr_agent_take_over_cancel(su);
}

static const struct dlr_election_ops ops = {
    .ask = ask, .witness = ask_slurmctld, .win = win, .stand_down = stand_down};

void dlr_agent_watchdog_peers(struct dlr_agent_succession *su)
{
    const char **names = calloc(dlr_agent_peer_list(su->base)->n + 1, sizeof(*names));

    /* The next election may be none: nothing of this one is left to be told to it. */
    dlr_agent_watchdog_answered(su);
    su->election = dlr_election_free(su->election);
    if (!names)
        return;
    for (unsigned i = 0; i < dlr_agent_peer_list(su->base)->n; i++)
        names[i] = dlr_agent_peer_list(su->base)->all[i].node;
    /* Not among the voters: the batch node's own agent, or one that was given up. */
    if (dlr_election_new(su->self->node, su->batch, names,
                         dlr_agent_peer_list(su->base)->n, dlr_agent_dead_ms(su), &ops,
                         su, &su->election, NULL) < 0)
        su->election = NULL;
    free(names);
}

void dlr_agent_watchdog_stop(struct dlr_agent_succession *su)
{
    end_probe(su);
    dlr_agent_timer_end(su->base, &su->timer);
    if (su->witness_pidfd >= 0) {
        dlr_agent_unwatch(su->base, su->witness_pidfd);
        close(su->witness_pidfd);
        su->witness_pidfd = -1;
    }
    su->election = dlr_election_free(su->election);
}
