/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/disk/persist_periodic.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/manifest/manifest.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/disk/persist_schedule.h"

/* What blocks: a process apart does it. */
struct manifest {
    char dir[DLR_RUN_PATH + 32];
    struct dlr_persist_write write;
    unsigned world, keep;
    bool give_up; /* remove what was written of the version */
    struct dlr_err err;
    unsigned count;               /* files of this one, */
    uint64_t bytes;               /* and their bytes */
    atomic_bool stop;             /* the survivors write now */
    struct dlr_plan_file files[]; /* [world] where each rank's bytes are */
};

enum state { IDLE, WRITING, MANIFEST };

/* Who was asked to write a rank's bytes. */
struct rank_file {
    enum { BY_OWNER, FAILED, BY_HOLDER, ANSWERED } by; /* FAILED: the owner has */
    char kind;                                         /* of its file */
    struct dlr_slice slice;
    char why[100]; /* the owner could not */
};

struct dlr_periodic {
    enum state state;
    struct dlr_persist_write write;
    struct dlr_sup_due due;
    uint32_t round;
    uint64_t first_id; /* of rank 0's request; the others follow */
    unsigned world, left, skipped;
    struct rank_file *ranks; /* [world] */
    int64_t begun_ms;
    int rc;
    char why[256];
    struct dlr_aside *manifest; /* what writes it */
    bool said;                  /* that it does not work */
    int tight;                  /* a node without a slot to spare; -1 none, -2 told */
};

void dlr_sup_periodic_start(struct dlr_sup *s)
{
    struct dlr_periodic *p;
    char dir[DLR_RUN_PATH + 32];
    int rc = 0;

    if (!s->conf.checkpoint ||
        (!s->conf.persist_every.steps && !s->conf.persist_every.ms))
        return;
    dlr_sup_persist_dir(s, dir, sizeof(dir));
    if (s->conf.persist_every.ms != DLR_EVERY_AUTO) /* which looks later */
        rc = dlr_sup_file_do(s->io, dlr_sup_file_mkdirs, dir, NULL);
    if (rc < 0 && rc != -ETIMEDOUT && rc != -EBUSY) { /* these two: it may be there */
        dlr_sup_say(s->io, "no snapshot will be written: cannot create '%s': %s", dir,
                    strerror(-rc));
        return;
    }
    p = s->periodic = calloc(1, sizeof(*p));
    if (!p)
        return;
    p->tight = -1;
    dlr_sup_due_start(s, &p->due);
}

void dlr_sup_periodic_ready(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    if (s->periodic && s->periodic->tight == -1 &&
        json_is_true(json_object_get(msg, "tight")))
        s->periodic->tight = (int)node;
}

/* --- the process apart ---------------------------------------------------------------------- */

/* Gives every version that is there now, if that can be told: the manifest is written in any case. */
static int write_manifest(void *arg, int *fd)
{
    struct manifest *m = arg;
    DLR_AUTO_FREE struct dlr_plan_file *files = NULL;
    struct dlr_err quiet;
    unsigned n = 0;
    int rc;

    if (m->give_up) {
        dlr_persist_forget(m->dir, &m->write, &m->stop);
        return 0;
    }
    rc = dlr_persist_count(m->files, m->world, &m->count, &m->bytes, &m->err);
    if (rc == 0)
        rc = dlr_persist_save(m->dir, m->files, m->world, m->keep, &m->err);
    if (rc < 0)
        return rc;
    if (dlr_persist_load(m->dir, &files, &n, &quiet) == 0)
        dlr_sup_disk_give(files, n, fd);
    return 0;
}

/* The file that a rank's bytes go to, and who is asked for it. */
static void path_of(const struct dlr_sup *s, unsigned rank, char *buf, size_t size)
{
    const struct dlr_periodic *p = s->periodic;
    char dir[DLR_RUN_PATH + 32];
    char kind = p->ranks[rank].kind;

    dlr_sup_persist_dir(s, dir, sizeof(dir));
    dlr_persist_path(dir, kind,
                     kind == DLR_PERSIST_ALONE
                         ? rank
                         : (unsigned)dlr_sup_place_of(s->planning, rank),
                     &p->write, buf, size);
}

static void list_files(const struct dlr_sup *s, struct dlr_plan_file *files)
{
    const struct dlr_periodic *p = s->periodic;

    for (unsigned r = 0; r < p->world; r++) {
        files[r].slice = p->ranks[r].slice;
        files[r].copy = (struct dlr_plan_copy){.rank = (int32_t)r,
                                               .world = p->world,
                                               .version = p->write.version,
                                               .bytes = files[r].slice.room};
        path_of(s, r, files[r].path, sizeof(files[r].path));
    }
}

