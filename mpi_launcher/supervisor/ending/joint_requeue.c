/* SPDX-License-Identifier: Apache-2.0 */
/* A requeue takes every run of the job with it, also those that are well: what they
 * hold in memory would be lost. The run that wants it first leaves a file in the job's
 * directory; the others see it, end their rounds, write their state and leave a file
 * each. When all have, or are over, or a limit has run out, the first asks slurmctld.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/ending/ending_state.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"

static pid_t keeper(const struct dlr_sup_ending *ending)
{
    return ending->env.has_keeper ? getppid() : getpid();
}

static void path_of(const struct dlr_sup_ending *ending, pid_t ready, char *buf,
                    size_t size)
{
    if (ready)
        snprintf(buf, size, "%s/.ready-%u-%d", ending->env.info->job_dir,
                 ending->env.info->incarnation, (int)ready);
    else
        snprintf(buf, size, "%s/.leave-%u", ending->env.info->job_dir,
                 ending->env.info->incarnation);
}

/* The keeper of the run that wants the requeue; false when none does. */
static bool read_first(struct dlr_sup_ending *ending, struct dlr_procid *ret)
{
    char path[DLR_RUN_PATH + 64];
    DLR_AUTO_FREE char *text = NULL;

    path_of(ending, 0, path, sizeof(path));
    text = dlr_sup_file_text(ending->env.io, path, 0);
    return text && dlr_procid_parse(text, ret) == 0 && dlr_procid_alive(ret);
}

/* Of several that want it at once one gets the name. A broken directory is no reason
 * not to.
 */
static bool become_first(struct dlr_sup_ending *ending)
{
    DLR_CLEANUP(dlr_sup_file_done) struct dlr_sup_file *f = NULL;
    char path[DLR_RUN_PATH + 64], text[DLR_PROCID_TEXT];
    struct dlr_procid id;

    if (dlr_procid_of(keeper(ending), &id) < 0)
        return true;
    dlr_procid_show(&id, text);
    path_of(ending, 0, path, sizeof(path));
    f = dlr_sup_file_new(path, text);
    if (f)
        path_of(ending, keeper(ending), f->other, sizeof(f->other));
    return dlr_sup_file_call(ending->env.io, dlr_sup_file_claim, &f) != -EEXIST;
}

/* Keepers of the runs of this incarnation that are alive, but ours. */
static void list_others(struct dlr_sup_ending *ending)
{
    char path[DLR_RUN_PATH + 64], *line, *rest;
    DLR_AUTO_FREE char *text = NULL;

    ending->leave.n = 0;
    snprintf(path, sizeof(path), "%s/.runs-%u", ending->env.info->job_dir,
             ending->env.info->incarnation);
    text = dlr_sup_file_text(ending->env.io, path, 0);
    for (line = text ? strtok_r(text, "\n", &rest) : NULL;
         line && ending->leave.n < DLR_SUP_RUNS; line = strtok_r(NULL, "\n", &rest)) {
        struct dlr_procid *id = &ending->leave.others[ending->leave.n];
        const char *space = strchr(line, ' ');

        if (space && dlr_procid_parse(space + 1, id) == 0 &&
            id->pid != keeper(ending) && dlr_procid_alive(id))
            ending->leave.n++;
    }
}

static bool all_are_ready(struct dlr_sup_ending *ending)
{
    char path[DLR_RUN_PATH + 64];

    for (unsigned i = 0; i < ending->leave.n; i++) {
        path_of(ending, ending->leave.others[i].pid, path, sizeof(path));
        if (dlr_sup_file_do(ending->env.io, dlr_sup_file_exists, path, NULL) < 0 &&
            dlr_procid_alive(&ending->leave.others[i]))
            return false;
    }
    return true;
}

/* This run may be requeued. True when the others may, too; false: dlr_sup_requeue_now()
 * is called when they are, or by the run that wanted it first.
 */
static bool leave_ready(struct dlr_sup_ending *ending)
{
    int64_t limit_ms =
        ending->env.conf->end_timeout_ms + ending->env.conf->persist_timeout_ms;
    struct dlr_procid first;

    if (ending->leave.fd < 0 ||
        ending->leave.leads) /* told before: slurmctld was away */
        return true;
    ending->leave.until_ms = dlr_sup_now() + limit_ms;
    ending->leave.leads = become_first(ending);
    if (!ending->leave.leads && read_first(ending, &first)) {
        ending->leave.leads =
            first.pid == keeper(ending); /* as a supervisor before us */
        ending->leave.follows = !ending->leave.leads;
    }
    list_others(ending);
    ending->leave.waits = !ending->leave.follows && !all_are_ready(ending);
    if (ending->leave.waits || ending->leave.follows)
        dlr_policy_requeue_limit(ending->policy,
                                 ending->leave.until_ms +
                                     2 * ending->env.conf->requeue_timeout_ms);
    return !ending->leave.waits && !ending->leave.follows;
}

/* Others would end their rounds for memory that the job cannot get. */
static bool asks_first(struct dlr_sup_ending *ending)
{
    struct dlr_procid first;

    if (!ending->for_memory || ending->leave.fd < 0 || ending->leave.leads ||
        read_first(ending, &first))
        return false;
    list_others(ending);
    if (!ending->leave.n || !dlr_sup_requeue_ask(ending))
        return false;
    dlr_policy_requeue_limit(ending->policy,
                             dlr_sup_now() + 2 * ending->env.conf->requeue_timeout_ms);
    return true;
}

