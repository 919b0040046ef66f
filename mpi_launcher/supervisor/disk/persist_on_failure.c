/* SPDX-License-Identifier: Apache-2.0 */
/* Before a requeue the nodes that are left write what they hold to files, and make of
 * parity what none of them has.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/manifest/manifest.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/copies/orders.h"
#include "mpi_launcher/supervisor/copies/rebuild.h"
#include "mpi_launcher/supervisor/copies/rejected_copies.h"
#include "mpi_launcher/supervisor/copies/transfers.h"
#include "mpi_launcher/supervisor/disk/disk_state.h"
#include "mpi_launcher/supervisor/io/reactor.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/planning/planning.h"
#include "mpi_launcher/supervisor/planning/version_json.h"
#include "mpi_launcher/supervisor/versions/versions.h"

void dlr_sup_write_rebuilt(struct dlr_sup_disk *disk, const struct dlr_transfer *made)
{
    struct dlr_transfer was = *made, *t;

    t = dlr_sup_add_transfer(disk->env.copies, was.rank, was.to, was.to, true);
    if (!t)
        return;
    memcpy(t->path, was.path, sizeof(t->path));
    t->started = t->waits = true;
}

/* Where a rank's bytes go. */
static int choose_path(const struct dlr_sup_disk *disk, const char *dir,
                       struct dlr_transfer *t)
{
    char kind = t->rebuild ? DLR_PERSIST_MADE : DLR_PERSIST_HELD;

    return dlr_persist_path(dir, t->alone ? DLR_PERSIST_ALONE : kind,
                            t->alone ? t->rank : t->to, &disk->persist.write, t->path,
                            sizeof(t->path));
}

void dlr_sup_write_rank(struct dlr_sup_disk *disk, const struct dlr_plan *plan,
                        const char *dir, unsigned rank)
{
    struct dlr_sup_copies *copies = disk->env.copies;
    const struct dlr_plan_source *src = &plan->sources[rank];
    struct dlr_transfer *t;
    int holder;

    /* A manifest names files of its own directory. The requeued job finds others where
     * this one has.
     */
    if (src->from == DLR_PLAN_FILE && dlr_below(src->where, dir))
        return;
    if (src->from == DLR_PLAN_FILE) {
        dlr_sup_transfers_fail(copies, -EXDEV, "rank %u's is in '%.160s' still", rank,
                               src->where);
        return;
    }
    if (src->from == DLR_PLAN_PARITY) {
        t = dlr_sup_transfer(copies, dlr_sup_rebuild_anywhere(copies, plan, rank));
    } else {
        holder = dlr_members_find(disk->members, src->where);
        t = dlr_sup_add_transfer(copies, rank, holder, holder, true);
        if (t)
            t->started = t->waits = true;
    }
    if (!t || choose_path(disk, dir, t) < 0) {
        /* a manifest must not name a file that nobody writes */
        dlr_sup_transfers_fail(copies, -EIO, "rank %u's copy: nobody can write it",
                               rank);
        if (t)
            t->ended = true;
    }
}

/* All that a node is to write, in one order. */
static void ask_node(struct dlr_sup_disk *disk, unsigned node)
{
    const struct dlr_sup_transfers *all = dlr_sup_transfers(disk->env.copies);
    json_t *msg = NULL, *with = json_array();

    for (unsigned i = 0; i < all->n; i++) {
        struct dlr_transfer *t = &all->list[i];

        if (!t->waits || t->ended || t->to != node)
            continue;
        t->waits = false;
        if (msg) {
            json_array_append_new(with,
                                  json_pack("[i, I]", (int)t->rank, (json_int_t)t->id));
            continue;
        }
        msg = dlr_sup_order(disk->env.copies, t, "persist");
        json_object_set_new(msg, "path", json_string(t->path));
    }
    if (msg && json_array_size(with) > 0)
        json_object_set(msg, "with", with);
    json_decref(with);
    if (msg)
        dlr_sup_send(disk->env.nodes, node, msg);
}

void dlr_sup_write_nodes(struct dlr_sup_disk *disk)
{
    for (unsigned node = 0; node < disk->members->n; node++)
        ask_node(disk, node);
}

/* All nodes at once: they make theirs at the same time, and without the last one there
 * is no manifest.
 */
void dlr_sup_write_made(struct dlr_sup_disk *disk)
{
    const struct dlr_sup_transfers *all = dlr_sup_transfers(disk->env.copies);
    bool any = false;

    for (unsigned i = 0; i < all->n; i++) {
        const struct dlr_transfer *t = &all->list[i];

        if (t->rebuild && !t->ended)
            return;
        any = any || (t->waits && !t->ended);
    }
    if (any)
        dlr_sup_write_nodes(disk);
}

