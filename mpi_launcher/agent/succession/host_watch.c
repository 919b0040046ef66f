/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor is silent. Is its host gone, or only the process (its keeper starts it again
 * within a second)? A connect tells: accepted or refused, the host is there, and is waited
 * for until the election limit. A frozen host still accepts; nobody can tell the two apart.
 */
#include <errno.h>
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
#include "mpi_launcher/agent/agent.h"
#include "mpi_launcher/policy/election.h"
#include "mpi_launcher/process/slurm_exit_status.h"
#include "mpi_launcher/process/spawn.h"

static void probe(struct dlr_agent *a);

static void end_probe(struct dlr_agent *a)
{
    dlr_agent_timer_end(a->base, &a->peers.probe_timer);
    if (a->peers.probe_fd < 0)
        return;
    dlr_agent_unwatch(a->base, a->peers.probe_fd);
    close(a->peers.probe_fd);
    a->peers.probe_fd = -1;
}

static int tick(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent *a = arg;

    a->peers.timer = -1;
    if (!dlr_election_is_silent(a->peers.election))
        return 0;
    dlr_agent_timer(a->base, &a->peers.timer, a->dead_ms / 2, tick, a);
    dlr_election_tick(a->peers.election, dlr_now_ms());
    return 0;
}

static void set_silent(struct dlr_agent *a, bool silent)
{
    if (silent && !dlr_election_is_silent(a->peers.election))
        dlr_warn(
            "%s: the supervisor has been silent for %lld ms: asking the other agents",
            a->self.node, (long long)((dlr_now_ns() - a->answered_ns) / 1000000));
    dlr_election_silent(a->peers.election, silent, dlr_now_ms());
    if (silent && a->peers.timer < 0)
        dlr_agent_timer(a->base, &a->peers.timer, a->dead_ms / 2, tick, a);
    if (!silent)
        dlr_agent_timer_end(a->base, &a->peers.timer);
}

static int probe_late(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent *a = arg;

    a->peers.probe_timer = -1;
    end_probe(a);
    dlr_election_host(a->peers.election, false);
    set_silent(a, true);
    return 0;
}

static int probe_again(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent *a = arg;

    a->peers.probe_timer = -1;
    probe(a);
    return 0;
}

static bool waited_enough(const struct dlr_agent *a)
{
    return (dlr_now_ns() - a->answered_ns) / 1000000 > a->self.job.election_timeout_ms;
}

/* Some errors mean that the network says the host is gone, sooner than the timer would. */
static int probe_answered(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent *a = arg;
    socklen_t len = sizeof(int);
    int error = 0;

    getsockopt(a->peers.probe_fd, SOL_SOCKET, SO_ERROR, &error, &len);
    end_probe(a);
    dlr_election_host(a->peers.election, error == 0 || error == ECONNREFUSED);
    set_silent(a, error == EHOSTUNREACH || error == ENETUNREACH || error == ETIMEDOUT ||
                      waited_enough(a));
    dlr_agent_timer(a->base, &a->peers.probe_timer, a->dead_ms, probe_again, a);
    return 0;
}

static void probe(struct dlr_agent *a)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    end_probe(a);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)dlr_agent_control_addr(a->base),
                sizeof(struct sockaddr_in)) < 0 &&
        errno != EINPROGRESS && errno != ECONNREFUSED) {
        close(fd);
        set_silent(a, true);
        dlr_agent_timer(a->base, &a->peers.probe_timer, a->dead_ms, probe_again, a);
        return;
    }
    a->peers.probe_fd = fd;
    dlr_agent_watch_out(a->base, fd, probe_answered, a);
    dlr_agent_timer(a->base, &a->peers.probe_timer, a->dead_ms, probe_late, a);
}

void dlr_agent_watchdog_silence(struct dlr_agent *a)
{
    if (!a->peers.election || a->peers.probe_timer >= 0)
        return;
    probe(a);
}

void dlr_agent_watchdog_answered(struct dlr_agent *a)
{
    end_probe(a);
    if (a->peers.election)
        set_silent(a, false);
}

/* --- the election's hands ----------------------------------------------------------------- */

static void ask(void *arg, const char *node)
{
    struct dlr_agent *a = arg;

    dlr_agent_peers_say(a->base, node,
                        json_pack("{s:i, s:s, s:I, s:s}", "v", DLR_MSG_VERSION, "t",
                                  "silent", "gen", (json_int_t)a->self.run.gen, "node",
                                  a->self.node));
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
    struct dlr_agent *a = arg;
    int status = -1;

    dlr_agent_unwatch(a->base, a->peers.witness_pidfd);
    if (dlr_spawn_reap(a->peers.witness_pidfd, &status) == -EAGAIN)
        close(a->peers.witness_pidfd);
    a->peers.witness_pidfd = -1;
    if (a->peers.election)
        dlr_election_witness(a->peers.election, read_witness(status), dlr_now_ms());
    return 0;
}

static void ask_slurmctld(void *arg)
{
    struct dlr_agent *a = arg;
    char program[4096];
    const char *const argv[] = {program, "witness", a->self.run.job, a->peers.batch,
                                NULL};
    struct dlr_spawn spawn = {.argv = argv, .out_fd = -1, .pass_fd = -1};
    struct dlr_err err;
    pid_t pid;

    if (a->peers.witness_pidfd >= 0 ||
        dlr_self_sibling("dlrover-slurm", program, sizeof(program)) < 0)
        return;
    if (dlr_spawn(&spawn, &pid, &a->peers.witness_pidfd, &err) < 0) {
        dlr_warn("%s: %s", a->self.node, err.text);
        return;
    }
    dlr_agent_watch(a->base, a->peers.witness_pidfd, witness_ended, a);
}

static void win(void *arg)
{
    dlr_agent_succeed(arg);
}

static void stand_down(void *arg)
{
    struct dlr_agent *a = arg;

    dlr_warn("%s: the supervisor is back", a->self.node);
    dlr_agent_succeed_stop(a);
}

static const struct dlr_election_ops ops = {
    .ask = ask, .witness = ask_slurmctld, .win = win, .stand_down = stand_down};

void dlr_agent_watchdog_peers(struct dlr_agent *a)
{
    const char **names = calloc(dlr_agent_peer_list(a->base)->n + 1, sizeof(*names));

    a->peers.election = dlr_election_free(a->peers.election);
    if (!names)
        return;
    for (unsigned i = 0; i < dlr_agent_peer_list(a->base)->n; i++)
        names[i] = dlr_agent_peer_list(a->base)->all[i].node;
    /* Not among the voters: the batch node's own agent, or one that was given up. */
    if (dlr_election_new(a->self.node, a->peers.batch, names,
                         dlr_agent_peer_list(a->base)->n, a->dead_ms, &ops, a,
                         &a->peers.election, NULL) < 0)
        a->peers.election = NULL;
    free(names);
}

void dlr_agent_watchdog_stop(struct dlr_agent *a)
{
    end_probe(a);
    dlr_agent_timer_end(a->base, &a->peers.timer);
    if (a->peers.witness_pidfd >= 0) {
        dlr_agent_unwatch(a->base, a->peers.witness_pidfd);
        close(a->peers.witness_pidfd);
        a->peers.witness_pidfd = -1;
    }
    a->peers.election = dlr_election_free(a->peers.election);
}
