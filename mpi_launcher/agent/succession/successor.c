/* SPDX-License-Identifier: Apache-2.0 */
/* What the elected agent does: collect what is left, have it written, requeue the job.
 * Each step has a limit; whatever fails, the requeue comes, since nobody else is left
 * to ask for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/peers.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/orders.h"
#include "mpi_launcher/agent/snapshots/save.h"
#include "mpi_launcher/agent/succession/successor.h"
#include "mpi_launcher/policy/election.h"
#include "mpi_launcher/process/spawn.h"

#define EXCLUDE_MAX 65536

static void next(struct dlr_successor *s);

/* --- children for what may block -------------------------------------------------- */

static int child_ended(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_successor *s = arg;
    struct dlr_agent_succession *su = s->of;
    int status = -1;

    dlr_agent_unwatch(su->base, s->pidfd);
    if (dlr_spawn_reap(s->pidfd, &status) == -EAGAIN)
        close(s->pidfd);
    s->pidfd = -1;
    if (s->phase == DLR_SUCCEED_REQUEUE) {
        s->phase = DLR_SUCCEED_OVER;
        if (s->only_write)
            s->over(su);
        dlr_agent_timer_end(su->base, &s->timer);
        if (status != 0)
            dlr_error("%s: %s", su->self->node,
                      s->only_write ? "the end is not in the journal"
                                    : "the job could not be requeued");
        if (s->end_after)
            dlr_agent_end(su->base);
        return 0;
    }
    if (s->waiting > 0 && --s->waiting == 0)
        next(s);
    return 0;
}

/* Takes what over. */
static int spawn_child(json_t *what, pid_t *ret_pid, int *ret_pidfd,
                       struct dlr_err *err)
{
    static const char *const argv[] = {"/proc/self/exe", "--succeed", NULL};
    DLR_AUTO_FREE char *text = what ? json_dumps(what, JSON_COMPACT) : NULL;
    DLR_AUTO_CLOSE int fd = memfd_create("dlrover-succeed", MFD_CLOEXEC);
    struct dlr_spawn spawn = {.argv = argv, .out_fd = -1, .pass_fd = fd};
    int rc;

    json_decref(what);
    if (fd < 0 || !text)
        return dlr_fail(err, -EIO, "no memory for a child");
    rc = dlr_write_all(fd, text, strlen(text));
    return rc < 0 ? rc : dlr_spawn(&spawn, ret_pid, ret_pidfd, err);
}

static int start_child(struct dlr_successor *s, json_t *what)
{
    struct dlr_err err = {0};
    pid_t pid;
    int rc;

    if (s->pidfd >= 0) {
        json_decref(what);
        return -EBUSY;
    }
    rc = spawn_child(what, &pid, &s->pidfd, &err);
    if (rc < 0) {
        dlr_error("%s: %s", s->of->self->node, err.text);
        return rc;
    }
    dlr_agent_watch(s->of->base, s->pidfd, child_ended, s);
    return 0;
}

static int on_late(zloop_t *loop, int timer, void *arg)
{
    struct dlr_successor *s = arg;

    s->timer = -1;
    if (s->phase == DLR_SUCCEED_REQUEUE || s->phase == DLR_SUCCEED_OVER) {
        if (s->end_after)
            dlr_agent_end(s->of->base);
        return 0;
    }
    dlr_warn("%s: going on without %u answers", s->of->self->node, s->waiting);
    s->whole = false; /* what was not answered may not be there */
    next(s);
    return 0;
}

/* --- collect ---------------------------------------------------------------------- */

static void collect(struct dlr_successor *s)
{
    struct dlr_agent_succession *su = s->of;
    struct dlr_agent_origin self = {.from = DLR_AGENT_SELF};

    s->reports = calloc(dlr_agent_peer_list(su->base)->n + 1, sizeof(*s->reports));
    dlr_agent_timer(su->base, &s->timer, su->self->job.rendezvous_timeout_ms, on_late,
                    s);
    s->waiting = 2; /* our own report, and the directory */
    for (unsigned i = 0; i < dlr_agent_peer_list(su->base)->n; i++) {
        const char *node = dlr_agent_peer_list(su->base)->all[i].node;

        if (dlr_streq(node, su->self->node) ||
            (!s->only_write && (dlr_streq(node, su->batch) ||
                                !dlr_election_live(su->election, node, dlr_now_ms()))))
            continue;
        s->waiting++;
        dlr_agent_peers_send(su->base, node,
                             json_pack("{s:i, s:s, s:I, s:i}", "v", DLR_MSG_VERSION,
                                       "t", "report", "gen",
                                       (json_int_t)su->self->run.gen, "id", 1));
    }
    if (start_child(s, json_pack("{s:s, s:s, s:s, s:s}", "do",
                                 s->only_write ? "mkdirs" : "prepare", "dir",
                                 su->self->conf.run_dir, "node", su->self->node,
                                 "batch", su->batch)) < 0)
        s->waiting--;
    su->ops->report(su->arg, &self);
}

