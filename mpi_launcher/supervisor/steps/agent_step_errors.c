/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that do not start, or late. Where the agents' could not be started srun gives up the
 * whole step, on the nodes that have it already, too; so it is asked for without such a node.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/json/message.h"
#include "mpi_launcher/slurm/srun_errors.h"
#include "mpi_launcher/supervisor/supervisor.h"

/* The first failure may be a passing one, of the network or of slurmd. */
#define LAUNCH_TRIES 2

void dlr_sup_agents_log(const struct dlr_sup *s, char *path, size_t size)
{
    snprintf(path, size, "%s/agents.log", s->info.job_dir);
}

static unsigned candidates(const struct dlr_sup *s)
{
    unsigned n = 0;

    for (unsigned i = 0; i < s->members->n; i++)
        n += dlr_sup_is_candidate(s, i);
    return n;
}

static void refuse(struct dlr_sup *s, unsigned node, const char *reason)
{
    const struct dlr_member *m = &s->members->list[node];
    char why[512];

    if (dlr_policy_is_lost(s->policy, node) ||
        dlr_sup_node_unlaunched(s->nodes, node) < LAUNCH_TRIES || candidates(s) < 2)
        return; /* to leave out the last one is no help */
    snprintf(why, sizeof(why), "node %.200s: its agent cannot be started: %.200s",
             m->node.name, reason);
    dlr_policy_lost_before(s->policy, node);
    dlr_sup_give_up(s->nodes, node, why, reason);
}

void dlr_sup_agents_refused(struct dlr_sup *s)
{
    char name[DLR_SRUN_NODE], reason[DLR_SRUN_WORDS];
    DLR_AUTO_FREE char *text = NULL;
    char path[DLR_RUN_PATH + 32];
    const char *at;

    if (dlr_policy_phase(s->policy) != DLR_PHASE_AGENTS || s->finished)
        return;
    dlr_sup_agents_log(s, path, sizeof(path));
    at = text = dlr_sup_file_text(s->io, path, s->agents_log_from);
    while (at && (at = dlr_srun_end_node(at, name, reason))) {
        int node = dlr_members_find(s->members, name);

        if (node >= 0)
            refuse(s, node, reason);
    }
}

/* Late is not dead: a node that has not been seen in the first allocation may be as good as any.
 * One that is late again after a requeue is left out of the next.
 */
bool dlr_sup_is_late(const struct dlr_sup *s, unsigned node)
{
    return !s->info.incarnation && !s->took_over && !s->members->list[node].boot[0] &&
           !dlr_policy_is_lost(s->policy, node);
}

void dlr_sup_agents_late(void *arg, unsigned n)
{
    struct dlr_sup *s = arg;

    dlr_sup_say(s->io,
                "%u of %u nodes have not reported yet: waiting for them while they are "
                "being started, by a prolog perhaps (--dlrover-set=start-timeout)",
                n, s->members->n);
}

/* --- tasks ---------------------------------------------------------------------------- */

void dlr_sup_on_stepd(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    uint64_t round;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) == 0)
        dlr_sup_node_set_stepd(
            s->nodes, node, json_is_true(json_object_get(msg, "here")) ? round + 1 : 0);
}

/* Slurm's own process of the round is there, on some node: it prepares tasks, or brings an image. */
static bool is_starting(const struct dlr_sup *s)
{
    for (unsigned i = 0; s->workers.pid && i < s->members->n; i++)
        if (s->members->list[i].here &&
            s->members->list[i].stepd == (uint64_t)s->running_round + 1)
            return true;
    return false;
}

/* The first round takes its resources as a plain step does, and so does the next when that one had none yet.
 * Others overlap: what the round before had slurmctld counts as taken until it has heard of its end on every
 * node, which of a dead one it never does. Where no step can overlap, none does.
 */