int dlr_sup_written(struct dlr_sup_disk *disk, struct dlr_transfer *t, int rc,
                    const char *said)
{
    char dir[DLR_RUN_PATH + 32];

    if (rc == 0)
        return dlr_slice_parse(said, &t->slice);
    if (rc != -EFBIG || t->alone || t->ended)
        return rc;
    t->alone = true;
    dlr_sup_persist_dir(disk, dir, sizeof(dir));
    choose_path(disk, dir, t);
    dlr_sup_ask(disk->env.copies, t, "persist", t->to, "path", t->path);
    return -EINPROGRESS;
}

/* Only what is newer than the disk's, where the disk may be written. */
bool dlr_sup_unwritten(const struct dlr_sup_disk *disk)
{
    const struct dlr_job_config *conf = disk->env.conf;
    struct dlr_version newest, written;

    if (!conf->checkpoint || !dlr_policy_alive(disk->policy) ||
        !dlr_sup_newest(disk->env.versions, &newest) ||
        (!conf->persist_every.steps && !conf->persist_every.ms))
        return false;
    return !dlr_sup_disk_newest(disk, &written) || dlr_version_cmp(newest, written) > 0;
}

void dlr_sup_persist(struct dlr_sup_disk *disk)
{
    disk->persist.begun_ms = dlr_sup_now();
    dlr_sup_transfers_clear(disk->env.copies);
    /* For a requeue always: nothing else is left of the run then. */
    if (dlr_policy_has_sigterm(disk->policy)
            ? dlr_sup_unwritten(disk)
            : disk->env.conf->checkpoint && dlr_policy_alive(disk->policy))
        dlr_sup_gather(disk->env.planning);
    else
        disk->persist.none = true;
}

bool dlr_sup_is_persisting(const struct dlr_sup_disk *disk)
{
    return disk->persist.writes;
}

void dlr_sup_persist_drop(struct dlr_sup_disk *disk)
{
    if (!disk->persist.writes)
        return; /* nothing is open, or a manifest is, which tells of what it names */
    disk->persist.writes = false;
    dlr_plan_done(&disk->persist.plan);
}

static void write_plan(struct dlr_sup_disk *disk, const struct dlr_plan *plan,
                       const char *dir)
{
    struct dlr_sup_persist *p = &disk->persist;

    dlr_sup_file_do(disk->env.io, dlr_sup_file_mkdirs, dir, NULL); /* who writes says */
    dlr_sup_transfers(disk->env.copies)->version = plan->version;
    p->write = (struct dlr_persist_write){plan->version, dlr_persist_tag()};
    p->writes = true;
    for (unsigned r = 0; r < plan->made_by; r++)
        dlr_sup_write_rank(disk, plan, dir, r);
    dlr_sup_write_nodes(disk);
    p->plan = *plan;
}

void dlr_sup_persist_reports(struct dlr_sup_disk *disk,
                             const struct dlr_plan_report *reports, unsigned n)
{
    struct dlr_plan_want want = {0};
    struct dlr_plan plan = {0};
    char dir[DLR_RUN_PATH + 32];
    struct dlr_err err;

    dlr_sup_want_places(disk->env.planning, &want);
    want.rejected = dlr_sup_struck(disk->env.copies, &want.nrejected);
    want.files = disk->files;
    want.nfiles = disk->nfiles;
    want.has_committed = dlr_sup_newest(disk->env.versions, &want.committed);
    dlr_sup_persist_dir(disk, dir, sizeof(dir));
    if (dlr_plan_restorable(reports, n, &want, &plan, &err) >= 0 && plan.restore) {
        write_plan(disk, &plan, dir);
        return;
    }
    dlr_journal_note(dlr_sup_journal(disk->env.io), "persist", "s:n,s:i,s:s", "version",
                     "files", 0, "why",
                     "no version is whole on the nodes that are left");
    dlr_user_line(disk->env.io, "no checkpoint is whole on the nodes that are left");
    disk->persist.none = true;
    dlr_plan_done(&plan);
}

/* --- the manifest ----------------------------------------------------------------- */

static int save(void *arg, int *none)
{
    struct dlr_sup_manifest *m = arg;
    int rc = dlr_mkdirs(m->dir, 0700, &m->err);

    return rc < 0 ? rc : dlr_sup_manifest_save(m);
}