void dlr_sup_requeue(struct dlr_sup_ending *ending, const char *why)
{
    json_t *msg = dlr_msg_new("shutdown");

    ending->requeue_asked = true;
    snprintf(ending->leave.why, sizeof(ending->leave.why), "%s", why);
    json_object_set_new(msg, "later", json_true());
    dlr_sup_send_all(ending->env.nodes, msg); /* Slurm's SIGTERM ends them */
    ending->ops->changed(ending->arg, true);
    if (!asks_first(ending) && leave_ready(ending))
        dlr_sup_requeue_now(ending, why);
}

/* The one that wanted it could not have it, and goes or has gone: we were well. */
static void stay(struct dlr_sup_ending *ending)
{
    char path[DLR_RUN_PATH + 64];

    path_of(ending, keeper(ending), path, sizeof(path));
    dlr_sup_file_do(ending->env.io, dlr_sup_file_remove, path, NULL);
    ending->leave.follows = ending->requeue_asked = false;
    dlr_policy_requeue_cancel(ending->policy, dlr_sup_now());
}

static void look(struct dlr_sup_ending *ending);

void dlr_joint_requeue_tick(struct dlr_sup_ending *ending, int64_t now_ms)
{
    char path[DLR_RUN_PATH + 64];

    path_of(ending, 0, path, sizeof(path));
    if (ending->leave.off) {
        ending->leave.off = false;
        dlr_joint_requeue_cancel(ending);
        stay(ending);
        look(ending); /* another may have wanted it meanwhile */
    } else if (ending->leave.has_memory) {
        ending->leave.has_memory = false;
        dlr_policy_requeue_limit(ending->policy,
                                 now_ms + ending->env.conf->requeue_timeout_ms);
        if (leave_ready(ending))
            dlr_sup_requeue_now(ending, ending->leave.why);
    } else if (ending->leave.follows &&
               dlr_sup_file_do(ending->env.io, dlr_sup_file_exists, path, NULL) ==
                   -ENOENT) {
        stay(ending);
    } else if (ending->leave.waits &&
               (now_ms >= ending->leave.until_ms || all_are_ready(ending))) {
        ending->leave.waits = false;
        dlr_policy_requeue_limit(ending->policy,
                                 now_ms + ending->env.conf->requeue_timeout_ms);
        dlr_sup_requeue_now(ending, ending->leave.why);
    }
}

void dlr_joint_requeue_cancel(struct dlr_sup_ending *ending)
{
    char path[DLR_RUN_PATH + 64];

    if (!ending->leave.leads)
        return;
    path_of(ending, keeper(ending), path, sizeof(path));
    dlr_sup_file_do(ending->env.io, dlr_sup_file_remove, path, NULL);
    path_of(ending, 0, path, sizeof(path));
    dlr_sup_file_do(ending->env.io, dlr_sup_file_remove, path, NULL);
    ending->leave.leads = ending->leave.waits = false;
}

void dlr_sup_requeue_bar(struct dlr_sup_ending *ending)
{
    ending->requeue_barred = true;
    ending->requeue_asked = ending->leave.follows = false;
    dlr_joint_requeue_cancel(ending);
    if (ending->helper.pid)
        dlr_proc_kill(&ending->helper, SIGKILL);
}

/* --- the others ------------------------------------------------------------------- */

static void look(struct dlr_sup_ending *ending)
{
    struct dlr_procid first;

    if (ending->finished || ending->requeue_asked || !read_first(ending, &first) ||
        first.pid == keeper(ending))
        return;
    dlr_user_line(ending->env.io,
                  "another run has the job requeued: writing the state of this one");
    dlr_policy_requeue_with_job(ending->policy, dlr_sup_now());
}

static int on_file(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    struct dlr_sup_ending *ending = arg;
    char path[DLR_RUN_PATH + 64];
    bool ours = false;
    ssize_t n;

    path_of(ending, 0, path, sizeof(path));
    while ((n = read(item->fd, buf, sizeof(buf))) > 0)
        for (char *at = buf; at < buf + n;) {
            const struct inotify_event *e = (const struct inotify_event *)at;

            ours |= e->len && dlr_streq(e->name, strrchr(path, '/') + 1);
            at += sizeof(*e) + e->len;
        }
    if (ours)
        look(ending);
    return dlr_sup_ending_go_on(ending);
}

void dlr_joint_requeue_start(struct dlr_sup_ending *ending)
{
    DLR_CLEANUP(dlr_sup_file_done) struct dlr_sup_file *f = NULL;

    if (!dlr_sup_batch(ending->env.nodes)[0] ||
        !dlr_streq(getenv("ENVIRONMENT"), "BATCH"))
        return; /* no job that could be requeued */
    ending->leave.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    f = dlr_sup_file_new(ending->env.info->job_dir, NULL);
    if (f && ending->leave.fd >= 0)
        f->fd = fcntl(ending->leave.fd, F_DUPFD_CLOEXEC, 0);
    if (dlr_sup_file_call(ending->env.io, dlr_sup_file_watch, &f) < 0 ||
        dlr_sup_watch(ending->env.io, ending->leave.fd, on_file, ending) < 0)
        dlr_user_line(ending->env.io, "no requeue of another run will be noticed");
    look(ending);
}
