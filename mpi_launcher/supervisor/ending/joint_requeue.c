/* SPDX-License-Identifier: Apache-2.0 */
/* A requeue takes every run of the job with it, also those that are well: what they hold in
 * memory would be lost. The run that wants it first leaves a file in the job's directory; the
 * others see it, end their rounds, write their state and leave a file each. When all have, or
 * are over, or a limit has run out, the first asks slurmctld.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/supervisor.h"

static pid_t keeper(const struct dlr_sup *s)
{
    return s->state_fd >= 0 ? getppid() : getpid();
}

static void path_of(const struct dlr_sup *s, pid_t ready, char *buf, size_t size)
{
    if (ready)
        snprintf(buf, size, "%s/.ready-%u-%d", s->info.job_dir, s->info.incarnation,
                 (int)ready);
    else
        snprintf(buf, size, "%s/.leave-%u", s->info.job_dir, s->info.incarnation);
}

/* The keeper of the run that wants the requeue; false when none does. */
static bool read_first(struct dlr_sup *s, struct dlr_procid *ret)
{
    char path[DLR_RUN_PATH + 64];
    DLR_AUTO_FREE char *text = NULL;

    path_of(s, 0, path, sizeof(path));
    text = dlr_sup_file_text(s->io, path, 0);
    return text && dlr_procid_parse(text, ret) == 0 && dlr_procid_alive(ret);
}

/* Of several that want it at once one gets the name. A broken directory is no reason not to. */
static bool become_first(struct dlr_sup *s)
{
    DLR_CLEANUP(dlr_sup_file_done) struct dlr_sup_file *f = NULL;
    char path[DLR_RUN_PATH + 64], text[DLR_PROCID_TEXT];
    struct dlr_procid id;

    if (dlr_procid_of(keeper(s), &id) < 0)
        return true;
    dlr_procid_show(&id, text);
    path_of(s, 0, path, sizeof(path));
    f = dlr_sup_file_new(path, text);
    if (f)
        path_of(s, keeper(s), f->other, sizeof(f->other));
    return dlr_sup_file_call(s->io, dlr_sup_file_claim, &f) != -EEXIST;
}

/* Keepers of the runs of this incarnation that are alive, but ours. */
static void list_others(struct dlr_sup *s)
{
    char path[DLR_RUN_PATH + 64], *line, *rest;
    DLR_AUTO_FREE char *text = NULL;

    s->leave.n = 0;
    snprintf(path, sizeof(path), "%s/.runs-%u", s->info.job_dir, s->info.incarnation);
    text = dlr_sup_file_text(s->io, path, 0);
    for (line = text ? strtok_r(text, "\n", &rest) : NULL;
         line && s->leave.n < DLR_SUP_RUNS; line = strtok_r(NULL, "\n", &rest)) {
        struct dlr_procid *id = &s->leave.others[s->leave.n];
        const char *space = strchr(line, ' ');

        if (space && dlr_procid_parse(space + 1, id) == 0 && id->pid != keeper(s) &&
            dlr_procid_alive(id))
            s->leave.n++;
    }
}

static bool all_are_ready(struct dlr_sup *s)
{
    char path[DLR_RUN_PATH + 64];

    for (unsigned i = 0; i < s->leave.n; i++) {
        path_of(s, s->leave.others[i].pid, path, sizeof(path));
        if (dlr_sup_file_do(s->io, dlr_sup_file_exists, path, NULL) < 0 &&
            dlr_procid_alive(&s->leave.others[i]))
            return false;
    }
    return true;
}