void dlr_agent_succeed_report(struct dlr_agent_succession *su, const char *node,
                              const json_t *report)
{
    struct dlr_successor *s = su->successor;
    struct dlr_err err = {0};

    if (!s || s->phase != DLR_SUCCEED_COLLECT || !s->reports ||
        s->nreports > dlr_agent_peer_list(su->base)->n)
        return;
    if (report &&
        dlr_plan_report_from_json(report, &s->reports[s->nreports], &err) == 0)
        s->nreports++;
    else
        dlr_warn("%s: no report of %s: %s", su->self->node, node, err.text);
    if (s->waiting > 0 && --s->waiting == 0)
        next(s);
}

/* --- persist ---------------------------------------------------------------------- */

/* The round's places, as they shared parity; tasks has room for all of them. */
static void find_sets(struct dlr_successor *s, unsigned *tasks)
{
    const struct dlr_agent_round *round = s->of->round;
    const struct dlr_redundancy_conf *conf = &s->of->self->job.redundancy;
    unsigned world = s->of->world, n = 0;
    DLR_AUTO_FREE unsigned *ranks = calloc(world + 1, sizeof(*ranks));

    if (!conf->members || round->nnodes < 2 || !ranks)
        return;
    for (unsigned p = 0; p < round->nnodes; p++) {
        tasks[p] = round->nodes[p].nranks;
        for (unsigned i = 0; i < tasks[p]; i++, n++)
            if (n < world)
                ranks[n] = (unsigned)round->nodes[p].ranks[i];
    }
    if (n == world)
        dlr_parity_sets_init(&s->sets, round->nnodes, tasks, ranks, conf->members,
                             conf->copies);
}

static bool choose(struct dlr_successor *s)
{
    DLR_AUTO_FREE unsigned *tasks = calloc(s->of->round->nnodes + 1, sizeof(*tasks));
    unsigned world = s->of->world;
    struct dlr_plan_want want = {.nplaces = 1, .tasks = &world};
    struct dlr_err err = {0};

    if (world == 0 || s->nreports == 0 || !tasks)
        return false;
    find_sets(s, tasks);
    if (s->sets.rows > 0)
        want = (struct dlr_plan_want){.nplaces = s->sets.nplaces,
                                      .tasks = tasks,
                                      .ranks = s->sets.ranks,
                                      .members = s->of->self->job.redundancy.members,
                                      .rows = s->sets.rows};
    if (dlr_plan_restorable(s->reports, s->nreports, &want, &s->plan, &err) < 0) {
        dlr_warn("%s: %s", s->of->self->node, err.text);
        return false;
    }
    for (unsigned i = 0; i < s->plan.nnotes; i++)
        dlr_warn("%s: %s", s->of->self->node, s->plan.notes[i]);
    return s->plan.restore;
}

static void persist(struct dlr_successor *s)
{
    struct dlr_agent_succession *su = s->of;

    s->phase = DLR_SUCCEED_PERSIST;
    s->waiting = 1; /* held until every order is out */
    if (choose(s))
        s->files = calloc(s->plan.made_by, sizeof(*s->files));
    if (s->files)
        s->writer = calloc(s->plan.made_by, sizeof(*s->writer));
    if (s->writer) {
        s->whole = true;
        s->write = (struct dlr_persist_write){s->plan.version, dlr_persist_tag()};
        dlr_agent_timer(su->base, &s->timer, su->self->job.persist_timeout_ms, on_late,
                        s);
        dlr_agent_succeed_write(s);
    }
    if (--s->waiting == 0)
        next(s);
}

