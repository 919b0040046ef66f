/* SPDX-License-Identifier: Apache-2.0 */
/* The job back into the queue, without nodes that are of no use to it. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "mpi_launcher/process/slurm_exit_status.h"
#include "mpi_launcher/supervisor/ending/ending_state.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "mpi_launcher/supervisor/steps/controller.h"
#include "mpi_launcher/supervisor/steps/slurm_command.h"

void dlr_sup_requeue_rest(struct dlr_sup_ending *ending)
{
    dlr_sup_requeue_now(ending, "the batch script was lost with its host: what is left "
                                "of it runs after a requeue");
}

/* Then another round does with what there is: it may have been an accident. */
static int no_more_memory(struct dlr_sup_ending *ending, const char *why)
{
    dlr_user_line(ending->env.io,
                  "the job gets no more memory: %s; it goes on as it is", why);
    ending->no_memory = ending->leave.off = true;
    ending->for_memory = false;
    return dlr_sup_ending_go_on(ending);
}

bool dlr_sup_ending_for_memory(struct dlr_sup_ending *ending, bool anyway)
{
    ending->anyway = anyway;
    ending->for_memory = !ending->no_memory && ending->leave.fd >= 0;
    return ending->for_memory;
}

static bool has_no_memory(const struct dlr_sup_ending *ending, int status)
{
    return ending->for_memory && WIFEXITED(status) &&
           WEXITSTATUS(status) == DLR_SLURM_NO_MEMORY;
}

/* Of a run that has ended meanwhile the rest of the script may be left. */
static int told_of_memory(struct dlr_sup_ending *ending, int status, const char *text)
{
    ending->asking = false;
    if (!ending->finished && has_no_memory(ending, status))
        return no_more_memory(ending, text);
    ending->leave.has_memory = !ending->finished;
    if (ending->finished && ending->script_lost)
        dlr_sup_requeue_rest(ending);
    return dlr_sup_ending_go_on(ending);
}

static int requeue_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup_ending *ending = arg;
    char text[512] = "";
    ssize_t n = read(ending->helper_out, text, sizeof(text) - 1);
    int status;

    close(ending->helper_out);
    ending->helper_out = -1;
    dlr_sup_unwatch(ending->env.io, ending->helper.pidfd);
    status = dlr_proc_reap(&ending->helper);
    text[n > 0 ? strcspn(text, "\n") : 0] = '\0';
    if (ending->requeue_barred)
        return dlr_sup_ending_go_on(ending);
    if (ending->asking)
        return told_of_memory(ending, status, text);
    if (status != 0 && ending->finished && ending->script_lost && !ending->for_good) {
        dlr_sup_requeue_rest(ending); /* that was asked before the end */
        return dlr_sup_ending_go_on(ending);
    }
    if (has_no_memory(ending, status))
        return no_more_memory(ending, text);
    if (status != 0 && ending->finished) {
        dlr_user_line(ending->env.io, "the job could not be requeued: %s",
                      text[0] ? text : "dlrover-slurm failed");
        dlr_sup_say_bye(ending);
        return dlr_sup_ending_go_on(ending);
    }
    if (status != 0)
        dlr_sup_ask_controller(ending->env.steps, DLR_QUERY_REQUEUE, 0,
                               text[0] ? text : "dlrover-slurm failed", 0);
    else if (text[0])
        dlr_user_line(ending->env.io, "requeued %s", text);
    return dlr_sup_ending_go_on(ending); /* Slurm ends us from here on */
}

/* Late is not dead: a node that has not been seen in the first allocation may be as
 * good as any. One that is late again after a requeue is left out of the next.
 */
static bool is_late(const struct dlr_sup_ending *ending, unsigned node)
{
    return !ending->env.info->incarnation && !*ending->env.took_over &&
           !ending->members->list[node].boot[0] &&
           !dlr_policy_is_lost(ending->policy, node);
}

/* The new allocation must do without the dead, and without those that a check left out.
 */
static char *useless_nodes(struct dlr_sup_ending *ending, json_t *names)
{
    char *list = strdup("");

    for (unsigned i = 0; list && i < ending->members->n; i++) {
        char *longer = NULL;

        if (dlr_step_plan_bars(ending->env.step, i) || /* it is good for others */
            is_late(ending, i) ||
            (dlr_policy_is_alive(ending->policy, i) &&
             !dlr_sup_is_unfit(ending->env.planning, i)))
            continue;
        json_array_append_new(names, json_string(ending->members->list[i].node.name));
        if (asprintf(&longer, "%s%s%s", list, list[0] ? "," : "",
                     ending->members->list[i].node.name) < 0)
            break;
        free(list);
        list = longer;
    }
    return list;
}

/* how: its last word, NULL: none. */
static void start_helper(struct dlr_sup_ending *ending, const char *exclude,
                         const char *how)
{
    struct dlr_words words = {0};
    struct dlr_err err = {0};
    int pipes[2];

    if (pipe2(pipes, O_CLOEXEC) < 0)
        return;
    dlr_sup_slurm_words(ending->env.steps, &words, "requeue", true);
    dlr_words_add(&words, "%s", exclude[0] ? exclude : "-");
    dlr_words_add(&words, "%u", dlr_sup_full_places(ending->env.planning));
    dlr_words_add(&words, "%u", ending->members->n);
    dlr_words_add(&words, "%lldms", (long long)ending->env.conf->requeue_timeout_ms);
    dlr_words_add(&words, "%u", ending->env.info->incarnation);
    dlr_words_add(&words, "%s", ending->env.info->dir);
    if (how)
        dlr_words_add(&words, "%s", how);
    if (dlr_sup_start_slurm(&words, pipes[1], &ending->helper, &err) == 0) {
        ending->helper_out = dlr_steal_fd(&pipes[0]);
        dlr_sup_watch(ending->env.io, ending->helper.pidfd, requeue_ended, ending);
    }
    close(pipes[1]);
    if (pipes[0] >= 0)
        close(pipes[0]);
    dlr_words_done(&words);
}

bool dlr_sup_requeue_ask(struct dlr_sup_ending *ending)
{
    if (ending->helper.pid || ending->requeue_barred)
        return false;
    start_helper(ending, "", ending->anyway ? "ask-memory-anyway" : "ask-memory");
    ending->asking = ending->helper.pid != 0;
    return ending->asking;
}

void dlr_sup_requeue_now(struct dlr_sup_ending *ending, const char *why)
{
    json_t *names = json_array();
    DLR_AUTO_FREE char *list = useless_nodes(ending, names);

    if (!list || ending->requeue_barred || /* the end of the requeue's time says so */
        ending->helper.pid) {
        json_decref(names);
        return;
    }
    dlr_user_line(ending->env.io, "%s: requeueing the job%s without %s", why,
                  ending->for_memory ? " with more memory," : "",
                  list[0] ? list : "any node");
    dlr_journal_note(dlr_sup_journal(ending->env.io), "requeue", "s:s,s:o,s:i", "why",
                     why, "exclude", names, "min_nodes",
                     dlr_sup_full_places(ending->env.planning));
    ending->for_good = ending->finished && ending->script_lost;
    start_helper(ending, list,
                 ending->for_good      ? "lost"
                 : !ending->for_memory ? NULL
                 : ending->anyway      ? "memory-anyway"
                                       : "memory");
}