bool dlr_sup_leave_ready(struct dlr_sup *s, const char *why)
{
    int64_t limit_ms = s->conf.end_timeout_ms + s->conf.persist_timeout_ms;
    struct dlr_procid first;

    if (s->leave.fd < 0 || s->leave.leads) /* told before: slurmctld was away */
        return true;
    snprintf(s->leave.why, sizeof(s->leave.why), "%s", why);
    s->leave.until_ms = dlr_sup_now() + limit_ms;
    s->leave.leads = become_first(s);
    if (!s->leave.leads && read_first(s, &first)) {
        s->leave.leads = first.pid == keeper(s); /* as a supervisor before us */
        s->leave.follows = !s->leave.leads;
    }
    list_others(s);
    s->leave.waits = !s->leave.follows && !all_are_ready(s);
    if (s->leave.waits || s->leave.follows)
        dlr_policy_requeue_limit(s->policy,
                                 s->leave.until_ms + 2 * s->conf.requeue_timeout_ms);
    return !s->leave.waits && !s->leave.follows;
}

/* The one that wanted it could not have it, and goes or has gone: we were well. */
static void stay(struct dlr_sup *s)
{
    char path[DLR_RUN_PATH + 64];

    path_of(s, keeper(s), path, sizeof(path));
    dlr_sup_file_do(s->io, dlr_sup_file_remove, path, NULL);
    s->leave.follows = s->requeue_asked = false;
    dlr_policy_stay(s->policy, dlr_sup_now());
}

void dlr_sup_leave_tick(struct dlr_sup *s, int64_t now_ms)
{
    char path[DLR_RUN_PATH + 64];

    path_of(s, 0, path, sizeof(path));
    if (s->leave.follows &&
        dlr_sup_file_do(s->io, dlr_sup_file_exists, path, NULL) == -ENOENT) {
        stay(s);
    } else if (s->leave.waits && (now_ms >= s->leave.until_ms || all_are_ready(s))) {
        s->leave.waits = false;
        dlr_policy_requeue_limit(s->policy, now_ms + s->conf.requeue_timeout_ms);
        dlr_sup_requeue_now(s, s->leave.why);
    }
}

void dlr_sup_leave_cancel(struct dlr_sup *s)
{
    char path[DLR_RUN_PATH + 64];

    if (!s->leave.leads)
        return;
    path_of(s, keeper(s), path, sizeof(path));
    dlr_sup_file_do(s->io, dlr_sup_file_remove, path, NULL);
    path_of(s, 0, path, sizeof(path));
    dlr_sup_file_do(s->io, dlr_sup_file_remove, path, NULL);
    s->leave.leads = s->leave.waits = false;
}

/* --- the others ------------------------------------------------------------------------------ */

static void look(struct dlr_sup *s)
{
    struct dlr_procid first;

    if (s->finished || s->requeue_asked || !read_first(s, &first) ||
        first.pid == keeper(s))
        return;
    dlr_sup_say(s->io,
                "another run has the job requeued: writing the state of this one");
    dlr_policy_leave(s->policy, dlr_sup_now());
}

static int on_file(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    struct dlr_sup *s = arg;
    char path[DLR_RUN_PATH + 64];
    bool ours = false;
    ssize_t n;

    path_of(s, 0, path, sizeof(path));
    while ((n = read(item->fd, buf, sizeof(buf))) > 0)
        for (char *at = buf; at < buf + n;) {
            const struct inotify_event *e = (const struct inotify_event *)at;

            ours |= e->len && dlr_streq(e->name, strrchr(path, '/') + 1);
            at += sizeof(*e) + e->len;
        }
    if (ours)
        look(s);
    return dlr_sup_is_over(s) ? -1 : 0;
}

void dlr_sup_leave_start(struct dlr_sup *s)
{
    DLR_CLEANUP(dlr_sup_file_done) struct dlr_sup_file *f = NULL;

    if (!dlr_sup_batch(s->nodes)[0] || !dlr_streq(getenv("ENVIRONMENT"), "BATCH"))
        return; /* no job that could be requeued */
    s->leave.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    f = dlr_sup_file_new(s->info.job_dir, NULL);
    if (f && s->leave.fd >= 0)
        f->fd = fcntl(s->leave.fd, F_DUPFD_CLOEXEC, 0);
    if (dlr_sup_file_call(s->io, dlr_sup_file_watch, &f) < 0 ||
        dlr_sup_watch(s->io, s->leave.fd, on_file, s) < 0)
        dlr_sup_say(s->io, "no requeue of another run will be noticed");
    look(s);
}
