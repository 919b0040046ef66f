/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes on which the agents' step could not be started. srun gives up the whole step for one of
 * them, on the nodes that have it already, too; so the step is asked for without it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "mpi_launcher/srun_end.h"
#include "mpi_launcher/sup.h"

/* The first failure may be a passing one, of the network or of slurmd. */
#define LAUNCH_TRIES 2

void dlr_sup_agents_log(const struct dlr_sup *s, char *path, size_t size)
{
    snprintf(path, size, "%s/agents.log", s->info.job_dir);
}

static unsigned candidates(const struct dlr_sup *s)
{
    unsigned n = 0;

    for (unsigned i = 0; i < s->members.n; i++)
        n += dlr_sup_is_candidate(s, i);
    return n;
}

static void refuse(struct dlr_sup *s, unsigned node, const char *reason)
{
    struct dlr_member *m = &s->members.list[node];
    char why[512];

    if (dlr_policy_is_lost(s->policy, node) || ++m->unlaunched < LAUNCH_TRIES ||
        candidates(s) < 2)
        return; /* to leave out the last one is no help */
    snprintf(why, sizeof(why), "node %.200s: its agent cannot be started: %.200s",
             m->node.name, reason);
    dlr_policy_lost_before(s->policy, node);
    dlr_sup_give_up(s, node, why, reason, 0);
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
    at = text = dlr_sup_file_text(s, path, s->agents_log_from);
    while (at && (at = dlr_srun_end_node(at, name, reason))) {
        int node = dlr_members_find(&s->members, name);

        if (node >= 0)
            refuse(s, node, reason);
    }
}

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
        dlr_journal_append(s->journal, path, text);
    }
    if (s->rendezvous_log >= 0)
        close(s->rendezvous_log);
    s->rendezvous_log = -1;
}
