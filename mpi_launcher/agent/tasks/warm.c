/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that run ahead on a node without ranks, our own children: the program up to
 * its first round, where it says WARM and waits. When the node gets ranks they become
 * processes that have stayed, without having been in a round before: stay.c has the
 * rest.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/tasks/tasks_state.h"
#include "mpi_launcher/agent/tasks/warm_start.h"

#define MOST 1024     /* on a node */
#define FAILURES 3    /* then no more are started in this round */
#define PAUSE_MS 2000 /* from the end of one to the start of the next */

static unsigned count(const struct dlr_agent_warm *warm, bool that_wait)
{
    unsigned n = 0;

    for (unsigned i = 0; i < warm->n; i++)
        n += warm->list[i].pid && (!that_wait || warm->list[i].waits);
    return n;
}

/* KiB of memory that it has, with what it shares with others. */
static json_int_t resident_kb(pid_t pid)
{
    long pages = 0;
    char path[64];
    DLR_AUTO_FCLOSE FILE *f = NULL;

    dlr_format(path, sizeof(path), "/proc/%d/statm", (int)pid);
    f = fopen(path, "re");
    if (!f || fscanf(f, "%*d %ld", &pages) != 1)
        return 0;
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* How many wait, and what that costs; or why none does. */
static void say(const struct dlr_agent_tasks *tasks)
{
    const struct dlr_agent_warm *warm = &tasks->warm;
    json_int_t kb = 0;

    for (unsigned i = 0; i < warm->n; i++)
        if (warm->list[i].waits)
            kb += resident_kb(warm->list[i].waits->pid);
    dlr_agent_send_supervisor(
        tasks->base,
        json_pack("{s:i, s:s, s:i, s:I, s:I, s:s}", "v", DLR_MSG_VERSION, "t", "warm",
                  "processes", (int)count(warm, true), "kb", kb, "took_ms",
                  (json_int_t)(dlr_now_ms() - warm->begun_ms), "why", warm->why));
}

void dlr_agent_warm_resend(const struct dlr_agent_tasks *tasks)
{
    const struct dlr_agent_warm *warm = &tasks->warm;

    if (warm->order && count(warm, true) == warm->n)
        say(tasks);
}

/* --- their ends ------------------------------------------------------------------- */

static void start_missing(struct dlr_agent_tasks *tasks);

static void end_all(struct dlr_agent_tasks *tasks)
{
    struct dlr_agent_warm *warm = &tasks->warm;

    dlr_agent_timer_end(tasks->base, &warm->timer);
    for (unsigned i = 0; i < warm->n; i++) {
        struct dlr_agent_warm_process *w = &warm->list[i];

        if (!w->pid)
            continue;
        kill(-w->pid, SIGKILL);
        dlr_agent_unwatch(tasks->base, w->pidfd);
        dlr_agent_kill_and_reap(tasks->base, w->pid, w->pidfd);
        *w = (struct dlr_agent_warm_process){.of = tasks, .pidfd = -1};
    }
}

void dlr_agent_warm_end(struct dlr_agent_tasks *tasks)
{
    end_all(tasks);
    free(tasks->warm.list);
    json_decref(tasks->warm.order);
    tasks->warm = (struct dlr_agent_warm){.timer = -1};
}

static int pause_over(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_tasks *tasks = arg;

    tasks->warm.timer = -1;
    start_missing(tasks);
    return 0;
}

static void has_failed(struct dlr_agent_tasks *tasks, const char *how, int number)
{
    struct dlr_agent_warm *warm = &tasks->warm;

    dlr_warn("%s: a process that ran ahead %s %d", tasks->self->node, how, number);
    if (++warm->failed < FAILURES) {
        dlr_agent_timer(tasks->base, &warm->timer, PAUSE_MS, pause_over, tasks);
        return;
    }
    end_all(tasks);
    snprintf(warm->why, sizeof(warm->why), "%s %d, %d times", how, number, FAILURES);
    say(tasks);
}

static int on_end(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent_warm_process *w = arg;
    struct dlr_agent_tasks *tasks = w->of;
    struct dlr_agent_warm *warm = &tasks->warm;
    int status;

    kill(-w->pid, SIGKILL); /* what it has left; not reaped, its group is its own */
    dlr_agent_unwatch(tasks->base, w->pidfd);
    status = dlr_agent_warm_reap(w->pidfd);
    close(w->pidfd);
    *w = (struct dlr_agent_warm_process){.of = tasks, .pidfd = -1};
    if (status == 0 && json_is_true(json_object_get(warm->order, "command"))) {
        warm->ran = true;
        if (count(warm, false) == 0)
            say(tasks);
    } else if (WIFSIGNALED(status)) {
        has_failed(tasks, "was killed by signal", WTERMSIG(status));
    } else {
        has_failed(tasks, "ended with code", WEXITSTATUS(status));
    }
    return 0;
}

/* --- their start ------------------------------------------------------------------ */

static void start_missing(struct dlr_agent_tasks *tasks)
{
    struct dlr_agent_warm *warm = &tasks->warm;
    struct dlr_err err = {0};

    for (unsigned i = 0; i < warm->n; i++) {
        struct dlr_agent_warm_process *w = &warm->list[i];

        if (w->pid)
            continue;
        if (dlr_agent_warm_start(warm->order, tasks->self->conf.memory, &w->pid,
                                 &w->pidfd, &err) < 0) {
            dlr_format(warm->why, sizeof(warm->why), "%.120s", err.text);
            end_all(tasks);
            say(tasks);
            return;
        }
        dlr_agent_watch(tasks->base, w->pidfd, on_end, w);
    }
}

static bool has_ranks(const struct dlr_agent_tasks *tasks)
{
    const struct dlr_agent_node *here =
        dlr_agent_round_node(tasks->round, tasks->self->node);

    return here && here->nranks > 0;
}

int dlr_agent_tasks_warm_up(struct dlr_agent_tasks *tasks, const json_t *msg)
{
    struct dlr_agent_warm *warm = &tasks->warm;
    uint64_t round, n;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        dlr_msg_uint(msg, "processes", MOST, &n) < 0 ||
        (n > 0 && !dlr_agent_warm_is_order(msg)))
        return -EBADMSG;
    if ((tasks->round->known && tasks->round->round != round) || has_ranks(tasks))
        return -ESTALE;
    if (n > 0 && warm->order && (warm->ran || !warm->why[0] || warm->round == round))
        return 0; /* those of a former round do as well */
    dlr_agent_warm_end(tasks);
    if (n == 0)
        return 0;
    warm->list = calloc(n, sizeof(*warm->list));
    if (!warm->list)
        return -ENOMEM;
    warm->order = json_incref((json_t *)msg);
    warm->n = (unsigned)n;
    warm->round = (uint32_t)round;
    warm->begun_ms = dlr_now_ms();
    for (unsigned i = 0; i < n; i++)
        warm->list[i] = (struct dlr_agent_warm_process){.of = tasks, .pidfd = -1};
    start_missing(tasks);
    return 0;
}

