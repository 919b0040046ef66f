/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/manifest/manifest.h"
#include "common/base/cleanup.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/requests.h"
#include "mpi_launcher/supervisor/disk/persist_schedule.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/version_json.h"
#include "mpi_launcher/supervisor/versions/versions.h"

enum state { IDLE, WRITING, MANIFEST };

/* Who was asked to write a rank's bytes. */
struct rank_file {
    enum { BY_OWNER, FAILED, BY_HOLDER, ANSWERED } by; /* FAILED: the owner has */
    char kind;                                         /* of its file */
    struct dlr_slice slice;
    char why[100]; /* the owner could not */
};

struct dlr_sup_periodic {
    enum state state;
    struct dlr_persist_write write;
    struct dlr_persist_schedule due;
    uint32_t round;
    uint64_t first_id; /* of rank 0's request; the others follow */
    unsigned world, left, skipped;
    struct rank_file *ranks; /* [world] */
    int64_t begun_ms;
    int rc;
    char why[256];
    struct dlr_offload *manifest; /* what writes it */
    bool said;                    /* that it does not work */
    int tight;                    /* a node without a slot to spare; -1 none, -2 told */
};

void dlr_sup_periodic_start(struct dlr_sup_disk *disk)
{
    struct dlr_sup_periodic *p;
    char dir[DLR_RUN_PATH + 32];
    int rc = 0;

    if (!disk->env.conf->checkpoint ||
        (!disk->env.conf->persist_every.steps && !disk->env.conf->persist_every.ms))
        return;
    dlr_sup_persist_dir(disk, dir, sizeof(dir));
    if (disk->env.conf->persist_every.ms != DLR_EVERY_AUTO) /* which looks later */
        rc = dlr_sup_file_do(disk->env.io, dlr_sup_file_mkdirs, dir, NULL);
    if (rc < 0 && rc != -ETIMEDOUT && rc != -EBUSY) { /* these two: it may be there */
        dlr_user_line(disk->env.io,
                      "no snapshot will be written: cannot create '%s': %s", dir,
                      strerror(-rc));
        return;
    }
    p = disk->periodic = calloc(1, sizeof(*p));
    if (!p)
        return;
    p->tight = -1;
    dlr_persist_schedule_start(disk, &p->due);
}

void dlr_sup_periodic_ready(struct dlr_sup_disk *disk, unsigned node, const json_t *msg)
{
    if (disk->periodic && disk->periodic->tight == -1 &&
        json_is_true(json_object_get(msg, "tight")))
        disk->periodic->tight = (int)node;
}

/* --- the manifest ----------------------------------------------------------------- */

static unsigned place_of(const struct dlr_sup_disk *disk, unsigned rank)
{
    return (unsigned)dlr_sup_place_of(disk->env.planning, rank);
}

/* The file that a rank's bytes go to, and who is asked for it. */
static void path_of(const struct dlr_sup_disk *disk, unsigned rank, char *buf,
                    size_t size)
{
    const struct dlr_sup_periodic *p = disk->periodic;
    char dir[DLR_RUN_PATH + 32];
    char kind = p->ranks[rank].kind;

    dlr_sup_persist_dir(disk, dir, sizeof(dir));
    dlr_persist_path(dir, kind, kind == DLR_PERSIST_ALONE ? rank : place_of(disk, rank),
                     &p->write, buf, size);
}

static void list_files(const struct dlr_sup_disk *disk, struct dlr_sup_manifest *m)
{
    const struct dlr_sup_periodic *p = disk->periodic;

    for (unsigned r = 0; r < m->world; r++) {
        dlr_sup_manifest_set(m, r, p->write.version, &p->ranks[r].slice);
        path_of(disk, r, m->files[r].path, sizeof(m->files[r].path));
    }
}

static void fail(struct dlr_sup_disk *disk, struct dlr_version v, const char *why)
{
    struct dlr_sup_periodic *p = disk->periodic;

    dlr_journal_note(dlr_sup_journal(disk->env.io), "persisted", "s:n,s:o,s:s",
                     "version", "wanted", dlr_sup_version(&v), "why", why);
    if (dlr_persist_schedule_quiet(disk, &p->due))
        return;
    if (!p->said)
        dlr_user_line(disk->env.io,
                      "step %llu is not written to the state directory: %s",
                      (unsigned long long)v.step, why);
    p->said = true;
}

/* What was tried; what only came too late goes to fail() alone. */
static void fail_write(struct dlr_sup_disk *disk, struct dlr_version v, const char *why)
{
    struct dlr_persist_schedule *due = &disk->periodic->due;

    fail(disk, v, why);
    dlr_persist_schedule_failed(disk, due, why);
    if (!due->second)
        dlr_persist_schedule_again(due);
}

