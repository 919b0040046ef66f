/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks and connections of an agent that died, in the next one. Nobody has noticed the
 * death: the descriptors stayed open, and what was sent meanwhile waits in them. What is
 * read here this agent's predecessor has written.
 */
#include <errno.h>

#include "common/base/cleanup.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/snapshots/ranks.h"
#include "mpi_launcher/agent/tasks/tasks_state.h"
#include "mpi_launcher/agent/tasks/watch.h"

#define CONN "{s:i, s:i, s:i, s:i, s:I, s:i, s:b}"
#define CONN_MEMBERS(id, pid, kind, rank, round, world, serves)                        \
    "id", id, "pid", pid, "kind", kind, "rank", rank, "round", round, "world", world,  \
        "serves", serves

/* kills: -1, where there was no counter. */
#define TASK "{s:i, s:i, s:I, s:I, s:i, s:i, s:b, s:b, s:b, s:i, s:I, s:b, s:I}"
#define TASK_MEMBERS(id, stepd, round, serves, rank, pid, killed, told, relay, status, \
                     gone_ms, starved, kills)                                          \
    "id", id, "stepd", stepd, "round", round, "serves", serves, "rank", rank, "pid",   \
        pid, "killed", killed, "told", told, "relay", relay, "status", status,         \
        "gone_ms", gone_ms, "starved", starved, "kills", kills

/* --- what the next one must know -------------------------------------------------- */

static const char *find_obstacle(const struct dlr_agent_tasks *tasks)
{
    if (tasks->warm.order)
        return "processes run ahead here";
    if (tasks->park_timer >= 0)
        return "processes were parked";
    if (tasks->asked)
        return "the ranks were being made known";
    if (tasks->kill_up_to_round >= (int64_t)tasks->round->round)
        return "the round was being ended";
    for (const struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all)) {
        if (t->pidfd >= 0 && !t->kept)
            return "not all tasks could be kept";
        if (t->stays || (t->own && t->pidfd >= 0))
            return "a task was its own child, or parked";
    }
    for (const struct dlr_agent_conn *c = zlistx_first(tasks->conns); c;
         c = zlistx_next(tasks->conns)) {
        if (!c->kept)
            return "not all connections could be kept";
        if (c->waits || c->parked || c->kind == DLR_CONN_WARM)
            return "a process waited";
    }
    return NULL;
}

static json_t *note_conns(const struct dlr_agent_tasks *tasks)
{
    json_t *list = json_array();

    for (const struct dlr_agent_conn *c = zlistx_first(tasks->conns); c;
         c = zlistx_next(tasks->conns))
        json_array_append_new(
            list,
            json_pack(CONN,
                      CONN_MEMBERS((int)c->kept, c->pid, (int)c->kind, (int)c->rank,
                                   (json_int_t)c->round, (int)c->world,
                                   c->kind == DLR_CONN_WORKER &&
                                       dlr_agent_ranks_serves(tasks->snapshots, c))));
    return list;
}

static json_t *note_task(const struct dlr_agent_task *t)
{
    return json_pack(
        TASK, TASK_MEMBERS((int)t->kept, t->stepd ? (int)t->stepd->kept : 0,
                           (json_int_t)t->round, (json_int_t)t->serves, (int)t->rank,
                           (int)t->pid, t->killed, t->told, t->relay, t->status,
                           (json_int_t)t->gone_ms, t->starved,
                           t->kills.fd < 0 ? -1 : (json_int_t)t->kills.before));
}

json_t *dlr_agent_tasks_note(const struct dlr_agent_tasks *tasks, const char **ret_why)
{
    json_t *all, *watch;

    *ret_why = find_obstacle(tasks);
    watch = *ret_why ? NULL : dlr_agent_watch_note(tasks->watch, ret_why);
    if (!watch)
        return NULL;
    *ret_why = "out of memory";
    all = json_array();
    for (const struct dlr_agent_task *t = zlistx_first(tasks->all); t;
         t = zlistx_next(tasks->all))
        json_array_append_new(all, note_task(t));
    return json_pack("{s:i, s:I, s:b, s:b, s:I, s:o, s:o, s:o}", "listens",
                     (int)tasks->listen_kept, "killed_up_to",
                     (json_int_t)tasks->kill_up_to_round, "spare_srun",
                     tasks->spare_srun, "killing", tasks->retry_timer >= 0, "lost",
                     (json_int_t)tasks->lost, "conns", note_conns(tasks), "tasks", all,
                     "watch", watch);
}