void dlr_agent_succeed_done(struct dlr_agent_succession *su, uint64_t id, int rc,
                            const char *why)
{
    struct dlr_successor *s = su->successor;
    unsigned rank = (unsigned)id - 1;
    bool known;

    if (dlr_agent_rebuild_done(su->snapshots, id, rc, why) || !s ||
        s->phase != DLR_SUCCEED_PERSIST)
        return; /* a peer that would not report counts when the limit ends */
    known = s->writer && id > 0 && id <= s->plan.made_by;
    if (known && dlr_agent_succeed_made(s, rank, rc))
        return;
    if (rc == 0 && (!known || dlr_slice_parse(why, &s->files[rank].slice) < 0)) {
        rc = -EPROTO;
        why = "the answer is malformed";
    }
    if (rc == -EFBIG && known && dlr_agent_succeed_write_alone(s, rank))
        return;
    if (rc < 0) {
        dlr_warn("%s: rank %llu is not written: %s", su->self->node,
                 (unsigned long long)id - 1, why);
        s->whole = false;
    }
    if (s->waiting > 0 && --s->waiting == 0)
        next(s);
}

/* --- requeue ---------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b); /* order of names */
}

/* The supervisor's node, whoever did not answer while the others did, and whom the
 * supervisor had called gone.
 */
static void list_dead(struct dlr_agent_succession *su, char *buf, size_t size)
{
    const struct dlr_peer_list *list = dlr_agent_peer_list(su->base);
    DLR_AUTO_FREE const char **dead = calloc(list->n + list->ngone + 1, sizeof(*dead));
    unsigned n = 0;
    size_t len = 0;

    buf[0] = '\0';
    for (unsigned i = 0; dead && i < list->n; i++)
        if (dlr_streq(list->all[i].node, su->batch) ||
            !dlr_election_live(su->election, list->all[i].node, dlr_now_ms()))
            dead[n++] = list->all[i].node;
    for (unsigned i = 0; dead && i < list->ngone; i++)
        dead[n++] = list->gone[i];
    if (n > 1)
        qsort(dead, n, sizeof(*dead), by_text);
    for (unsigned i = 0; i < n && len + strlen(dead[i]) + 2 <= size; i++)
        len += (size_t)snprintf(buf + len, size - len, "%s%s", len ? "," : "", dead[i]);
    if (len == 0)
        dlr_format(buf, size, "%s", su->batch);
}

static json_t *list_files(const struct dlr_successor *s)
{
    json_t *list = json_array();

    for (unsigned r = 0; s->files && s->whole && r < s->plan.made_by; r++) {
        const struct dlr_plan_file *f = &s->files[r];
        char layout[17], slice[DLR_SLICE_TEXT];

        dlr_format(layout, sizeof(layout), "%llx", (unsigned long long)f->copy.layout);
        dlr_slice_show(&f->slice, slice);
        json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:s}", "rank",
                                              f->copy.rank, "slice", slice, "layout",
                                              layout, "path", f->path));
    }
    return list;
}

/* The SIGTERM that follows is the requeue's: there is nothing left to wait for. */
static void say_leave(struct dlr_agent_succession *su)
{
    su->given = true;
    dlr_agent_peers_send_all(su->base, su->self->node,
                             json_pack("{s:i, s:s, s:I}", "v", DLR_MSG_VERSION, "t",
                                       "leave", "gen", (json_int_t)su->self->run.gen));
}

static void requeue(struct dlr_successor *s)
{
    struct dlr_agent_succession *su = s->of;
    DLR_AUTO_FREE char *dead = calloc(1, EXCLUDE_MAX);
    int rc;

    s->phase = DLR_SUCCEED_REQUEUE;
    if (!dead)
        return;
    list_dead(su, dead, EXCLUDE_MAX);
    dlr_warn("%s: requeueing job %s without %s", su->self->node, su->self->run.job,
             dead);
    say_leave(su);
    dlr_agent_timer(su->base, &s->timer, 2 * su->self->job.requeue_timeout_ms, on_late,
                    s);
    rc = start_child(
        s, json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:o, s:b}",
                     "do", "requeue", "dir", su->self->conf.run_dir, "job",
                     su->self->run.job, "exclude", dead, "node", su->self->node, "min",
                     (int)su->min_nodes, "max", (int)su->max_nodes, "timeout_ms",
                     (json_int_t)su->self->job.requeue_timeout_ms, "vround",
                     (json_int_t)s->plan.version.round, "step",
                     (json_int_t)s->plan.version.step, "files", list_files(s), "ended",
                     json_is_integer(json_object_get(su->heir.state, "ended"))));
    if (rc < 0)
        dlr_error("%s: the job could not be requeued", su->self->node);
}