static void start_manifest(struct dlr_sup_disk *disk)
{
    struct dlr_sup_periodic *p = disk->periodic;
    bool give_up = p->rc < 0;
    struct dlr_offload *a = dlr_sup_manifest_new(disk, give_up ? 0 : p->world);
    struct dlr_sup_manifest *m = a ? dlr_offload_arg(a) : NULL;

    p->state = IDLE;
    if (!m) {
        fail_write(disk, p->write.version, strerror(ENOMEM));
        return;
    }
    m->write = p->write;
    m->give_up = give_up;
    list_files(disk, m);
    if (dlr_offload_start(a, dlr_sup_fork_server(disk->env.io), dlr_sup_manifest_write,
                          -1) < 0) {
        dlr_offload_free(a);
        fail_write(disk, p->write.version,
                   "no process can be started for its manifest");
        return;
    }
    p->manifest = a;
    p->state = MANIFEST;
}

/* --- one version ------------------------------------------------------------------ */

/* The version is due: whether it can be written. */
static bool has_place(struct dlr_sup_disk *disk, struct dlr_version v)
{
    char why[512];
    int rc = dlr_persist_schedule_place(disk, &disk->periodic->due, why, sizeof(why));

    if (rc == -EAGAIN)
        dlr_persist_schedule_again(&disk->periodic->due);
    else if (rc < 0)
        fail(disk, v, why);
    return rc == 0;
}

static void tell_tight(struct dlr_sup_disk *disk)
{
    struct dlr_sup_periodic *p = disk->periodic;

    if (p->tight < 0)
        return;
    dlr_user_line(disk->env.io,
                  "while a checkpoint is written to the disk nothing is saved "
                  "(--dlrover-persist=auto): %s has no memory for one more slot",
                  disk->members->list[p->tight].node.name);
    p->tight = -2;
}

/* -1: it has been told how that ended. */
static int writer_of(const struct dlr_sup_disk *disk, unsigned rank)
{
    unsigned place = place_of(disk, rank);

    switch (disk->periodic->ranks[rank].by) {
    case BY_OWNER:
        return dlr_sup_node_of(disk->env.planning, place);
    case BY_HOLDER:
        return dlr_sup_holder_node(disk->env.copies, place, 1);
    default:
        return -1;
    }
}

static json_t *order(const struct dlr_sup_disk *disk, unsigned rank)
{
    const struct dlr_sup_periodic *p = disk->periodic;
    json_t *msg = dlr_msg_new("persist");
    char path[DLR_PLAN_WHERE];

    path_of(disk, rank, path, sizeof(path));
    json_object_set_new(msg, "id", json_integer((json_int_t)(p->first_id + rank)));
    json_object_set_new(msg, "round", json_integer(p->round));
    json_object_set_new(msg, "rank", json_integer(rank));
    json_object_set_new(msg, "vround", json_integer(p->write.version.round));
    json_object_set_new(msg, "step", json_integer((json_int_t)p->write.version.step));
    json_object_set_new(msg, "path", json_string(path));
    if (disk->env.conf->persist_rate)
        json_object_set_new(msg, "rate",
                            json_integer((json_int_t)disk->env.conf->persist_rate));
    return msg;
}

static void ask_alone(struct dlr_sup_disk *disk, unsigned rank)
{
    disk->periodic->ranks[rank].kind = DLR_PERSIST_ALONE;
    dlr_sup_send(disk->env.nodes, (unsigned)writer_of(disk, rank), order(disk, rank));
}

/* Those of a node's ranks that go into one file of this kind. */
static void ask_together(struct dlr_sup_disk *disk, const struct dlr_plan_place *place,
                         char kind)
{
    const struct dlr_sup_periodic *p = disk->periodic;
    json_t *msg = NULL, *with = json_array();
    unsigned node = 0;

    for (unsigned t = 0; t < place->tasks; t++) {
        unsigned rank = disk->env.plan->ranks[place->from + t];
        const struct rank_file *w = &p->ranks[rank];

        if (w->kind != kind || w->by == ANSWERED)
            continue;
        if (msg) {
            json_array_append_new(
                with, json_pack("[i, I]", (int)rank, (json_int_t)(p->first_id + rank)));
            continue;
        }
        msg = order(disk, rank);
        node = (unsigned)writer_of(disk, rank);
    }
    if (msg && json_array_size(with) > 0)
        json_object_set(msg, "with", with);
    json_decref(with);
    if (msg)
        dlr_sup_send(disk->env.nodes, node, msg);
}