/* --- in the next one -------------------------------------------------------------- */

static int adopt_conn(struct dlr_agent_tasks *tasks, const json_t *note)
{
    int id, pid, kind, rank, world, serves;
    struct dlr_agent_conn *c;
    json_int_t round;
    int fd;

    if (json_unpack((json_t *)note, CONN,
                    CONN_MEMBERS(&id, &pid, &kind, &rank, &round, &world, &serves)) < 0)
        return -EBADMSG;
    fd = dlr_kept_claim(dlr_agent_kept(tasks->base), (unsigned)id);
    if (fd < 0)
        return -EBADMSG;
    c = dlr_agent_conn_add(tasks, fd, pid, (unsigned)id);
    if (!c) {
        close(fd);
        return -ENOMEM;
    }
    c->kind = (enum dlr_agent_conn_kind)kind;
    c->rank = rank;
    c->round = (uint32_t)round;
    c->world = (uint32_t)world;
    return serves && !dlr_agent_ranks_adopt(tasks->snapshots, c) ? -EBADMSG : 0;
}

static const struct dlr_agent_conn *find_conn(const struct dlr_agent_tasks *tasks,
                                              unsigned id)
{
    for (const struct dlr_agent_conn *c = id ? zlistx_first(tasks->conns) : NULL; c;
         c = zlistx_next(tasks->conns))
        if (c->kept == id)
            return c;
    return NULL;
}

static int adopt_task(struct dlr_agent_tasks *tasks, const json_t *note)
{
    int id, stepd, rank, pid, killed, told, relay, status, starved;
    json_int_t round, serves, gone_ms, kills;
    struct dlr_agent_task *t;

    if (json_unpack((json_t *)note, TASK,
                    TASK_MEMBERS(&id, &stepd, &round, &serves, &rank, &pid, &killed,
                                 &told, &relay, &status, &gone_ms, &starved, &kills)) <
        0)
        return -EBADMSG;
    t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    *t = (struct dlr_agent_task){
        .of = tasks,
        .stepd = find_conn(tasks, (unsigned)stepd),
        .round = (uint32_t)round,
        .serves = (uint32_t)serves,
        .rank = rank,
        .pid = pid,
        .pidfd = id ? dlr_kept_claim(dlr_agent_kept(tasks->base), (unsigned)id) : -1,
        .kept = (unsigned)id,
        .killed = killed,
        .told = told,
        .relay = relay,
        .status = status,
        .gone_ms = gone_ms,
        .starved = starved,
        .kills.fd = -1,
        .timer = -1};
    zlistx_add_end(tasks->all, t);
    dlr_agent_tasks_watch(t);
    if (t->kills.fd >= 0 && kills >= 0)
        t->kills.before = (uint64_t)kills;
    return id && t->pidfd < 0 ? -EBADMSG : 0;
}

static int adopt_all(struct dlr_agent_tasks *tasks, const json_t *conns,
                     const json_t *all)
{
    const json_t *item;
    size_t i;
    int rc = 0;

    json_array_foreach(conns, i, item)
    {
        rc = rc < 0 ? rc : adopt_conn(tasks, item);
    }
    json_array_foreach(all, i, item)
    {
        rc = rc < 0 ? rc : adopt_task(tasks, item);
    }
    return rc;
}

int dlr_agent_tasks_adopt(struct dlr_agent_tasks *tasks, const json_t *note)
{
    json_int_t killed_up_to, lost;
    int listens, spare_srun, killing, rc;
    json_t *conns, *all, *watch;

    if (json_unpack((json_t *)note, "{s:i, s:I, s:b, s:b, s:I, s:o, s:o, s:o}",
                    "listens", &listens, "killed_up_to", &killed_up_to, "spare_srun",
                    &spare_srun, "killing", &killing, "lost", &lost, "conns", &conns,
                    "tasks", &all, "watch", &watch) < 0)
        return -EBADMSG;
    tasks->listen_fd = dlr_kept_claim(dlr_agent_kept(tasks->base), (unsigned)listens);
    if (tasks->listen_fd < 0)
        return -EBADMSG;
    tasks->listen_kept = (unsigned)listens;
    tasks->kill_up_to_round = killed_up_to;
    tasks->spare_srun = spare_srun;
    tasks->lost = (unsigned)lost;
    rc = dlr_agent_watch_adopt(tasks->watch, watch);
    rc = rc < 0 ? rc : adopt_all(tasks, conns, all);
    if (rc == 0 && killing)
        dlr_agent_tasks_kill_ordered(tasks);
    return rc;
}