static void tell(struct dlr_sup_disk *disk, int rc, unsigned files, const char *dir,
                 const char *why)
{
    const struct dlr_plan *plan = &disk->persist.plan;

    dlr_journal_note(
        dlr_sup_journal(disk->env.io), "persist", "s:o,s:i,s:I,s:s", "version",
        dlr_sup_version(rc < 0 ? NULL : &plan->version), "files", (int)files, "took_ms",
        (json_int_t)(dlr_sup_now() - disk->persist.begun_ms), "why", rc < 0 ? why : "");
    if (rc < 0)
        dlr_user_line(disk->env.io, "the checkpoint is not written: %s", why);
    else
        dlr_user_line(disk->env.io, "version %u/%llu of %u ranks is written to %s",
                      plan->version.round, (unsigned long long)plan->version.step,
                      plan->made_by, dir);
    dlr_plan_done(&disk->persist.plan);
}

/* What was there before is in the files of another write. */
static void add_former(const struct dlr_sup_disk *disk, struct dlr_sup_manifest *m)
{
    const struct dlr_plan *plan = &disk->persist.plan;

    for (unsigned i = 0; i < disk->nfiles; i++) {
        const struct dlr_plan_file *f = &disk->files[i];
        unsigned r = (unsigned)f->copy.rank;

        if (r < m->world && dlr_version_eq(f->copy.version, plan->version) &&
            plan->sources[r].from == DLR_PLAN_FILE &&
            dlr_streq(f->path, plan->sources[r].where))
            m->files[r] = *f;
    }
}

static void add_written(const struct dlr_sup_disk *disk, struct dlr_sup_manifest *m)
{
    const struct dlr_sup_transfers *all = dlr_sup_transfers(disk->env.copies);

    for (unsigned i = 0; i < all->n; i++) {
        const struct dlr_transfer *t = &all->list[i];

        if (t->rank >= m->world || t->rebuild || !t->path[0])
            continue;
        dlr_sup_manifest_set(m, t->rank, disk->persist.plan.version, &t->slice);
        dlr_format(m->files[t->rank].path, sizeof(m->files->path), "%s", t->path);
    }
}

static int is_done(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup_disk *disk = arg;
    struct dlr_sup_manifest *m = dlr_offload_arg(disk->persist.manifest);
    int rc, none;

    dlr_sup_unwatch(disk->env.io, item->fd);
    if (dlr_offload_end(disk->persist.manifest, &rc, &none) < 0)
        return 0;
    tell(disk, rc, m->count, m->dir, m->err.text[0] ? m->err.text : strerror(-rc));
    if (rc == 0)
        dlr_sup_disk_unread(disk, m->err.text);
    disk->persist.manifest = dlr_offload_free(disk->persist.manifest);
    disk->ops->persisted(disk->arg);
    return disk->ops->over(disk->arg) ? -1 : 0;
}

static int start_manifest(struct dlr_sup_disk *disk)
{
    struct dlr_offload *a = dlr_sup_manifest_new(disk, disk->persist.plan.made_by);
    int rc = -ENOMEM;

    if (a) {
        add_former(disk, dlr_offload_arg(a));
        add_written(disk, dlr_offload_arg(a));
        rc = dlr_offload_start(a, dlr_sup_fork_server(disk->env.io), save, -1);
    }
    if (rc < 0) {
        dlr_offload_free(a);
        return rc;
    }
    disk->persist.manifest = a;
    dlr_sup_watch(disk->env.io, dlr_offload_fd(a), is_done, disk);
    return 0;
}

static void write_manifest(struct dlr_sup_disk *disk)
{
    const struct dlr_sup_transfers *all = dlr_sup_transfers(disk->env.copies);
    const char *why = all->why;
    int rc = all->rc;

    disk->persist.writes = false;
    if (rc == 0 && all->moved) {
        rc = start_manifest(disk);
        if (rc == 0)
            return;
        why = strerror(-rc);
    }
    tell(disk, rc, 0, disk->env.info->dir, why);
    disk->ops->persisted(disk->arg);
}

bool dlr_sup_persist_check(struct dlr_sup_disk *disk)
{
    bool none = disk->persist.none;

    disk->persist.none = false;
    if (none)
        disk->ops->persisted(disk->arg);
    if (none || !disk->persist.writes)
        return none;
    dlr_sup_write_made(disk);
    if (dlr_sup_transfers_ended(disk->env.copies))
        write_manifest(disk);
    return false;
}
