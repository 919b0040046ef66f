/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/succession.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/ending/ending.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/failure_detector.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/steps/steps.h"
#include "mpi_launcher/supervisor/supervisor.h"

#define LOOK_MS 200 /* from one look for a successor to the next */

static void path_of(const struct dlr_sup *s, char *buf, size_t size)
{
    snprintf(buf, size, "%s/taken-over", s->info.dir);
}

/* --- the successor ---------------------------------------------------------------- */

void dlr_sup_succession_take(struct dlr_sup *s, const json_t *state)
{
    json_t *said = json_object_get(state, "succession");
    uint64_t nth;

    if (dlr_msg_uint(said, "nth", INT32_MAX, &nth) < 0 || nth == 0)
        return;
    s->nth = (unsigned)nth;
    s->script_lost = true;
    s->succession = json_incref(said);
    dlr_sup_steps_orphaned(s->steps);
    dlr_sup_ending_script_lost(s->ending);
}

/* What a pipe or a file of that host had read from the srun, nobody reads any more. */
static void say_output(struct dlr_sup *s)
{
    char path[4096];
    const char *wanted = "";
    ssize_t n = readlink("/proc/self/fd/1", path, sizeof(path) - 1);

    dlr_msg_str(s->succession, "out", &wanted);
    path[n > 0 ? n : 0] = '\0';
    if (n > 0 && !dlr_streq(path, wanted))
        dlr_user_line(s->io,
                      "what read from this srun was lost with its node: what it prints "
                      "from now on goes to '%s'",
                      path);
}

void dlr_sup_succession_begin(struct dlr_sup *s, int64_t now_ms)
{
    const json_t *name, *dead = json_object_get(s->succession, "dead");
    const char *node = "", *from = "";
    uint64_t silent_ms = 0;
    size_t i;

    if (!s->succession)
        return;
    dlr_msg_str(s->succession, "node", &node);
    dlr_msg_str(s->succession, "from", &from);
    dlr_msg_uint(s->succession, "silent_ms", INT64_MAX, &silent_ms);
    dlr_user_line(
        s->io,
        "the host of the batch script, %s, is silent: the run goes on under a "
        "supervisor on %s",
        from, node);
    say_output(s);
    json_array_foreach(dead, i, name)
    {
        int n = json_is_string(name)
                    ? dlr_members_find(s->members, json_string_value(name))
                    : -1;

        if (n >= 0 && !dlr_policy_is_lost(s->policy, (unsigned)n))
            dlr_node_lost(s->nodes, (unsigned)n, (int64_t)silent_ms, now_ms);
    }
}

/* "INCARNATION NTH NODE" */
void dlr_sup_succession_greeted(struct dlr_sup *s)
{
    const char *node = "", *from = "";
    char path[DLR_RUN_PATH + 32], text[DLR_TOPO_NAME + 32];

    if (!s->succession)
        return;
    dlr_msg_str(s->succession, "node", &node);
    dlr_msg_str(s->succession, "from", &from);
    path_of(s, path, sizeof(path));
    snprintf(text, sizeof(text), "%u %u %s\n", s->info.incarnation, s->nth, node);
    dlr_journal_replace(dlr_sup_journal(s->io), path, text);
    dlr_journal_note(dlr_sup_journal(s->io), "takeover", "s:s,s:s,s:s", "node", node,
                     "from", from, "why", "the batch host is silent");
    json_decref(s->succession);
    s->succession = NULL;
}

/* --- the predecessor -------------------------------------------------------------- */

/* Only a majority of the agents elects one, half of two. */
static bool hears_most(const struct dlr_sup *s)
{
    int64_t now = dlr_sup_now(), limit = dlr_job_config_dead_ms(&s->conf);
    const char *batch = dlr_sup_batch(s->nodes);
    unsigned others = 0, heard = 0;

    for (unsigned i = 0; i < s->members->n; i++) {
        const struct dlr_member *m = &s->members->list[i];

        if (!m->boot[0] || dlr_streq(m->node.name, batch))
            continue; /* one that was never seen elects nobody */
        others++;
        heard += m->here && now - m->heard_ms <= limit;
    }
    return 2 * heard > others || others == 0;
}

bool dlr_sup_is_deposed(struct dlr_sup *s)
{
    DLR_AUTO_FREE char *text = NULL;
    char path[DLR_RUN_PATH + 32], node[DLR_TOPO_NAME] = "";
    unsigned incarnation, nth;

    if (!s->conf.takeover || s->deposed || hears_most(s) ||
        dlr_sup_now() - s->deposed_look_ms < LOOK_MS)
        return s->deposed;
    s->deposed_look_ms = dlr_sup_now();
    path_of(s, path, sizeof(path));
    text = dlr_sup_file_text(s->io, path, 0);
    if (!text || sscanf(text, "%u %u %255s", &incarnation, &nth, node) != 3 ||
        incarnation != s->info.incarnation || nth <= s->nth)
        return false;
    dlr_plain(node);
    s->deposed = true;
    dlr_sup_requeue_bar(s->ending); /* it may wait for slurmctld behind the same cut */
    dlr_user_line(s->io,
                  "this host was cut off, and the run goes on under a supervisor on "
                  "%s: waiting for its end",
                  node);
    dlr_journal_note(dlr_sup_journal(s->io), "deposed", "s:s", "node", node);
    return true;
}
