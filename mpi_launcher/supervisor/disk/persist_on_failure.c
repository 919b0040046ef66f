/* SPDX-License-Identifier: Apache-2.0 */
/* Before a requeue the nodes that are left write what they hold to files, and make of parity what
 * none of them has.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/manifest/manifest.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/disk/persist_periodic.h"
#include "mpi_launcher/supervisor/supervisor.h"

void dlr_sup_write_rebuilt(struct dlr_sup *s, const struct dlr_transfer *made)
{
    struct dlr_transfer was = *made, *t;

    t = dlr_sup_add_transfer(s, was.rank, was.to, was.to, true);
    if (!t)
        return;
    memcpy(t->path, was.path, sizeof(t->path));
    t->started = t->waits = true;
}

/* Where a rank's bytes go. */
static int choose_path(const struct dlr_sup *s, const char *dir, struct dlr_transfer *t)
{
    char kind = t->rebuild ? DLR_PERSIST_MADE : DLR_PERSIST_HELD;

    return dlr_persist_path(dir, t->alone ? DLR_PERSIST_ALONE : kind,
                            t->alone ? t->rank : t->to, &s->persist_write, t->path,
                            sizeof(t->path));
}

void dlr_sup_write_rank(struct dlr_sup *s, const struct dlr_plan *plan, const char *dir,
                        unsigned rank)
{
    const struct dlr_plan_source *src = &plan->sources[rank];
    struct dlr_transfer *t;
    int holder;

    /* A manifest names files of its own directory. The requeued job finds others where this one has. */
    if (src->from == DLR_PLAN_FILE && dlr_below(src->where, dir))
        return;
    if (src->from == DLR_PLAN_FILE) {
        s->transfer_rc = -EXDEV;
        snprintf(s->transfer_why, sizeof(s->transfer_why),
                 "rank %u's is in '%.160s' still", rank, src->where);
        return;
    }
    if (src->from == DLR_PLAN_PARITY) {
        t = dlr_sup_transfer(s, dlr_sup_rebuild_anywhere(s, plan, rank));
    } else {
        holder = dlr_members_find(s->members, src->where);
        t = dlr_sup_add_transfer(s, rank, holder, holder, true);
        if (t)
            t->started = t->waits = true;
    }
    if (!t || choose_path(s, dir, t) < 0) {
        s->transfer_rc = -EIO; /* a manifest must not name a file that nobody writes */
        snprintf(s->transfer_why, sizeof(s->transfer_why),
                 "rank %u's copy: nobody can write it", rank);
        if (t)
            t->ended = true;
    }
}

/* All that a node is to write, in one order. */
static void ask_node(struct dlr_sup *s, unsigned node)
{
    json_t *msg = NULL, *with = json_array();

    for (unsigned i = 0; i < s->ntransfers; i++) {
        struct dlr_transfer *t = &s->transfers[i];

        if (!t->waits || t->ended || t->to != node)
            continue;
        t->waits = false;
        if (msg) {
            json_array_append_new(with,
                                  json_pack("[i, I]", (int)t->rank, (json_int_t)t->id));
            continue;
        }
        msg = dlr_sup_order(s, t, "persist");
        json_object_set_new(msg, "path", json_string(t->path));
    }
    if (msg && json_array_size(with) > 0)
        json_object_set(msg, "with", with);
    json_decref(with);
    if (msg)
        dlr_sup_send(s->nodes, node, msg);
}

void dlr_sup_write_nodes(struct dlr_sup *s)
{
    for (unsigned node = 0; node < s->members->n; node++)
        ask_node(s, node);
}

/* All nodes at once: they make theirs at the same time, and without the last one there is no manifest. */
void dlr_sup_write_made(struct dlr_sup *s)
{
    bool any = false;

    for (unsigned i = 0; i < s->ntransfers; i++) {
        const struct dlr_transfer *t = &s->transfers[i];

        if (t->rebuild && !t->ended)
            return;
        any = any || (t->waits && !t->ended);
    }
    if (any)
        dlr_sup_write_nodes(s);
}

int dlr_sup_written(struct dlr_sup *s, struct dlr_transfer *t, int rc, const char *said)
{
    char dir[DLR_RUN_PATH + 32];

    if (rc == 0)
        return dlr_slice_parse(said, &t->slice);
    if (rc != -EFBIG || t->alone || t->ended)
        return rc;
    t->alone = true;
    dlr_sup_persist_dir(s, dir, sizeof(dir));
    choose_path(s, dir, t);
    dlr_sup_ask(s, t, "persist", t->to, "path", t->path);
    return -EINPROGRESS;
}

/* Only what is newer than the disk's, where the disk may be written. */
bool dlr_sup_unwritten(void *arg)
{
    const struct dlr_sup *s = arg;
    struct dlr_version newest, disk;

    if (!s->conf.checkpoint || !dlr_policy_alive(s->policy) ||
        !dlr_sup_newest(s->versions, &newest) ||
        (!s->conf.persist_every.steps && !s->conf.persist_every.ms))
        return false;
    disk = s->nfiles ? s->files[0].copy.version : (struct dlr_version){0};
    return !s->nfiles || dlr_version_cmp(newest, disk) > 0;
}

void dlr_sup_persist(void *arg)
{
    struct dlr_sup *s = arg;

    dlr_sup_periodic_stop(s);
    dlr_sup_again_stop(s);
    dlr_sup_tell_failure(s->rounds);
    dlr_sup_tell_cleared(s->rounds);
    s->phase_ms = dlr_sup_now();
    dlr_sup_transfers_clear(s);
    /* For a requeue always: nothing else is left of the run then. */
    if (dlr_policy_is_told(s->policy)
            ? dlr_sup_unwritten(s)
            : s->conf.checkpoint && dlr_policy_alive(s->policy))
        dlr_sup_gather(s->planning);
    else
        s->persist_done = true;
}

void dlr_sup_persist_reports(struct dlr_sup *s, const struct dlr_plan_report *reports,
                             unsigned n)
{
    struct dlr_plan_want want = {.files = s->files,
                                 .nfiles = s->nfiles,
                                 .struck = s->struck,
                                 .nstruck = s->nstruck};
    struct dlr_plan plan = {0};
    char dir[DLR_RUN_PATH + 32];
    struct dlr_err err;

    dlr_sup_want_places(s->planning, &want);
    dlr_sup_persist_dir(s, dir, sizeof(dir));
    want.has_committed = dlr_sup_newest(s->versions, &want.committed);
    if (dlr_plan_restorable(reports, n, &want, &plan, &err) < 0 || !plan.restore) {
        dlr_journal_note(dlr_sup_journal(s->io), "persist", "s:n,s:i,s:s", "version",
                         "files", 0, "why",
                         "no version is whole on the nodes that are left");
        dlr_sup_say(s->io, "no checkpoint is whole on the nodes that are left");
        s->persist_done = true;
    } else {
        dlr_sup_file_do(s->io, dlr_sup_file_mkdirs, dir,
                        NULL); /* who writes will say */
        s->transfer_version = plan.version;
        s->persist_write = (struct dlr_persist_write){plan.version, dlr_persist_tag()};
        s->persisting = true;
        for (unsigned r = 0; r < plan.made_by; r++)
            dlr_sup_write_rank(s, &plan, dir, r);
        dlr_sup_write_nodes(s);
        s->persist_plan = plan;
        memset(&plan, 0, sizeof(plan));
    }
    dlr_plan_done(&plan);
}