/* --- they wait -------------------------------------------------------------------- */

/* A shell may stand between us and the program. */
static struct dlr_agent_warm_process *process_of(struct dlr_agent_tasks *tasks,
                                                 pid_t pid)
{
    pid_t group = getpgid(pid);

    for (unsigned i = 0; group > 0 && i < tasks->warm.n; i++)
        if (tasks->warm.list[i].pid == group)
            return &tasks->warm.list[i];
    return NULL;
}

int dlr_agent_warm_waits(struct dlr_agent_conn *c)
{
    struct dlr_agent_tasks *tasks = c->owner;
    struct dlr_agent_warm_process *w = process_of(tasks, c->pid);

    if (!w || w->waits)
        return -EBADMSG;
    c->kind = DLR_CONN_WARM;
    w->waits = c;
    if (count(&tasks->warm, true) == tasks->warm.n)
        say(tasks);
    return 0;
}

void dlr_agent_warm_gone(struct dlr_agent_tasks *tasks, const struct dlr_agent_conn *c)
{
    for (unsigned i = 0; i < tasks->warm.n; i++) {
        struct dlr_agent_warm_process *w = &tasks->warm.list[i];

        if (w->waits != c)
            continue;
        w->waits = NULL;
        kill(-w->pid, SIGKILL); /* it has not waited */
    }
}

int64_t dlr_agent_warm_below(const struct dlr_agent_tasks *tasks, int64_t round)
{
    int64_t mark = tasks->warm.round;

    return count(&tasks->warm, false) > 0 && mark <= round ? mark - 1 : round;
}