/* The node that may be asked for what its owner could not write; -1: none. */
static int other_writer(const struct dlr_sup_disk *disk, unsigned place)
{
    int holder = dlr_sup_sets(disk->env.copies)->rows > 0 ||
                         dlr_sup_copies(disk->env.copies) == 0
                     ? -1
                     : dlr_sup_holder_node(disk->env.copies, place, 1);

    return holder >= 0 && holder != dlr_sup_node_of(disk->env.planning, place) &&
                   disk->members->list[holder].here
               ? holder
               : -1;
}

/* Once, and not when another node would find the same: a directory that is full is so
 * for all, and nobody else has the rank's bytes when parity protects them. What is too
 * much for one file is not for one each.
 */
static bool ask_again(struct dlr_sup_disk *disk, unsigned rank, int rc, const char *why)
{
    struct rank_file *w = &disk->periodic->ranks[rank];

    if (rc == -EFBIG && w->kind != DLR_PERSIST_ALONE) {
        ask_alone(disk, rank);
        return true;
    }
    if (w->by != BY_OWNER || rc == -ENOSPC || rc == -EDQUOT ||
        other_writer(disk, place_of(disk, rank)) < 0)
        return false;
    w->by = FAILED;
    snprintf(w->why, sizeof(w->why), "%s", why);
    return true;
}

static void give_up(struct dlr_sup_disk *disk, unsigned rank, unsigned node, int rc,
                    const char *why)
{
    struct dlr_sup_periodic *p = disk->periodic;
    const struct rank_file *w = &p->ranks[rank];

    if (p->rc < 0)
        return; /* one reason is enough */
    p->rc = rc;
    if (w->by == BY_HOLDER)
        snprintf(p->why, sizeof(p->why), "rank %u: %s; then on %.32s: %.90s", rank,
                 w->why, disk->members->list[node].node.name, why);
    else
        snprintf(p->why, sizeof(p->why), "rank %u: %.200s", rank, why);
}

/* Once an owner has answered for all of its ranks: what it could not write its partner
 * is asked for, or nobody any more.
 */
static void hand_over(struct dlr_sup_disk *disk, const struct dlr_plan_place *place)
{
    struct dlr_sup_periodic *p = disk->periodic;
    const struct dlr_plan *plan = disk->env.plan;
    const unsigned *ranks = plan->ranks + place->from;
    bool can = p->rc == 0 && other_writer(disk, (unsigned)(place - plan->places)) >= 0;
    bool any = false;

    for (unsigned t = 0; t < place->tasks; t++)
        if (p->ranks[ranks[t]].by == BY_OWNER)
            return;
    for (unsigned t = 0; t < place->tasks; t++) {
        struct rank_file *w = &p->ranks[ranks[t]];

        if (w->by != FAILED)
            continue;
        if (!can) {
            give_up(disk, ranks[t], 0, -EIO, w->why);
            w->by = ANSWERED;
            p->left--;
            continue;
        }
        w->by = BY_HOLDER;
        any = true;
        if (w->kind == DLR_PERSIST_ALONE)
            ask_alone(disk, ranks[t]);
        else
            w->kind = DLR_PERSIST_IN_PLACE;
    }
    if (any)
        ask_together(disk, place, DLR_PERSIST_IN_PLACE);
}

static void rank_done(void *arg, unsigned node, uint64_t id, int rc, const char *why)
{
    struct dlr_sup_disk *disk = arg;
    struct dlr_sup_periodic *p = disk->periodic;
    unsigned rank;

    if (!p || p->state != WRITING || id < p->first_id || id - p->first_id >= p->world)
        return;
    rank = (unsigned)(id - p->first_id);
    if (writer_of(disk, rank) != (int)node)
        return;
    if (rc == 0 && dlr_slice_parse(why, &p->ranks[rank].slice) < 0) {
        rc = -EPROTO;
        why = "what the node says of the file is malformed";
    }
    if (rc == 0 || p->rc < 0 || !ask_again(disk, rank, rc, why)) {
        if (rc < 0)
            give_up(disk, rank, node, rc, why);
        p->ranks[rank].by = ANSWERED;
        p->left--;
    }
    hand_over(disk, &disk->env.plan->places[place_of(disk, rank)]);
    if (p->left > 0)
        return;
    if (p->rc < 0)
        fail_write(disk, p->write.version, p->why);
    start_manifest(disk);
}

