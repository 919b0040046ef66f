/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that stay over the loss of a node: their round's srun stays with them, and
 * the next round's tasks stand for them (dlrover-relay).
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/install_path.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/slurm/srun_io.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/rounds/rounds_state.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"

/* With these options the first word of the program is not one that another program could
 * start, or not on the host.
 */
static bool is_plain(const struct dlr_step_plan *step)
{
    static const char *const options[] = {"--multi-prog", "--bcast", "--container",
                                          "--pty", NULL};

    for (unsigned i = 0; i < step->noptions; i++)
        for (const char *const *option = options; *option; option++)
            if (dlr_after(step->options[i], *option))
                return false;
    return true;
}

bool dlr_sup_stay_can(const struct dlr_sup_rounds *rounds)
{
    return rounds->env.conf->in_process && is_plain(rounds->env.step);
}

int64_t dlr_sup_stay_ms(const struct dlr_sup_rounds *rounds, enum dlr_cause cause)
{
    int64_t most_ms = rounds->env.conf->end_timeout_ms / 2;
    int64_t limit_ms = rounds->env.conf->park_timeout_ms;

    if (cause != DLR_CAUSE_NODE || !rounds->running_reported ||
        !dlr_sup_stay_can(rounds))
        return 0;
    return limit_ms < most_ms ? limit_ms : most_ms;
}

/* A reset on its connection to a node would have srun end its step everywhere. */
static void shut(const struct dlr_sup_rounds *rounds, const struct dlr_proc *srun)
{
    for (unsigned i = 0; i < rounds->members->n; i++) {
        const struct dlr_member *m = &rounds->members->list[i];
        const char *colon = strrchr(m->addr, ':');
        char address[sizeof(m->addr)];

        if (m->here || !colon)
            continue;
        dlr_format(address, sizeof(address), "%.*s", (int)(colon - m->addr), m->addr);
        dlr_srun_io_end(srun, address);
    }
}

static int ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup_rounds *rounds = arg;
    struct dlr_proc *kept = rounds->stay.sruns;

    dlr_sup_unwatch(rounds->env.io, item->fd);
    for (unsigned i = 0; i < rounds->stay.n; i++)
        if (kept[i].pidfd == item->fd) {
            dlr_proc_reap(&kept[i]);
            kept[i] = kept[--rounds->stay.n];
            break;
        }
    return dlr_sup_rounds_go_on(rounds);
}

static void add(struct dlr_sup_rounds *rounds, struct dlr_proc *srun)
{
    dlr_sup_unwatch(rounds->env.io, srun->pidfd);
    rounds->stay.sruns[rounds->stay.n++] = *srun;
    dlr_sup_watch(rounds->env.io, srun->pidfd, ended, rounds);
    *srun = (struct dlr_proc){.pidfd = -1};
}

void dlr_sup_stay_keep(struct dlr_sup_rounds *rounds)
{
    free(rounds->stay.parked);
    rounds->stay.parked = calloc(rounds->members->n, sizeof(*rounds->stay.parked));
    if (!rounds->workers.pid)
        return;
    if (!rounds->stay.parked || rounds->stay.n == DLR_STAY_SRUNS) {
        dlr_sup_stay_end(rounds);
        dlr_srun_abandon(rounds->env.steps, &rounds->workers);
        return;
    }
    add(rounds, &rounds->workers);
    for (unsigned i = 0; i < rounds->stay.n; i++)
        shut(rounds, &rounds->stay.sruns[i]);
}

void dlr_sup_stay_end(struct dlr_sup_rounds *rounds)
{
    while (rounds->stay.n > 0)
        dlr_srun_abandon(rounds->env.steps, &rounds->stay.sruns[--rounds->stay.n]);
    free(rounds->stay.parked);
    rounds->stay.parked = NULL;
}

void dlr_sup_on_parked(struct dlr_sup_rounds *rounds, unsigned node, const json_t *msg)
{
    uint64_t n;

    if (rounds->stay.parked && dlr_msg_uint(msg, "parked", INT32_MAX, &n) == 0)
        rounds->stay.parked[node] = (unsigned)n;
}

unsigned dlr_sup_stay_parked(const struct dlr_sup_rounds *rounds)
{
    unsigned n = 0;

    for (unsigned i = 0; rounds->stay.parked && i < rounds->members->n; i++)
        n += rounds->members->list[i].here ? rounds->stay.parked[i] : 0;
    return n;
}

void dlr_sup_stay_words(const struct dlr_sup_rounds *rounds, struct dlr_words *words)
{
    char path[4096] = "dlrover-relay";

    if (dlr_sup_stay_parked(rounds) == 0 &&
        !(rounds->warm.used && dlr_sup_stay_can(rounds)))
        return;
    dlr_install_path_sibling("dlrover-relay", path, sizeof(path));
    dlr_words_add(words, "%s", path);
}

/* --- for the next supervisor ------------------------------------------------------ */

json_t *dlr_sup_stay_state(const struct dlr_sup_rounds *rounds)
{
    json_t *pids = json_array();

    for (unsigned i = 0; i < rounds->stay.n; i++)
        json_array_append_new(pids, json_integer(rounds->stay.sruns[i].pid));
    return pids;
}

void dlr_sup_stay_take(struct dlr_sup_rounds *rounds, const json_t *pids)
{
    const json_t *pid;
    size_t i;

    json_array_foreach(pids, i, pid)
    {
        struct dlr_proc srun = {.pidfd = -1};

        if (rounds->stay.n < DLR_STAY_SRUNS && json_is_integer(pid) &&
            json_integer_value(pid) <= INT32_MAX)
            dlr_sup_adopt_child((pid_t)json_integer_value(pid), &srun);
        if (srun.pid)
            add(rounds, &srun);
    }
}
