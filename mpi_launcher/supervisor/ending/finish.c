/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a run: back into the queue, or over. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/supervisor.h"

/* Room that finish leaves agents beyond the end of their tasks. */
#define BYE_EXTRA_MS 2000

/* --- requeue --------------------------------------------------------------------------------- */

static int requeue_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup *s = arg;
    char text[512] = "";
    ssize_t n = read(s->helper_out, text, sizeof(text) - 1);
    int status;

    close(s->helper_out);
    s->helper_out = -1;
    dlr_sup_unwatch(s->io, s->helper.pidfd);
    status = dlr_proc_reap(&s->helper);
    text[n > 0 ? strcspn(text, "\n") : 0] = '\0';
    if (status != 0)
        dlr_sup_ask_controller(s->steps, DLR_ASK_REQUEUE, 0,
                               text[0] ? text : "dlrover-slurm failed", 0);
    else if (text[0])
        dlr_sup_say(s->io, "requeued, but %s", text);
    return 0; /* Slurm ends us from here on */
}

/* Late is not dead: a node that has not been seen in the first allocation may be as good as any.
 * One that is late again after a requeue is left out of the next.
 */
static bool is_late(const struct dlr_sup *s, unsigned node)
{
    return !s->info.incarnation && !s->took_over && !s->members->list[node].boot[0] &&
           !dlr_policy_is_lost(s->policy, node);
}

/* The new allocation must do without the dead, and without those that a check left out. */
static char *useless_nodes(struct dlr_sup *s, json_t *names)
{
    char *list = strdup("");

    for (unsigned i = 0; list && i < s->members->n; i++) {
        char *longer = NULL;

        if (dlr_stepplan_bars(s->step, i) || /* it is good for others */
            is_late(s, i) ||
            (dlr_policy_is_alive(s->policy, i) && !(s->unfit && s->unfit[i])))
            continue;
        json_array_append_new(names, json_string(s->members->list[i].node.name));
        if (asprintf(&longer, "%s%s%s", list, list[0] ? "," : "",
                     s->members->list[i].node.name) < 0)
            break;
        free(list);
        list = longer;
    }
    return list;
}

void dlr_sup_requeue(void *arg, const char *why)
{
    json_t *msg = dlr_msg_new("bye");
    struct dlr_sup *s = arg;

    s->requeue_asked = true;
    json_object_set_new(msg, "later", json_true());
    dlr_sup_send_all(s->nodes, msg); /* Slurm's SIGTERM ends them */
    dlr_sup_save_state(s);
    if (dlr_sup_leave_ready(s, why))
        dlr_sup_requeue_now(s, why);
}

void dlr_sup_requeue_now(struct dlr_sup *s, const char *why)
{
    json_t *names = json_array();
    DLR_AUTO_FREE char *list = useless_nodes(s, names);
    struct dlr_words words = {0};
    struct dlr_err err = {0};
    int pipes[2];

    if (!list) { /* no memory: the end of the requeue's time says so */
        json_decref(names);
        return;
    }
    dlr_sup_say(s->io, "%s: requeueing the job without %s", why,
                list[0] ? list : "any node");
    dlr_journal_note(dlr_sup_journal(s->io), "requeue", "s:s,s:o,s:i", "why", why,
                     "exclude", names, "min_nodes", s->full_places);
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return;
    dlr_sup_slurm_words(s->steps, &words, "requeue", true);
    dlr_words_add(&words, "%s", list[0] ? list : "-");
    dlr_words_add(&words, "%u", s->full_places);
    dlr_words_add(&words, "%u", s->members->n);
    dlr_words_add(&words, "%lldms", (long long)s->conf.requeue_timeout_ms);
    dlr_words_add(&words, "%u", s->info.incarnation);
    dlr_words_add(&words, "%s", s->info.dir);
    if (dlr_sup_start_slurm(&words, pipes[1], &s->helper, &err) == 0) {
        s->helper_out = dlr_steal_fd(&pipes[0]);
        dlr_sup_watch(s->io, s->helper.pidfd, requeue_ended, s);
    }
    close(pipes[1]);
    if (pipes[0] >= 0)
        close(pipes[0]);
    dlr_words_done(&words);
}

/* --- over ---------------------------------------------------------------------------------------- */

static void say_why(struct dlr_sup *s, const char *why)
{
    const struct dlr_failure *f = &s->failure;
    const char *tail = f->set && s->tails ? s->tails[f->rank] : NULL;

    dlr_sup_say(s->io, "%s", why);
    if (!tail || !tail[0] || s->wanted_signal)
        return;
    dlr_sup_say(s->io, "last lines of rank %u on %s:", f->rank,
                s->members->list[f->node].node.name);
    for (const char *line = tail; *line;) {
        size_t n = strcspn(line, "\n");

        dlr_sup_say(s->io, "  | %.*s", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

/* So Slurm ends what it takes back. A job that is cancelled looks the same. */
static void say_bye(struct dlr_sup *s)
{
    json_t *msg = dlr_msg_new("bye");

    json_object_set_new(msg, "stays", json_boolean(s->wanted_signal == SIGTERM));
    dlr_sup_send_all(s->nodes, msg);
}

void dlr_sup_finish(void *arg, int code, const char *why)
{
    struct dlr_sup *s = arg;
    int64_t now = dlr_sup_now();
    bool requeued = s->requeue_asked && s->wanted_signal;
    json_t *row;

    dlr_sup_tell_failure(s);
    dlr_sup_tell_cleared(s);
    if (why && !requeued) /* else: the signal was Slurm's way to take the job back */
        say_why(s, why);
    row = json_pack(
        "{s:i,s:s?,s:f,s:I}", "code", code, "why", why, "wall_s",
        (now - s->started_ms) / 1000.0, "rounds",
        (json_int_t)(dlr_sup_has_plan(s->plan) ? dlr_policy_round(s->policy) + 1 : 0));
    if (s->wanted_signal) /* who took over from a host that was cut off had it ended, too */
        dlr_journal_last(dlr_sup_journal(s->io), requeued ? "requeued" : "end", row);
    else
        dlr_journal_event(dlr_sup_journal(s->io), "end", row);
    if (!requeued)
        dlr_sup_leave_cancel(s);
    s->finished = true;
    s->exit_code = code;
    if (!s->wanted_signal && !dlr_policy_is_told(s->policy)) /* else not by itself */
        dlr_sup_save_state(s);
    dlr_sup_let_go(s->steps,
                   &s->workers); /* none, but when there is no other way to end them */
    say_bye(s);
    dlr_sup_agents_bye(s->steps, now + s->conf.end_timeout_ms + BYE_EXTRA_MS);
}

bool dlr_sup_is_over(const struct dlr_sup *s)
{
    return s->finished && !dlr_sup_steps_busy(s->steps);
}