void dlr_sup_periodic_commit(struct dlr_sup_disk *disk, struct dlr_version v)
{
    struct dlr_sup_periodic *p = disk->periodic;
    const struct dlr_plan *plan = disk->env.plan;
    struct rank_file *ranks;

    if (!p || !dlr_persist_schedule(disk, &p->due, v, p->state != IDLE))
        return;
    dlr_persist_schedule_take(&p->due, v);
    if (!has_place(disk, v))
        return;
    if (p->state != IDLE) {
        p->skipped++;
        fail(disk, v, "the write of an older one goes on");
        return;
    }
    ranks = realloc(p->ranks, plan->world * sizeof(*ranks));
    if (!ranks)
        return;
    p->ranks = ranks;
    memset(ranks, 0, plan->world * sizeof(*ranks));
    for (unsigned r = 0; r < plan->world; r++)
        ranks[r].kind = DLR_PERSIST_HELD;
    p->state = WRITING;
    p->write = (struct dlr_persist_write){v, dlr_persist_tag()};
    p->round = dlr_policy_round(disk->policy);
    p->world = p->left = plan->world;
    dlr_sup_requests_drop(disk->env.copies, rank_done);
    p->first_id = dlr_sup_request(disk->env.copies, p->world, rank_done, disk);
    p->begun_ms = dlr_sup_now();
    p->rc = 0;
    tell_tight(disk);
    dlr_sup_vetted_write(disk->env.versions, v);
    for (unsigned i = 0; i < plan->nplaces; i++)
        ask_together(disk, &plan->places[i], DLR_PERSIST_HELD);
}

bool dlr_sup_periodic_writes(const struct dlr_sup_disk *disk)
{
    return disk->periodic && disk->periodic->state == WRITING;
}

void dlr_sup_periodic_stop(struct dlr_sup_disk *disk)
{
    struct dlr_sup_manifest *m;

    if (!disk->periodic || !disk->periodic->manifest)
        return;
    m = dlr_offload_arg(disk->periodic->manifest);
    atomic_store(&m->stop, true);
}

void dlr_sup_periodic_free(struct dlr_sup_disk *disk)
{
    struct dlr_sup_periodic *p = disk->periodic;

    if (p) {
        dlr_offload_free(p->manifest);
        free(p->ranks);
    }
    free(p);
}

static void written(struct dlr_sup_disk *disk, const struct dlr_sup_manifest *m)
{
    struct dlr_sup_periodic *p = disk->periodic;
    int64_t took_ms = dlr_sup_now() - p->begun_ms;
    struct dlr_cadence_persist next;
    struct dlr_cadence_risk risk;
    bool is_auto;

    p->said = false;
    p->due.write_s = took_ms > 0 ? (double)took_ms / 1e3 : 1e-3;
    is_auto = dlr_persist_schedule_next(disk, &p->due, &risk, &next);
    dlr_journal_note(
        dlr_sup_journal(disk->env.io), "persisted",
        "s:o,s:i,s:I,s:I,s:i,s:s,s:i,s:i,s:i,s:o,s:o", "version",
        dlr_sup_version(&m->write.version), "files", (int)m->count, "bytes",
        (json_int_t)m->bytes, "took_ms", (json_int_t)took_ms, "skipped", p->skipped,
        "bound", is_auto ? next.bound : "user", "nodes", risk.nodes, "lost", risk.lost,
        "covered", risk.covered, "every_s",
        is_auto ? json_integer((json_int_t)next.every_s) : json_null(), "mtbf_s",
        is_auto ? json_integer((json_int_t)next.mtbf_s) : json_null());
}

static void look_at_manifest(struct dlr_sup_disk *disk)
{
    struct dlr_sup_periodic *p = disk->periodic;
    const struct dlr_sup_manifest *m = dlr_offload_arg(p->manifest);
    DLR_AUTO_CLOSE int fd = -1;
    int rc;

    if (dlr_offload_end(p->manifest, &rc, &fd) < 0)
        return;
    p->state = IDLE;
    if (!m->give_up && rc < 0) {
        fail_write(disk, m->write.version,
                   m->err.text[0] ? m->err.text : strerror(-rc));
    } else if (!m->give_up) {
        if (fd >= 0)
            dlr_inventory_import(disk, fd);
        dlr_sup_disk_unread(disk, m->err.text);
        written(disk, m);
    }
    p->manifest = dlr_offload_free(p->manifest);
}

/* Files without a manifest mean nothing, the next one removes them. */
static void cut_short(struct dlr_sup_disk *disk, const char *why)
{
    struct dlr_sup_periodic *p = disk->periodic;

    p->state = IDLE;
    fail(disk, p->write.version, why);
    dlr_persist_schedule_again(&p->due);
}

void dlr_sup_periodic_cut(struct dlr_sup_disk *disk, const char *why)
{
    if (disk->periodic && disk->periodic->state == WRITING)
        cut_short(disk, why);
}

void dlr_sup_periodic_tick(struct dlr_sup_disk *disk)
{
    struct dlr_sup_periodic *p = disk->periodic;

    if (p && p->state == WRITING &&
        (dlr_policy_phase(disk->policy) != DLR_PHASE_RUN ||
         dlr_policy_round(disk->policy) != p->round)) {
        cut_short(disk, "its round has ended");
        return;
    }
    if (p && p->state == MANIFEST)
        look_at_manifest(disk);
}
