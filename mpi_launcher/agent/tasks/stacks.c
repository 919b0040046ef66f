/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks of this node stand, when the supervisor asks: a child reads their stacks
 * (mpi_launcher/unwind), and what it prints is the answer. It has its time and no more:
 * a process that cannot be held, or a file server that hangs, keeps nobody waiting.
 */
#include "mpi_launcher/agent/tasks/stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/tasks/tasks.h"
#include "mpi_launcher/agent/tasks/tasks_state.h"
#include "mpi_launcher/process/spawn.h"

#define READ_SECONDS "1"      /* to hold threads and read them */
#define STACKS_MS 1600        /* for the child, names of frames included */
#define TEXT_MAX (256u << 10) /* of an answer */
#define RANKS_MAX 400         /* letters of a list of ranks */
#define RANK_LETTERS "0123456789,-"

void dlr_agent_stacks_end(struct dlr_agent_tasks *tasks)
{
    struct dlr_agent_stacks *s = &tasks->stacks;

    if (!s->text)
        return;
    dlr_agent_timer_end(tasks->base, &s->timer);
    dlr_agent_unwatch(tasks->base, s->fd);
    close(s->fd);
    dlr_agent_kill_and_reap(tasks->base, s->pid, s->pidfd);
    free(s->text);
    s->text = NULL;
}

/* text: whole lines, or "". */
static void answer(struct dlr_agent_tasks *tasks, uint32_t round, uint64_t id,
                   const char *text)
{
    json_t *lines = json_string(text); /* NULL: no text at all */
    json_t *msg = dlr_msg_new("stacks");

    if (msg) {
        json_object_set_new(msg, "round", json_integer(round));
        json_object_set_new(msg, "id", json_integer((json_int_t)id));
        json_object_set_new(msg, "text", lines ? lines : json_string(""));
    }
    dlr_agent_send_supervisor(tasks->base, msg);
}

/* What there is of it: a line that is cut is left out. */
static void tell(struct dlr_agent_tasks *tasks)
{
    struct dlr_agent_stacks *s = &tasks->stacks;
    char *end;

    s->text[s->size] = '\0';
    end = strrchr(s->text, '\n');
    if (end)
        end[1] = '\0';
    answer(tasks, s->round, s->id, end ? s->text : "");
    dlr_agent_stacks_end(tasks);
}

static int on_output(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_agent_tasks *tasks = arg;
    struct dlr_agent_stacks *s = &tasks->stacks;
    ssize_t n = read(s->fd, s->text + s->size, TEXT_MAX - s->size);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n > 0)
        s->size += (size_t)n;
    if (n <= 0 || s->size == TEXT_MAX)
        tell(tasks);
    return 0;
}

static int on_late(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_tasks *tasks = arg;

    tasks->stacks.timer = -1;
    tell(tasks);
    return 0;
}

static int start(struct dlr_agent_tasks *tasks, const char *ranks, struct dlr_err *err)
{
    struct dlr_agent_stacks *s = &tasks->stacks;
    const char *argv[] = {tasks->self->conf.stacks_program,
                          "--seconds",
                          READ_SECONDS,
                          "--job",
                          tasks->self->run.job,
                          "--run",
                          tasks->self->run.run,
                          "--ranks",
                          ranks,
                          NULL};
    /* The reader may lie where the tasks wait: beats and leases go on meanwhile. */
    struct dlr_spawn spawn = {.argv = argv, .pass_fd = -1, .at_once = true};
    int pair[2], rc;

    if (pipe2(pair, O_CLOEXEC) < 0)
        return dlr_fail(err, -errno, "pipe: %s", strerror(errno));
    fcntl(pair[0], F_SETFL, O_NONBLOCK); /* ours only: the child's end may block */
    spawn.out_fd = pair[1];
    rc = dlr_spawn(&spawn, &s->pid, &s->pidfd, err);
    close(pair[1]);
    if (rc < 0)
        close(pair[0]);
    else
        s->fd = pair[0];
    return rc;
}

int dlr_agent_tasks_take_stacks(struct dlr_agent_tasks *tasks, const json_t *msg)
{
    struct dlr_agent_stacks *s = &tasks->stacks;
    struct dlr_err err;
    uint64_t round, id;
    const char *ranks;
    char *text;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        !dlr_agent_round_is(tasks->round, round) ||
        dlr_msg_uint(msg, "id", INT64_MAX, &id) < 0 ||
        dlr_msg_str(msg, "ranks", &ranks) < 0 || !ranks[0] ||
        strlen(ranks) > RANKS_MAX || ranks[strspn(ranks, RANK_LETTERS)])
        return -EBADMSG;
    dlr_agent_stacks_end(tasks); /* nobody waits for that any more */
    text = malloc(TEXT_MAX + 1);
    if (!text || start(tasks, ranks, &err) < 0) {
        free(text);
        answer(tasks, (uint32_t)round, id, "");
        return 0;
    }
    s->text = text;
    s->size = 0;
    s->round = (uint32_t)round;
    s->id = id;
    s->timer = -1;
    dlr_agent_watch(tasks->base, s->fd, on_output, tasks);
    dlr_agent_timer(tasks->base, &s->timer, STACKS_MS, on_late, tasks);
    return 0;
}