bool dlr_sup_may_queue(const struct dlr_sup *s)
{
    if (s->step.uneven && !s->step.overlap)
        return true;
    if (s->step.overlap || s->queue.held || s->took_over)
        return false;
    for (unsigned i = 0; i < s->members->n; i++)
        if (!dlr_sup_is_barred(s, i) && dlr_policy_is_lost(s->policy, i))
            return false; /* a run before us may have had it */
    return true;
}

bool dlr_sup_launch_queued(struct dlr_sup *s, bool queued)
{
    bool until_now = s->queue.does || queued;

    s->queue.does = queued;
    if (!until_now)
        return false;
    s->launch_ms = dlr_sup_now();
    s->launch_deadline_ms = s->launch_ms + s->conf.launch_timeout_ms;
    dlr_policy_queued(s->policy, s->launch_ms);
    return true;
}

static void end_launch(struct dlr_sup *s, int64_t now_ms)
{
    long long took_s = (long long)(now_ms - s->launch_ms) / 1000;
    const char *option = is_starting(s) ? "start" : "launch";
    char why[160];

    s->queue.held = true;
    if (s->tasks_up || is_starting(s)) {
        snprintf(why, sizeof(why),
                 "%u of %u tasks have started after %lld s (--dlrover-%s-timeout)",
                 s->tasks_up, s->step.world, took_s, option);
        dlr_policy_launch_late(s->policy, s->running_round, why, now_ms);
        return;
    }
    snprintf(
        why, sizeof(why),
        "srun has started no task in %lld s (--dlrover-set=launch-timeout); what it "
        "waits for it has said on its stderr",
        took_s);
    dlr_sup_ask_controller(s, DLR_ASK_LAUNCH, 0, why);
}

bool dlr_sup_launch_late(struct dlr_sup *s, int64_t now_ms)
{
    if (now_ms < s->launch_deadline_ms)
        return false;
    if (is_starting(s) && now_ms < s->launch_ms + s->conf.start_timeout_ms) {
        s->launch_deadline_ms = now_ms + DLR_SUP_TICK_MS; /* the clock stands */
        return false;
    }
    s->launch_deadline_ms = INT64_MAX;
    end_launch(s, now_ms);
    return true;
}

/* --- a rendezvous ----------------------------------------------------------------------- */

/* What srun has said of the present rendezvous; NULL: nothing. Owned by the caller. */
static char *rendezvous_words(const struct dlr_sup *s)
{
    off_t end = s->rendezvous_log < 0 ? -1 : lseek(s->rendezvous_log, 0, SEEK_END);
    char *text = end > 0 ? calloc(1, DLR_SUP_FILE_MAX + 1) : NULL;

    if (text && pread(s->rendezvous_log, text, DLR_SUP_FILE_MAX,
                      end > DLR_SUP_FILE_MAX ? end - DLR_SUP_FILE_MAX : 0) < 0)
        text[0] = '\0';
    return text;
}

/* Before 23.02.6 slurmctld ends the extern step on all nodes of a job that has lost one, and
 * with it goes the mount namespace of job_container/tmpfs: running steps have it, a new one
 * cannot enter it.
 */
bool dlr_sup_container_gone(const struct dlr_sup *s)
{
    DLR_AUTO_FREE char *text = rendezvous_words(s);

    return text && strstr(text, "error: container_g_join failed");
}

void dlr_sup_rendezvous_log(struct dlr_sup *s)
{
    DLR_AUTO_FREE char *text = rendezvous_words(s);
    char path[DLR_RUN_PATH + 32];

    snprintf(path, sizeof(path), "%s/rendezvous.log", s->info.dir);
    if (text && text[0]) {
        text[strlen(text) - (text[strlen(text) - 1] == '\n')] = '\0';
        dlr_journal_append(dlr_sup_journal(s->io), path, text);
    }
    if (s->rendezvous_log >= 0)
        close(s->rendezvous_log);
    s->rendezvous_log = -1;
}