static void fail(struct dlr_sup *s, struct dlr_version v, const char *why)
{
    struct dlr_periodic *p = s->periodic;

    dlr_journal_note(dlr_sup_journal(s->io), "persisted", "s:n,s:o,s:s", "version",
                     "wanted", dlr_sup_version(&v), "why", why);
    if (dlr_sup_due_quiet(s, &p->due))
        return;
    if (!p->said)
        dlr_sup_say(s->io, "step %llu is not written to the state directory: %s",
                    (unsigned long long)v.step, why);
    p->said = true;
}

/* What was tried; what only came too late goes to fail() alone. */
static void fail_write(struct dlr_sup *s, struct dlr_version v, const char *why)
{
    struct dlr_sup_due *due = &s->periodic->due;

    fail(s, v, why);
    dlr_sup_due_failed(s, due, why);
    if (!due->second)
        dlr_sup_due_again(due);
}

static void start_manifest(struct dlr_sup *s)
{
    struct dlr_periodic *p = s->periodic;
    bool give_up = p->rc < 0;
    size_t room = give_up ? 0 : p->world * sizeof(struct dlr_plan_file);
    struct dlr_aside *a = dlr_aside_new(sizeof(struct manifest) + room);
    struct manifest *m = a ? dlr_aside_arg(a) : NULL;

    p->state = IDLE;
    if (!m) {
        fail_write(s, p->write.version, strerror(ENOMEM));
        return;
    }
    dlr_sup_persist_dir(s, m->dir, sizeof(m->dir));
    m->write = p->write;
    m->world = p->world;
    m->keep = s->conf.persist_keep ? s->conf.persist_keep : 1;
    m->give_up = give_up;
    if (!give_up)
        list_files(s, m->files);
    if (dlr_aside_start(a, dlr_sup_apart(s->io), write_manifest, -1) < 0) {
        dlr_aside_free(a);
        fail_write(s, p->write.version, "no process can be started for its manifest");
        return;
    }
    p->manifest = a;
    p->state = MANIFEST;
}

/* --- one version ----------------------------------------------------------------------------- */

/* The version is due: whether it can be written. */
static bool has_place(struct dlr_sup *s, struct dlr_version v)
{
    char why[512];
    int rc = dlr_sup_due_place(s, &s->periodic->due, why, sizeof(why));

    if (rc == -EAGAIN)
        dlr_sup_due_again(&s->periodic->due);
    else if (rc < 0)
        fail(s, v, why);
    return rc == 0;
}

static void tell_tight(struct dlr_sup *s)
{
    struct dlr_periodic *p = s->periodic;

    if (p->tight < 0)
        return;
    dlr_sup_say(s->io,
                "while a checkpoint is written to the disk nothing is saved "
                "(--dlrover-persist=auto): %s has no memory for one more slot",
                s->members->list[p->tight].node.name);
    p->tight = -2;
}

/* -1: it has been told how that ended. */
static int writer_of(const struct dlr_sup *s, unsigned rank)
{
    unsigned place = (unsigned)dlr_sup_place_of(s->planning, rank);

    switch (s->periodic->ranks[rank].by) {
    case BY_OWNER:
        return dlr_sup_node_of(s->planning, place);
    case BY_HOLDER:
        return dlr_sup_holder_node(s, place, 1);
    default:
        return -1;
    }
}

static json_t *order(const struct dlr_sup *s, unsigned rank)
{
    const struct dlr_periodic *p = s->periodic;
    json_t *msg = dlr_msg_new("persist");
    char path[DLR_PLAN_WHERE];

    path_of(s, rank, path, sizeof(path));
    json_object_set_new(msg, "id", json_integer((json_int_t)(p->first_id + rank)));
    json_object_set_new(msg, "round", json_integer(p->round));
    json_object_set_new(msg, "rank", json_integer(rank));
    json_object_set_new(msg, "vround", json_integer(p->write.version.round));
    json_object_set_new(msg, "step", json_integer((json_int_t)p->write.version.step));
    json_object_set_new(msg, "path", json_string(path));
    if (s->conf.persist_rate)
        json_object_set_new(msg, "rate",
                            json_integer((json_int_t)s->conf.persist_rate));
    return msg;
}

static void ask_alone(struct dlr_sup *s, unsigned rank)
{
    s->periodic->ranks[rank].kind = DLR_PERSIST_ALONE;
    dlr_sup_send(s->nodes, (unsigned)writer_of(s, rank), order(s, rank));
}

