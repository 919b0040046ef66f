/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/agent.h"

#define UNKNOWN (-1) /* status of a task whose end nobody has told */

struct task {
    struct dlr_agent *agent;
    struct dlr_agent_conn *stepd; /* NULL: has left */
    uint32_t round;
    int32_t rank;
    pid_t pid;
    int pidfd; /* -1: it was gone before it could be watched, or is now */
    bool killed;
    bool told; /* its end, with status */
    int status;
    int64_t gone_ms; /* wall clock: who ended first is told from it */
    int timer;       /* until an end without a status is told; -1 off */
};

static void say_task(struct task *t)
{
    dlr_agent_say(t->agent->base,
                  json_pack("{s:i, s:s, s:I, s:i, s:i}", "v", DLR_MSG_VERSION, "t",
                            "task", "round", (json_int_t)t->round, "rank", t->rank,
                            "pid", (int)t->pid));
}

static void say_exit(struct task *t)
{
    dlr_agent_say(t->agent->base,
                  json_pack("{s:i, s:s, s:I, s:i, s:i, s:I}", "v", DLR_MSG_VERSION, "t",
                            "exit", "round", (json_int_t)t->round, "rank", t->rank,
                            "status", t->status, "at_ms", (json_int_t)t->gone_ms));
}

static void tell_end(struct task *t, int status)
{
    dlr_agent_timer_end(t->agent->base, &t->timer);
    if (t->told)
        return;
    t->told = true;
    t->status = status;
    if (!t->gone_ms)
        t->gone_ms = dlr_wall_ns() / 1000000;
    say_exit(t);
}

static void unwatch_task(struct task *t)
{
    if (t->pidfd < 0)
        return;
    dlr_agent_unwatch(t->agent->base, t->pidfd);
    close(t->pidfd);
    t->pidfd = -1;
}

static struct task *find(const struct dlr_agent *a, uint32_t round, int32_t rank)
{
    for (struct task *t = zlistx_first(a->tasks.all); t; t = zlistx_next(a->tasks.all))
        if (t->round == round && t->rank == rank)
            return t;
    return NULL;
}

void dlr_agent_tasks_each(const struct dlr_agent *a, void (*fn)(void *arg, pid_t pid),
                          void *arg)
{
    for (struct task *t = zlistx_first(a->tasks.all); t; t = zlistx_next(a->tasks.all))
        if (t->pidfd >= 0)
            fn(arg, t->pid);
}

unsigned dlr_agent_tasks_left(const struct dlr_agent *a)
{
    unsigned n = 0;

    for (struct task *t = zlistx_first(a->tasks.all); t; t = zlistx_next(a->tasks.all))
        n += t->pidfd >= 0;
    return n;
}

/* The tasks of a step are one process group, led by one of them (slurmstepd's doing): what they
 * forked goes with them. The group is still theirs while the pidfd is not readable.
 */
static void kill_group(const struct task *t)
{
    pid_t group = getpgid(t->pid);

    if (group <= 1 || group == getpgrp())
        return;
    for (struct task *o = zlistx_first(t->agent->tasks.all); o;
         o = zlistx_next(t->agent->tasks.all))
        if (o->pid == group && o->round == t->round) {
            kill(-group, SIGKILL);
            return;
        }
}

/* EPERM: the task is still being made and is root's; the retry gets it. ESRCH: its group's
 * signal was quicker.
 */
static void kill_task(struct task *t)
{
    if (syscall(SYS_pidfd_send_signal, t->pidfd, SIGKILL, NULL, 0) == 0 ||
        errno == ESRCH)
        t->killed = true;
}

static unsigned count_killed(const struct dlr_agent *a, uint32_t round)
{
    unsigned n = 0;

    for (struct task *t = zlistx_first(a->tasks.all); t; t = zlistx_next(a->tasks.all))
        n += t->round == round && t->killed;
    return n;
}

static void say_clean(struct dlr_agent *a, uint32_t round, unsigned killed)
{
    dlr_agent_say(a->base,
                  json_pack("{s:i, s:s, s:I, s:i}", "v", DLR_MSG_VERSION, "t", "clean",
                            "round", (json_int_t)round, "killed", (int)killed));
}

static int retry(zloop_t *loop, int timer, void *arg);

