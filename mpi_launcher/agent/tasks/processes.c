/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks as processes: watch, kill, say when they are gone. */
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
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/tasks/tasks_state.h"
#include "mpi_launcher/agent/tasks/warm_start.h"
#include "mpi_launcher/process/process_id.h"

#define RETRY_MS 50  /* between two rounds of SIGKILL while tasks are left */
#define UNKNOWN (-1) /* status of a task whose end nobody has told */

static void say_task(struct dlr_agent_task *t)
{
    dlr_agent_send_supervisor(
        t->of->base,
        json_pack("{s:i, s:s, s:I, s:i, s:i}", "v", DLR_MSG_VERSION, "t", "task",
                  "round", (json_int_t)t->round, "rank", t->rank, "pid", (int)t->pid));
}

static void say_exit(struct dlr_agent_task *t)
{
    dlr_agent_send_supervisor(t->of->base,
                              json_pack("{s:i, s:s, s:I, s:i, s:i, s:I, s:i}", "v",
                                        DLR_MSG_VERSION, "t", "exit", "round",
                                        (json_int_t)t->round, "rank", t->rank, "status",
                                        t->status, "at_ms", (json_int_t)t->gone_ms,
                                        "starved", (int)t->starved));
}

void dlr_agent_tasks_before_end(struct dlr_agent_tasks *tasks, void (*fn)(void *arg),
                                void *arg)
{
    tasks->before_end = fn;
    tasks->before_end_arg = arg;
}

static void before_end(const struct dlr_agent_task *t)
{
    if (!t->killed && t->of->before_end)
        t->of->before_end(t->of->before_end_arg);
}

/* Before slurmstepd takes its cgroup away. */
static void count_kills(struct dlr_agent_task *t)
{
    if (dlr_memory_kills_close(&t->kills))
        t->starved = true;
}

static void tell_end(struct dlr_agent_task *t, int status)
{
    count_kills(t);
    dlr_agent_timer_end(t->of->base, &t->timer);
    if (t->told)
        return;
    before_end(t);
    t->told = true;
    t->status = status;
    dlr_agent_changed(t->of->base);
    if (t->serves != t->round && !t->relay)
        dlr_agent_stay_ended(t->of, t->rank, status);
    if (!t->gone_ms)
        t->gone_ms = dlr_wall_ns() / 1000000;
    say_exit(t);
}

static void unwatch_task(struct dlr_agent_task *t)
{
    if (t->pidfd < 0)
        return;
    dlr_agent_unwatch(t->of->base, t->pidfd);
    dlr_kept_del(dlr_agent_kept(t->of->base), &t->kept);
    dlr_agent_changed(t->of->base);
    close(t->pidfd);
    t->pidfd = -1;
}

static struct dlr_agent_task *find(const struct dlr_agent_tasks *tasks, uint32_t round,
                                   int32_t rank)
{
    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all))
        if (t->round == round && t->rank == rank)
            return t;
    return NULL;
}

void dlr_agent_tasks_each(const struct dlr_agent_tasks *tasks,
                          void (*fn)(void *arg, pid_t pid), void *arg)
{
    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all))
        if (t->pidfd >= 0)
            fn(arg, t->pid);
}

unsigned dlr_agent_tasks_left(const struct dlr_agent_tasks *tasks)
{
    unsigned n = 0;

    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all))
        n += t->pidfd >= 0;
    return n;
}

/* The tasks of a step are one process group, led by one of them (slurmstepd's doing):
 * what they forked goes with them. The group is still theirs while the pidfd is not
 * readable.
 */
static void kill_group(const struct dlr_agent_task *t)
{
    pid_t group = getpgid(t->pid);

    if (group <= 1 || group == getpgrp())
        return;
    for (struct dlr_agent_task *o = zlistx_first(t->of->all); o;
         o = zlistx_next(t->of->all))
        if (o->pid == group && o->round == t->round) {
            kill(-group, SIGKILL);
            return;
        }
}

/* EPERM: the task is still being made and is root's; the retry gets it. ESRCH: its
 * group's signal was quicker.
 */
static void kill_task(struct dlr_agent_task *t)
{
    if (syscall(SYS_pidfd_send_signal, t->pidfd, SIGKILL, NULL, 0) == 0 ||
        errno == ESRCH)
        t->killed = true;
}

