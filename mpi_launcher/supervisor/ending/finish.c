/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a run. */
#include <signal.h>
#include <string.h>

#include "common/json/message.h"
#include "mpi_launcher/supervisor/ending/ending_state.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/steps/agent_step.h"

/* Room that finish leaves agents beyond the end of their tasks. */
#define BYE_EXTRA_MS 2000

static void say_why(struct dlr_sup_ending *ending, const char *why)
{
    unsigned rank, node;
    const char *tail = ending->ops->last_lines(ending->arg, &rank, &node);

    dlr_user_line(ending->env.io, "%s", why);
    if (!tail || !tail[0] || ending->wanted_signal)
        return;
    dlr_user_line(ending->env.io, "last lines of rank %u on %s:", rank,
                  ending->members->list[node].node.name);
    for (const char *line = tail; *line;) {
        size_t n = strcspn(line, "\n");

        dlr_user_line(ending->env.io, "  | %.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

/* Nobody waits for our code but the script, which a requeue begins again: this srun
 * returns it there at once. Slurm's SIGTERM ends the agents. The journal's last word is
 * the end.
 */
static void run_rest(struct dlr_sup_ending *ending, int code)
{
    json_t *msg = dlr_msg_new("shutdown");

    ending->finished = true;
    ending->exit_code = code;
    ending->ops->changed(ending->arg, true);
    json_object_set_new(msg, "later", json_true());
    dlr_sup_send_all(ending->env.nodes, msg);
    dlr_sup_requeue_rest(ending);
}

void dlr_sup_finish(struct dlr_sup_ending *ending, int code, const char *why)
{
    int64_t now = dlr_sup_now();
    bool requeued = ending->requeue_asked && ending->wanted_signal && !ending->asking &&
                    !ending->leave.waits;
    bool rest = ending->script_lost && !ending->wanted_signal;
    bool lasts = /* else it is not kept by itself */
        !rest && !ending->wanted_signal && !ending->term.warning &&
        !dlr_policy_has_sigterm(ending->policy);
    json_t *row;

    ending->ops->ends(ending->arg);
    if (why && !requeued) /* else: the signal was Slurm's way to take the job back */
        say_why(ending, why);
    if (rest)
        run_rest(ending, code);
    ending->finished = true;
    ending->exit_code = code;
    row = json_pack("{s:i,s:s?,s:f,s:I}", "code", code, "why", why, "wall_s",
                    (now - *ending->env.started_ms) / 1000.0, "rounds",
                    (json_int_t)ending->ops->rounds(ending->arg));
    if (lasts) { /* before the line: who finds it kept writes the line if it must */
        ending->row = json_incref(row);
        ending->ops->changed(ending->arg, false);
    }
    /* Who took over from a host that was cut off had it ended, too. */
    if (ending->wanted_signal)
        dlr_journal_last(dlr_sup_journal(ending->env.io), requeued ? "requeued" : "end",
                         row);
    else
        dlr_journal_event(dlr_sup_journal(ending->env.io), "end", row);
    if (!requeued)
        dlr_joint_requeue_cancel(ending);
    if (lasts)
        ending->ops->changed(ending->arg, true);
    ending->ops->ended(ending->arg);
    if (rest && ending->helper.pid)
        return;
    dlr_sup_say_bye(ending);
    dlr_sup_agents_shutdown(ending->env.steps,
                            now + ending->env.conf->end_timeout_ms + BYE_EXTRA_MS);
}

void dlr_sup_end_state(const struct dlr_sup_ending *ending, json_t *state)
{
    if (ending->row)
        json_object_set(state, "end", ending->row);
}

void dlr_sup_end_take(struct dlr_sup_ending *ending, const json_t *state)
{
    json_t *row = json_object_get(state, "end");

    if (json_is_object(row) && !ending->row)
        ending->row = json_incref(row);
}

void dlr_sup_end_tell(struct dlr_sup_ending *ending)
{
    if (ending->row)
        dlr_journal_end_missing(dlr_sup_journal(ending->env.io),
                                json_incref(ending->row));
}