/* Those of a node's ranks that go into one file of this kind. */
static void ask_together(struct dlr_sup *s, const struct dlr_plan_place *place,
                         char kind)
{
    const struct dlr_periodic *p = s->periodic;
    json_t *msg = NULL, *with = json_array();
    unsigned node = 0;

    for (unsigned t = 0; t < place->tasks; t++) {
        unsigned rank = s->plan->ranks[place->from + t];
        const struct rank_file *w = &p->ranks[rank];

        if (w->kind != kind || w->by == ANSWERED)
            continue;
        if (msg) {
            json_array_append_new(
                with, json_pack("[i, I]", (int)rank, (json_int_t)(p->first_id + rank)));
            continue;
        }
        msg = order(s, rank);
        node = (unsigned)writer_of(s, rank);
    }
    if (msg && json_array_size(with) > 0)
        json_object_set(msg, "with", with);
    json_decref(with);
    if (msg)
        dlr_sup_send(s->nodes, node, msg);
}

/* The node that may be asked for what its owner could not write; -1: none. */
static int other_writer(const struct dlr_sup *s, unsigned place)
{
    int holder = s->sets.rows > 0 || dlr_sup_copies(s) == 0
                     ? -1
                     : dlr_sup_holder_node(s, place, 1);

    return holder >= 0 && holder != dlr_sup_node_of(s->planning, place) &&
                   s->members->list[holder].here
               ? holder
               : -1;
}

/* Once, and not when another node would find the same: a directory that is full is so for all, and
 * nobody else has the rank's bytes when parity protects them. What is too much for one file is not for one each.
 */
static bool ask_again(struct dlr_sup *s, unsigned rank, int rc, const char *why)
{
    struct rank_file *w = &s->periodic->ranks[rank];

    if (rc == -EFBIG && w->kind != DLR_PERSIST_ALONE) {
        ask_alone(s, rank);
        return true;
    }
    if (w->by != BY_OWNER || rc == -ENOSPC || rc == -EDQUOT ||
        other_writer(s, (unsigned)dlr_sup_place_of(s->planning, rank)) < 0)
        return false;
    w->by = FAILED;
    snprintf(w->why, sizeof(w->why), "%s", why);
    return true;
}

static void give_up(struct dlr_sup *s, unsigned rank, unsigned node, int rc,
                    const char *why)
{
    struct dlr_periodic *p = s->periodic;
    const struct rank_file *w = &p->ranks[rank];

    if (p->rc < 0)
        return; /* one reason is enough */
    p->rc = rc;
    if (w->by == BY_HOLDER)
        snprintf(p->why, sizeof(p->why), "rank %u: %s; then on %.32s: %.90s", rank,
                 w->why, s->members->list[node].node.name, why);
    else
        snprintf(p->why, sizeof(p->why), "rank %u: %.200s", rank, why);
}

/* Once an owner has answered for all of its ranks: what it could not write its partner is asked for, or
 * nobody any more.
 */
static void hand_over(struct dlr_sup *s, const struct dlr_plan_place *place)
{
    struct dlr_periodic *p = s->periodic;
    const unsigned *ranks = s->plan->ranks + place->from;
    bool can = p->rc == 0 && other_writer(s, (unsigned)(place - s->plan->places)) >= 0;
    bool any = false;

    for (unsigned t = 0; t < place->tasks; t++)
        if (p->ranks[ranks[t]].by == BY_OWNER)
            return;
    for (unsigned t = 0; t < place->tasks; t++) {
        struct rank_file *w = &p->ranks[ranks[t]];

        if (w->by != FAILED)
            continue;
        if (!can) {
            give_up(s, ranks[t], 0, -EIO, w->why);
            w->by = ANSWERED;
            p->left--;
            continue;
        }
        w->by = BY_HOLDER;
        any = true;
        if (w->kind == DLR_PERSIST_ALONE)
            ask_alone(s, ranks[t]);
        else
            w->kind = DLR_PERSIST_IN_PLACE;
    }
    if (any)
        ask_together(s, place, DLR_PERSIST_IN_PLACE);
}

static void rank_done(void *arg, unsigned node, uint64_t id, int rc, const char *why)
{
    struct dlr_sup *s = arg;
    struct dlr_periodic *p = s->periodic;
    unsigned rank;

    if (!p || p->state != WRITING || id < p->first_id || id - p->first_id >= p->world)
        return;
    rank = (unsigned)(id - p->first_id);
    if (writer_of(s, rank) != (int)node)
        return;
    if (rc == 0 && dlr_slice_parse(why, &p->ranks[rank].slice) < 0) {
        rc = -EPROTO;
        why = "what the node says of the file is malformed";
    }
    if (rc == 0 || p->rc < 0 || !ask_again(s, rank, rc, why)) {
        if (rc < 0)
            give_up(s, rank, node, rc, why);
        p->ranks[rank].by = ANSWERED;
        p->left--;
    }
    hand_over(s, &s->plan->places[dlr_sup_place_of(s->planning, rank)]);
    if (p->left > 0)
        return;
    if (p->rc < 0)
        fail_write(s, p->write.version, p->why);
    start_manifest(s);
}

