/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a written checkpoint. It is made durable by a process apart, for as long as that
 * takes: the limit of the phase ends the wait, not the writing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/manifest/manifest.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "mpi_launcher/supervisor/supervisor.h"

struct manifest {
    char dir[DLR_RUN_PATH + 32];
    unsigned keep;
    struct dlr_err err;
    unsigned count; /* of the files, once that is known */
    unsigned n;
    struct dlr_plan_file files[]; /* where each rank's bytes are */
};

static int save(void *arg, int *none)
{
    struct manifest *m = arg;
    int rc = dlr_mkdirs(m->dir, 0700, &m->err);
    uint64_t bytes;

    if (rc >= 0)
        rc = dlr_persist_count(m->files, m->n, &m->count, &bytes, &m->err);
    return rc < 0 ? rc : dlr_persist_save(m->dir, m->files, m->n, m->keep, &m->err);
}

static void tell(struct dlr_sup *s, int rc, unsigned files, const char *dir,
                 const char *why)
{
    const struct dlr_plan *plan = &s->persist_plan;

    dlr_journal_note(dlr_sup_journal(s->io), "persist", "s:o,s:i,s:I,s:s", "version",
                     dlr_sup_version(rc < 0 ? NULL : &plan->version), "files",
                     (int)files, "took_ms", (json_int_t)(dlr_sup_now() - s->phase_ms),
                     "why", rc < 0 ? why : "");
    if (rc < 0)
        dlr_sup_say(s->io, "the checkpoint is not written: %s", why);
    else
        dlr_sup_say(s->io, "version %u/%llu of %u ranks is written to %s",
                    plan->version.round, (unsigned long long)plan->version.step,
                    plan->made_by, dir);
    dlr_plan_done(&s->persist_plan);
}

/* What was there before is in the files of another write. */
static void add_former(const struct dlr_sup *s, struct manifest *m)
{
    for (unsigned i = 0; i < s->nfiles; i++) {
        const struct dlr_plan_file *f = &s->files[i];
        unsigned r = (unsigned)f->copy.rank;

        if (r < m->n && dlr_version_eq(f->copy.version, s->persist_plan.version) &&
            s->persist_plan.sources[r].from == DLR_PLAN_FILE &&
            dlr_streq(f->path, s->persist_plan.sources[r].where))
            m->files[r] = *f;
    }
}

static void add_written(const struct dlr_sup *s, struct manifest *m)
{
    for (unsigned i = 0; i < s->ntransfers; i++) {
        const struct dlr_transfer *t = &s->transfers[i];
        struct dlr_plan_file *f;

        if (t->rank >= m->n || t->rebuild || !t->path[0])
            continue;
        f = &m->files[t->rank];
        f->copy = (struct dlr_plan_copy){.rank = (int32_t)t->rank,
                                         .world = m->n,
                                         .version = s->persist_plan.version,
                                         .bytes = t->slice.room};
        f->slice = t->slice;
        dlr_format(f->path, sizeof(f->path), "%s", t->path);
    }
}

static struct dlr_aside *make(const struct dlr_sup *s)
{
    unsigned n = s->persist_plan.made_by;
    struct dlr_aside *a =
        dlr_aside_new(sizeof(struct manifest) + n * sizeof(struct dlr_plan_file));
    struct manifest *m = a ? dlr_aside_arg(a) : NULL;

    if (!m)
        return NULL;
    dlr_sup_persist_dir(s, m->dir, sizeof(m->dir));
    m->keep = s->conf.persist_keep ? s->conf.persist_keep : 1;
    m->n = n;
    add_former(s, m);
    add_written(s, m);
    return a;
}

static int is_done(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup *s = arg;
    struct manifest *m = dlr_aside_arg(s->manifest);
    int rc, none;

    dlr_sup_unwatch(s->io, item->fd);
    if (dlr_aside_end(s->manifest, &rc, &none) < 0)
        return 0;
    tell(s, rc, m->count, m->dir, m->err.text[0] ? m->err.text : strerror(-rc));
    if (rc == 0)
        dlr_sup_disk_unread(s, m->err.text);
    s->manifest = dlr_aside_free(s->manifest);
    dlr_policy_persisted(s->policy, dlr_sup_now());
    return dlr_sup_is_over(s) ? -1 : 0;
}

void dlr_sup_write_manifest(struct dlr_sup *s)
{
    int rc = s->transfer_rc;

    if (rc == 0 && s->moved) {
        struct dlr_aside *a = make(s);

        rc = a ? dlr_aside_start(a, dlr_sup_apart(s->io), save, -1) : -ENOMEM;
        if (rc == 0) {
            s->manifest = a;
            dlr_sup_watch(s->io, dlr_aside_fd(a), is_done, s);
            return;
        }
        snprintf(s->transfer_why, sizeof(s->transfer_why), "%s", strerror(-rc));
        dlr_aside_free(a);
    }
    tell(s, rc, 0, s->info.dir, s->transfer_why);
    dlr_policy_persisted(s->policy, dlr_sup_now());
}