static unsigned count_killed(const struct dlr_agent_tasks *tasks, uint32_t round)
{
    unsigned n = 0;

    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all))
        n += t->round == round && t->killed;
    return n;
}

static void say_clean(struct dlr_agent_tasks *tasks, uint32_t round, unsigned killed)
{
    dlr_agent_send_supervisor(tasks->base,
                              json_pack("{s:i, s:s, s:I, s:i, s:i}", "v",
                                        DLR_MSG_VERSION, "t", "clean", "round",
                                        (json_int_t)round, "killed", (int)killed,
                                        "parked", (int)dlr_agent_stay_count(tasks)));
}

static int retry(zloop_t *loop, int timer, void *arg);

/* Not what processes have started that stay, or have stayed: theirs is the mark of the
 * round that started them.
 */
static unsigned sweep(const struct dlr_agent_tasks *tasks)
{
    int64_t until = tasks->kill_up_to_round;

    for (const struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all))
        if (t->pidfd >= 0 && (t->stays || t->serves > tasks->kill_up_to_round) &&
            (int64_t)t->round <= until)
            until = (int64_t)t->round - 1;
    until = dlr_agent_warm_below(tasks, until);
    if (until < 0)
        return 0;
    return dlr_agent_sweep(&tasks->self->run, (uint32_t)until, tasks->spare_srun);
}

void dlr_agent_tasks_kill_ordered(struct dlr_agent_tasks *tasks)
{
    DLR_AUTO_FREE struct dlr_agent_task **left = NULL;
    unsigned n = 0;

    left = calloc(zlistx_size(tasks->all) + 1, sizeof(*left));
    if (!left)
        return;
    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all))
        if (t->pidfd >= 0 && !t->stays && t->serves <= tasks->kill_up_to_round)
            left[n++] = t;
    for (unsigned i = 0; i < n; i++)
        kill_group(left[i]);
    for (unsigned i = 0; i < n; i++)
        kill_task(left[i]);
    if (sweep(tasks) + n > 0) {
        dlr_agent_timer(tasks->base, &tasks->retry_timer, RETRY_MS, retry, tasks);
        return;
    }
    dlr_agent_timer_end(tasks->base, &tasks->retry_timer);
    if (dlr_agent_stay_waits(tasks))
        return;
    say_clean(tasks, (uint32_t)tasks->kill_up_to_round,
              count_killed(tasks, (uint32_t)tasks->kill_up_to_round));
}

static int retry(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_tasks *tasks = arg;

    tasks->retry_timer = -1;
    dlr_agent_tasks_kill_ordered(tasks);
    return 0;
}

void dlr_agent_tasks_doom(struct dlr_agent_tasks *tasks, uint32_t round)
{
    dlr_agent_changed(tasks->base);
    if ((int64_t)round > tasks->kill_up_to_round)
        tasks->kill_up_to_round = round;
    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all))
        if (t->serves <= tasks->kill_up_to_round)
            t->stays = false;
    dlr_agent_timer_end(tasks->base, &tasks->park_timer);
    dlr_agent_tasks_kill_ordered(tasks);
}

void dlr_agent_tasks_kill_all(struct dlr_agent_tasks *tasks)
{
    uint32_t newest = tasks->round->known ? tasks->round->round : 0;

    dlr_agent_warm_end(tasks);
    if (!tasks->round->known && zlistx_size(tasks->all) == 0)
        return; /* no round yet: the first one is not ended before it begins */
    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all))
        if (t->serves > newest)
            newest = t->serves;
    dlr_agent_tasks_doom(tasks, newest);
}

static int end_unknown(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_task *t = arg;
    uint32_t round = t->round;
    struct dlr_agent_tasks *tasks = t->of;

    t->timer = -1;
    tell_end(t, UNKNOWN);
    dlr_agent_tasks_settle(tasks, round);
    return 0;
}

