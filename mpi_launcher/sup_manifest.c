/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a written checkpoint. It is made durable by a thread, for as long as that takes:
 * the limit of the phase ends the wait, not the writing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "mpi_launcher/persist.h"
#include "mpi_launcher/sup.h"

struct dlr_sup_manifest {
    char dir[DLR_RUN_PATH + 32];
    struct dlr_plan_file *files;
    unsigned n, keep;
    struct dlr_err err;
};

static int save(void *arg)
{
    struct dlr_sup_manifest *m = arg;
    int rc = dlr_mkdirs(m->dir, 0700, &m->err);

    return rc < 0 ? rc : dlr_persist_save(m->dir, m->files, m->n, m->keep, &m->err);
}

static void tell(struct dlr_sup *s, int rc, const char *dir, const char *why)
{
    const struct dlr_plan *plan = &s->persist_plan;

    dlr_journal_note(s->journal, "persist", "s:o,s:i,s:I,s:s", "version",
                     dlr_sup_version(rc < 0 ? NULL : &plan->version), "files", s->moved,
                     "took_ms", (json_int_t)(dlr_sup_now() - s->phase_ms), "why",
                     rc < 0 ? why : "");
    if (rc < 0)
        dlr_sup_say(s, "the checkpoint is not written: %s", why);
    else
        dlr_sup_say(s, "version %u/%llu of %u ranks is written to %s",
                    plan->version.round, (unsigned long long)plan->version.step,
                    plan->made_by, dir);
    dlr_plan_done(&s->persist_plan);
}

static struct dlr_sup_manifest *make(const struct dlr_sup *s)
{
    const struct dlr_plan *plan = &s->persist_plan;
    struct dlr_sup_manifest *m = calloc(1, sizeof(*m));

    if (!m)
        return NULL;
    snprintf(m->dir, sizeof(m->dir), "%s/persist", s->info.dir);
    m->n = plan->made_by;
    m->keep = s->conf.persist_keep ? s->conf.persist_keep : 1;
    m->files = calloc(plan->made_by, sizeof(*m->files));
    for (unsigned r = 0; m->files && r < plan->made_by; r++) {
        struct dlr_plan_file *f = &m->files[r];

        f->copy = (struct dlr_plan_copy){.rank = r,
                                         .world = plan->made_by,
                                         .version = plan->version,
                                         .bytes = plan->sources[r].bytes};
        dlr_persist_path(m->dir, r, plan->version, f->path, sizeof(f->path));
    }
    return m;
}

static void drop(struct dlr_sup_manifest *m)
{
    if (m)
        free(m->files);
    free(m);
}

static int is_done(zloop_t *loop, zmq_pollitem_t *item, void *arg)
{
    struct dlr_sup *s = arg;
    struct dlr_sup_manifest *m = s->manifest;
    zmq_pollitem_t ended = *item;
    int rc;

    zloop_poller_end(loop, &ended);
    if (dlr_aside_end(s->manifest_work, &rc) < 0)
        return 0;
    s->manifest_work = NULL;
    s->manifest = NULL;
    tell(s, rc, m->dir, m->err.text);
    drop(m);
    dlr_policy_persisted(s->policy, dlr_sup_now());
    return dlr_sup_is_over(s) ? -1 : 0;
}

void dlr_sup_write_manifest(struct dlr_sup *s)
{
    zmq_pollitem_t item = {.events = ZMQ_POLLIN};
    struct dlr_sup_manifest *m = NULL;
    int rc = s->transfer_rc;

    if (rc == 0 && s->moved) {
        m = make(s);
        rc = !m || !m->files ? -ENOMEM : dlr_aside_start(save, m, &s->manifest_work);
        if (rc == 0) {
            s->manifest = m;
            item.fd = dlr_aside_fd(s->manifest_work);
            zloop_poller(s->loop, &item, is_done, s);
            return;
        }
        snprintf(s->transfer_why, sizeof(s->transfer_why), "%s", strerror(-rc));
        drop(m);
    }
    tell(s, rc, s->info.dir, s->transfer_why);
    dlr_policy_persisted(s->policy, dlr_sup_now());
}