void dlr_sup_periodic_commit(struct dlr_sup *s, struct dlr_version v)
{
    struct dlr_periodic *p = s->periodic;
    struct rank_file *ranks;

    if (!p || !dlr_sup_due(s, &p->due, v, p->state != IDLE))
        return;
    dlr_sup_due_take(&p->due, v);
    if (!has_place(s, v))
        return;
    if (p->state != IDLE) {
        p->skipped++;
        fail(s, v, "the write of an older one goes on");
        return;
    }
    ranks = realloc(p->ranks, s->plan->world * sizeof(*ranks));
    if (!ranks)
        return;
    p->ranks = ranks;
    memset(ranks, 0, s->plan->world * sizeof(*ranks));
    for (unsigned r = 0; r < s->plan->world; r++)
        ranks[r].kind = DLR_PERSIST_HELD;
    p->state = WRITING;
    p->write = (struct dlr_persist_write){v, dlr_persist_tag()};
    p->round = dlr_policy_round(s->policy);
    p->world = p->left = s->plan->world;
    dlr_sup_requests_drop(s->copies, rank_done);
    p->first_id = dlr_sup_request(s->copies, p->world, rank_done, s);
    p->begun_ms = dlr_sup_now();
    p->rc = 0;
    tell_tight(s);
    dlr_sup_vetted_write(s->versions, v);
    for (unsigned i = 0; i < s->plan->nplaces; i++)
        ask_together(s, &s->plan->places[i], DLR_PERSIST_HELD);
}

bool dlr_sup_periodic_writes(const struct dlr_sup *s)
{
    return s->periodic && s->periodic->state == WRITING;
}

void dlr_sup_periodic_stop(struct dlr_sup *s)
{
    struct manifest *m;

    if (!s->periodic || !s->periodic->manifest)
        return;
    m = dlr_aside_arg(s->periodic->manifest);
    atomic_store(&m->stop, true);
}

static void written(struct dlr_sup *s, const struct manifest *m)
{
    struct dlr_periodic *p = s->periodic;
    int64_t took_ms = dlr_sup_now() - p->begun_ms;
    struct dlr_cadence_persist next;
    struct dlr_cadence_risk risk;
    bool is_auto;

    p->said = false;
    p->due.write_s = took_ms > 0 ? (double)took_ms / 1e3 : 1e-3;
    is_auto = dlr_sup_due_next(s, &p->due, &risk, &next);
    dlr_journal_note(
        dlr_sup_journal(s->io), "persisted",
        "s:o,s:i,s:I,s:I,s:i,s:s,s:i,s:i,s:i,s:o,s:o", "version",
        dlr_sup_version(&m->write.version), "files", (int)m->count, "bytes",
        (json_int_t)m->bytes, "took_ms", (json_int_t)took_ms, "skipped", p->skipped,
        "bound", is_auto ? next.bound : "user", "nodes", risk.nodes, "lost", risk.lost,
        "covered", risk.covered, "every_s",
        is_auto ? json_integer((json_int_t)next.every_s) : json_null(), "mtbf_s",
        is_auto ? json_integer((json_int_t)next.mtbf_s) : json_null());
}

static void look_at_manifest(struct dlr_sup *s)
{
    struct dlr_periodic *p = s->periodic;
    const struct manifest *m = dlr_aside_arg(p->manifest);
    DLR_AUTO_CLOSE int fd = -1;
    int rc;

    if (dlr_aside_end(p->manifest, &rc, &fd) < 0)
        return;
    p->state = IDLE;
    if (!m->give_up && rc < 0) {
        fail_write(s, m->write.version, m->err.text[0] ? m->err.text : strerror(-rc));
    } else if (!m->give_up) {
        if (fd >= 0)
            dlr_sup_disk_take(s, fd);
        dlr_sup_disk_unread(s, m->err.text);
        written(s, m);
    }
    p->manifest = dlr_aside_free(p->manifest);
}

/* Files without a manifest mean nothing, the next one removes them. */
static void cut_short(struct dlr_sup *s, const char *why)
{
    struct dlr_periodic *p = s->periodic;

    p->state = IDLE;
    fail(s, p->write.version, why);
    dlr_sup_due_again(&p->due);
}

void dlr_sup_periodic_turn(struct dlr_sup *s)
{
    if (s->periodic && s->periodic->state == WRITING)
        cut_short(s, "the ranks of its round are known anew");
}

void dlr_sup_periodic_tick(struct dlr_sup *s)
{
    struct dlr_periodic *p = s->periodic;

    if (p && p->state == WRITING &&
        (dlr_policy_phase(s->policy) != DLR_PHASE_RUN ||
         dlr_policy_round(s->policy) != p->round)) {
        cut_short(s, "its round has ended");
        return;
    }
    if (p && p->state == MANIFEST)
        look_at_manifest(s);
}