static int on_end(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent_task *t = arg;

    count_kills(t);
    t->gone_ms = dlr_wall_ns() / 1000000;
    before_end(t);
    if (t->own)
        tell_end(t, dlr_agent_warm_reap(t->pidfd));
    unwatch_task(t);
    if (t->stays) /* the others of this node start again with it */
        dlr_agent_tasks_doom(t->of, (uint32_t)t->of->kill_up_to_round);
    else if (t->serves <= t->of->kill_up_to_round)
        dlr_agent_tasks_kill_ordered(
            t->of); /* the last one: the node is clean at once */
    if (t->told)
        dlr_agent_tasks_settle(t->of, t->round);
    else if (!t->stepd)
        end_unknown(loop, -1, t);
    else
        dlr_agent_timer(t->of->base, &t->timer, DLR_AGENT_EXIT_MS, end_unknown, t);
    return 0;
}

void dlr_agent_tasks_watch(struct dlr_agent_task *t)
{
    struct dlr_agent_base *base = t->of->base;

    if (t->pidfd >= 0 && !t->kept)
        t->kept = dlr_kept_add(dlr_agent_kept(base), t->pidfd);
    dlr_agent_changed(base);
    if (t->pidfd >= 0)
        dlr_memory_kills_open("", t->pid, &t->kills);
    if (t->pidfd >= 0)
        dlr_agent_watch(base, t->pidfd, on_end, t);
    else if (!t->told)
        dlr_agent_timer(base, &t->timer, DLR_AGENT_EXIT_MS, end_unknown, t);
}

void dlr_agent_tasks_add(struct dlr_agent_tasks *tasks, struct dlr_agent_conn *stepd,
                         int32_t rank, pid_t pid)
{
    struct dlr_agent_task *t;
    int pidfd;

    if (rank < 0 || pid <= 1 || find(tasks, stepd->round, rank))
        return;
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    /* only children of the slurmstepd that names them: at this moment a task is still
     * root's, so its uid would tell nothing
     */
    if (pidfd >= 0 && dlr_procid_parent(pid) != stepd->pid) {
        close(pidfd);
        return;
    }
    t = calloc(1, sizeof(*t));
    if (!t)
        return;
    *t = (struct dlr_agent_task){.of = tasks,
                                 .stepd = stepd,
                                 .round = stepd->round,
                                 .serves = stepd->round,
                                 .relay =
                                     dlr_agent_stay_relays(tasks, stepd->round, rank),
                                 .rank = rank,
                                 .pid = pid,
                                 .pidfd = pidfd,
                                 .kills.fd = -1,
                                 .timer = -1};
    zlistx_add_end(tasks->all, t);
    say_task(t);
    dlr_agent_tasks_watch(t);
    if (t->round <= tasks->kill_up_to_round)
        dlr_agent_tasks_doom(tasks, (uint32_t)tasks->kill_up_to_round);
}

bool dlr_agent_tasks_add_own(struct dlr_agent_tasks *tasks, uint32_t round,
                             int32_t rank, pid_t pid, int pidfd)
{
    struct dlr_agent_task *t = calloc(1, sizeof(*t));

    if (!t)
        return false;
    *t = (struct dlr_agent_task){.of = tasks,
                                 .round = round,
                                 .serves = round,
                                 .stays = true,
                                 .own = true,
                                 .rank = rank,
                                 .pid = pid,
                                 .pidfd = pidfd,
                                 .kills.fd = -1,
                                 .timer = -1};
    zlistx_add_end(tasks->all, t);
    dlr_agent_unwatch(tasks->base, pidfd);
    dlr_agent_watch(tasks->base, pidfd, on_end, t);
    return true;
}

void dlr_agent_tasks_exit(struct dlr_agent_tasks *tasks, uint32_t round, int32_t rank,
                          int status)
{
    struct dlr_agent_task *t = find(tasks, round, rank);

    if (!t)
        return;
    tell_end(t, status);
    unwatch_task(t); /* reaped: its pid may soon be somebody else's */
    dlr_agent_tasks_settle(tasks, round);
}

/* Its slurmstepd has left without a word of how they ended: it was killed. Said before
 * their ends, or these would look like a fault of the program.
 */
static void say_orphaned(struct dlr_agent_tasks *tasks, uint32_t round)
{
    dlr_agent_send_supervisor(tasks->base,
                              json_pack("{s:i, s:s, s:I}", "v", DLR_MSG_VERSION, "t",
                                        "orphaned", "round", (json_int_t)round));
}

static bool has_untold(const struct dlr_agent_tasks *tasks,
                       const struct dlr_agent_conn *stepd)
{
    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all))
        if (t->stepd == stepd && !t->told)
            return true;
    return false;
}