static void kill_doomed(struct dlr_agent *a)
{
    DLR_AUTO_FREE struct task **left = NULL;
    unsigned n = 0;

    left = calloc(zlistx_size(a->tasks.all) + 1, sizeof(*left));
    if (!left)
        return;
    for (struct task *t = zlistx_first(a->tasks.all); t; t = zlistx_next(a->tasks.all))
        if (t->pidfd >= 0 && t->round <= a->tasks.doomed)
            left[n++] = t;
    for (unsigned i = 0; i < n; i++)
        kill_group(left[i]);
    for (unsigned i = 0; i < n; i++)
        kill_task(left[i]);
    if (dlr_agent_sweep(a, (uint32_t)a->tasks.doomed) + n > 0) {
        dlr_agent_timer(a->base, &a->tasks.retry_timer, DLR_AGENT_RETRY_MS, retry, a);
        return;
    }
    dlr_agent_timer_end(a->base, &a->tasks.retry_timer);
    say_clean(a, (uint32_t)a->tasks.doomed, count_killed(a, (uint32_t)a->tasks.doomed));
}

static int retry(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent *a = arg;

    a->tasks.retry_timer = -1;
    kill_doomed(a);
    return 0;
}

void dlr_agent_tasks_kill(struct dlr_agent *a, uint32_t round)
{
    if ((int64_t)round > a->tasks.doomed)
        a->tasks.doomed = round;
    kill_doomed(a);
}

void dlr_agent_tasks_kill_all(struct dlr_agent *a)
{
    uint32_t newest = a->round.known ? a->round.round : 0;

    if (!a->tasks.all || (!a->round.known && zlistx_size(a->tasks.all) == 0))
        return; /* no round yet: the first one is not doomed before it begins */
    for (struct task *t = zlistx_first(a->tasks.all); t; t = zlistx_next(a->tasks.all))
        if (t->round > newest)
            newest = t->round;
    dlr_agent_tasks_kill(a, newest);
}

static int end_unknown(zloop_t *loop, int timer, void *arg)
{
    struct task *t = arg;
    uint32_t round = t->round;
    struct dlr_agent *a = t->agent;

    t->timer = -1;
    tell_end(t, UNKNOWN);
    dlr_agent_tasks_settle(a, round);
    return 0;
}

static int on_end(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct task *t = arg;

    t->gone_ms = dlr_wall_ns() / 1000000;
    unwatch_task(t);
    if (t->round <= t->agent->tasks.doomed)
        kill_doomed(t->agent); /* the last one gone: the node is clean at once */
    if (t->told)
        dlr_agent_tasks_settle(t->agent, t->round);
    else if (!t->stepd)
        end_unknown(loop, -1, t);
    else
        dlr_agent_timer(t->agent->base, &t->timer, DLR_AGENT_EXIT_MS, end_unknown, t);
    return 0;
}

/* The parent of pid, -1 when it is gone. Only children of the slurmstepd that names them are
 * taken: at this moment a task is still root's, so its uid would tell nothing.
 */
static pid_t parent_of(pid_t pid)
{
    char path[64], text[512];
    DLR_AUTO_CLOSE int fd = -1;
    const char *p;
    ssize_t n;
    int ppid;

    dlr_format(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    p = strrchr(text, ')'); /* the name before it may hold anything */
    return p && sscanf(p, ") %*c %d", &ppid) == 1 ? ppid : -1;
}

void dlr_agent_tasks_add(struct dlr_agent *a, struct dlr_agent_conn *stepd,
                         int32_t rank, pid_t pid)
{
    struct task *t;
    int pidfd;

    if (rank < 0 || pid <= 1 || find(a, stepd->round, rank))
        return;
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd >= 0 && parent_of(pid) != stepd->pid) {
        close(pidfd);
        return;
    }
    t = calloc(1, sizeof(*t));
    if (!t)
        return;
    *t = (struct task){.agent = a,
                       .stepd = stepd,
                       .round = stepd->round,
                       .rank = rank,
                       .pid = pid,
                       .pidfd = pidfd,
                       .timer = -1};
    zlistx_add_end(a->tasks.all, t);
    say_task(t);
    if (pidfd >= 0)
        dlr_agent_watch(a->base, pidfd, on_end, t);
    else
        dlr_agent_timer(a->base, &t->timer, DLR_AGENT_EXIT_MS, end_unknown, t);
    if (t->round <= a->tasks.doomed)
        kill_doomed(a);
}

void dlr_agent_tasks_exit(struct dlr_agent *a, uint32_t round, int32_t rank, int status)
{
    struct task *t = find(a, round, rank);

    if (!t)
        return;
    tell_end(t, status);
    unwatch_task(t); /* reaped: its pid may soon be somebody else's */
    dlr_agent_tasks_settle(a, round);
}