static void write_end(struct dlr_successor *s)
{
    struct dlr_agent_succession *su = s->of;

    s->phase = DLR_SUCCEED_REQUEUE;
    if (start_child(
            s, json_pack("{s:s, s:s, s:I, s:I, s:I, s:o}", "do", "end", "dir",
                         su->self->conf.run_dir, "rounds",
                         su->round->known ? (json_int_t)su->round->round + 1 : 0,
                         "vround", (json_int_t)s->plan.version.round, "step",
                         (json_int_t)s->plan.version.step, "files", list_files(s))) < 0)
        s->over(su);
}

static void next(struct dlr_successor *s)
{
    dlr_agent_timer_end(s->of->base, &s->timer);
    s->waiting = 0;
    if (s->phase == DLR_SUCCEED_COLLECT)
        persist(s);
    else if (s->phase == DLR_SUCCEED_PERSIST && s->only_write)
        write_end(s);
    else if (s->phase == DLR_SUCCEED_PERSIST)
        requeue(s);
}

/* --- begin and end ---------------------------------------------------------------- */

static void told(void *arg, uint64_t id, int rc, const char *why)
{
    dlr_agent_succeed_done(arg, id, rc, why);
}

static struct dlr_successor *begin(struct dlr_agent_succession *su)
{
    struct dlr_successor *s = su->successor ? NULL : calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->of = su;
    s->told = told;
    s->timer = s->pidfd = -1;
    return su->successor = s;
}

void dlr_agent_succeed_write_only(struct dlr_agent_succession *su,
                                  void (*over)(struct dlr_agent_succession *su))
{
    const struct dlr_every_conf *every = &su->self->job.persist_every;
    struct dlr_successor *s = begin(su);

    if (!s)
        return;
    s->only_write = true;
    s->over = over;
    if (dlr_agent_save_has_commit(su->snapshots) && (every->steps || every->ms))
        collect(s);
    else
        write_end(s);
}

void dlr_agent_succeed(struct dlr_agent_succession *su)
{
    struct dlr_successor *s = begin(su);

    if (!s)
        return;
    dlr_warn("%s: elected to go on for the supervisor on %s", su->self->node,
             su->batch);
    collect(s);
}

void dlr_agent_succeed_over(struct dlr_agent_succession *su)
{
    struct dlr_err err = {0};
    pid_t pid;
    int pidfd, rc;

    rc = spawn_child(json_pack("{s:s, s:s, s:I}", "do", "over", "dir",
                               su->self->conf.run_dir, "rounds",
                               su->round->known ? (json_int_t)su->round->round + 1 : 0),
                     &pid, &pidfd, &err);
    if (rc < 0)
        dlr_error("%s: %s", su->self->node, err.text);
    else
        close(pidfd); /* it goes on when we have ended */
}

bool dlr_agent_succeed_holds(struct dlr_agent_succession *su)
{
    if (!su->successor || su->successor->only_write ||
        su->successor->phase != DLR_SUCCEED_REQUEUE || su->successor->pidfd < 0)
        return false;
    su->successor->end_after = true;
    return true;
}

void dlr_agent_succeed_stop(struct dlr_agent_succession *su)
{
    struct dlr_successor *s = su->successor;

    if (!s || (s->phase == DLR_SUCCEED_REQUEUE &&
               !dlr_agent_ends(su->base))) /* slurmctld was asked: no way back */
        return;
    su->successor = NULL;
    dlr_agent_timer_end(su->base, &s->timer);
    if (s->pidfd >= 0) {
        dlr_agent_unwatch(su->base, s->pidfd);
        close(s->pidfd);
    }
    for (unsigned i = 0; i < s->nreports; i++)
        dlr_plan_report_done(&s->reports[i]);
    free(s->reports);
    dlr_plan_done(&s->plan);
    dlr_parity_sets_done(&s->sets);
    free(s->files);
    free(s->writer);
    free(s);
}