void dlr_agent_tasks_step_gone(struct dlr_agent_tasks *tasks,
                               const struct dlr_agent_conn *stepd)
{
    bool left = false;

    if (!dlr_agent_ends(tasks->base) &&
        (int64_t)stepd->round > tasks->kill_up_to_round && has_untold(tasks, stepd))
        say_orphaned(tasks, stepd->round);
    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all)) {
        if (t->stepd != stepd)
            continue;
        t->stepd = NULL;
        if (t->pidfd < 0)
            tell_end(t, UNKNOWN);
        else
            left = true;
    }
    if (!left || dlr_agent_ends(tasks->base) ||
        (int64_t)stepd->round <= tasks->kill_up_to_round)
        return;
    dlr_warn("%s: the step of round %u has left, its tasks have not: killing them",
             tasks->self->node, stepd->round);
    dlr_agent_tasks_doom(tasks, stepd->round);
}

void dlr_agent_tasks_settle(struct dlr_agent_tasks *tasks, uint32_t round)
{
    bool seen = false;

    if (dlr_agent_ends(tasks->base) || (int64_t)round <= tasks->kill_up_to_round ||
        dlr_agent_conn_has_stepd(tasks, round))
        return; /* of a round that ends, kill_ordered tells it */
    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all)) {
        if (t->round != round)
            continue;
        if (t->pidfd >= 0 || !t->told)
            return;
        seen = true;
    }
    if (seen) /* else: it has not begun here */
        say_clean(tasks, round, count_killed(tasks, round));
}

static void free_task(struct dlr_agent_task *t)
{
    dlr_agent_timer_end(t->of->base, &t->timer);
    unwatch_task(t);
    dlr_memory_kills_close(&t->kills);
    free(t);
}

void dlr_agent_tasks_forget(struct dlr_agent_tasks *tasks, uint32_t round)
{
    struct dlr_agent_task *t = zlistx_first(tasks->all);

    while (t) {
        if (t->round < round && t->pidfd < 0 && t->told) {
            zlistx_detach_cur(tasks->all);
            free_task(t);
        }
        t = zlistx_next(tasks->all);
    }
}

void dlr_agent_tasks_send_stepd(struct dlr_agent_tasks *tasks, uint32_t round)
{
    if (dlr_agent_ends(tasks->base))
        return;
    dlr_agent_send_supervisor(
        tasks->base,
        json_pack("{s:i, s:s, s:I, s:b}", "v", DLR_MSG_VERSION, "t", "stepd", "round",
                  (json_int_t)round, "here", dlr_agent_conn_has_stepd(tasks, round)));
}

void dlr_agent_tasks_resend(struct dlr_agent_tasks *tasks)
{
    for (struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all)) {
        say_task(t);
        if (t->told)
            say_exit(t);
    }
    if (!tasks->round->known)
        return;
    dlr_agent_stay_resend(tasks);
    dlr_agent_warm_resend(tasks);
    if (dlr_agent_conn_has_stepd(tasks, tasks->round->round))
        dlr_agent_tasks_send_stepd(tasks, tasks->round->round);
    dlr_agent_tasks_settle(tasks, tasks->round->round);
}

void dlr_agent_tasks_drop(struct dlr_agent_tasks *tasks)
{
    struct dlr_agent_task *t;

    dlr_agent_timer_end(tasks->base, &tasks->retry_timer);
    dlr_agent_timer_end(tasks->base, &tasks->park_timer);
    while ((t = zlistx_detach(tasks->all, NULL)))
        free_task(t);
}

void dlr_agent_tasks_kill(struct dlr_agent_tasks *tasks, uint32_t round,
                          bool spare_srun)
{
    tasks->spare_srun = spare_srun;
    dlr_agent_tasks_doom(tasks, round);
    dlr_agent_tasks_settle(tasks, round);
}

void dlr_agent_tasks_kill_with_srun(struct dlr_agent_tasks *tasks)
{
    tasks->spare_srun = false;
    dlr_agent_tasks_kill_all(tasks);
}

int64_t dlr_agent_tasks_kill_up_to_round(const struct dlr_agent_tasks *tasks)
{
    return tasks->kill_up_to_round;
}