/* Its slurmstepd has left without a word of how they ended: it was killed. Said before their ends,
 * or these would look like a fault of the program.
 */
static void say_orphaned(struct dlr_agent *a, uint32_t round)
{
    dlr_agent_say(a->base, json_pack("{s:i, s:s, s:I}", "v", DLR_MSG_VERSION, "t",
                                     "orphaned", "round", (json_int_t)round));
}

static bool has_untold(const struct dlr_agent *a, const struct dlr_agent_conn *stepd)
{
    for (struct task *t = zlistx_first(a->tasks.all); t; t = zlistx_next(a->tasks.all))
        if (t->stepd == stepd && !t->told)
            return true;
    return false;
}

void dlr_agent_tasks_step_gone(struct dlr_agent *a, struct dlr_agent_conn *stepd)
{
    bool left = false;

    if (!dlr_agent_ends(a->base) && (int64_t)stepd->round > a->tasks.doomed &&
        has_untold(a, stepd))
        say_orphaned(a, stepd->round);
    for (struct task *t = zlistx_first(a->tasks.all); t;
         t = zlistx_next(a->tasks.all)) {
        if (t->stepd != stepd)
            continue;
        t->stepd = NULL;
        if (t->pidfd < 0)
            tell_end(t, UNKNOWN);
        else
            left = true;
    }
    if (!left || dlr_agent_ends(a->base) || (int64_t)stepd->round <= a->tasks.doomed)
        return;
    dlr_warn("%s: the step of round %u has left, its tasks have not: killing them",
             a->self.node, stepd->round);
    dlr_agent_tasks_kill(a, stepd->round);
}

void dlr_agent_tasks_settle(struct dlr_agent *a, uint32_t round)
{
    bool seen = false;

    if (dlr_agent_ends(a->base) || (int64_t)round <= a->tasks.doomed ||
        dlr_agent_local_has_stepd(a, round))
        return; /* of a doomed round kill_doomed() tells the end */
    for (struct task *t = zlistx_first(a->tasks.all); t;
         t = zlistx_next(a->tasks.all)) {
        if (t->round != round)
            continue;
        if (t->pidfd >= 0 || !t->told)
            return;
        seen = true;
    }
    if (seen) /* else: it has not begun here */
        say_clean(a, round, count_killed(a, round));
}

static void free_task(struct task *t)
{
    dlr_agent_timer_end(t->agent->base, &t->timer);
    unwatch_task(t);
    free(t);
}

void dlr_agent_tasks_round(struct dlr_agent *a, uint32_t round)
{
    struct task *t = zlistx_first(a->tasks.all);

    while (t) {
        if (t->round < round && t->pidfd < 0 && t->told) {
            zlistx_detach_cur(a->tasks.all);
            free_task(t);
        }
        t = zlistx_next(a->tasks.all);
    }
}

void dlr_agent_tasks_say_stepd(struct dlr_agent *a, uint32_t round)
{
    if (dlr_agent_ends(a->base))
        return;
    dlr_agent_say(a->base, json_pack("{s:i, s:s, s:I, s:b}", "v", DLR_MSG_VERSION, "t",
                                     "stepd", "round", (json_int_t)round, "here",
                                     dlr_agent_local_has_stepd(a, round)));
}

void dlr_agent_tasks_retell(struct dlr_agent *a)
{
    for (struct task *t = zlistx_first(a->tasks.all); t;
         t = zlistx_next(a->tasks.all)) {
        say_task(t);
        if (t->told)
            say_exit(t);
    }
    if (!a->round.known)
        return;
    if (dlr_agent_local_has_stepd(a, a->round.round))
        dlr_agent_tasks_say_stepd(a, a->round.round);
    dlr_agent_tasks_settle(a, a->round.round);
}

int dlr_agent_tasks_start(struct dlr_agent *a, struct dlr_err *err)
{
    a->tasks.all = zlistx_new();
    return a->tasks.all ? 0 : dlr_fail(err, -ENOMEM, "out of memory");
}

void dlr_agent_tasks_stop(struct dlr_agent *a)
{
    struct task *t;

    dlr_agent_timer_end(a->base, &a->tasks.retry_timer);
    while (a->tasks.all && (t = zlistx_detach(a->tasks.all, NULL)))
        free_task(t);
    zlistx_destroy(&a->tasks.all);
}
