/* SPDX-License-Identifier: Apache-2.0 */
/* What blocks: reserving memory, reading a slot of a file. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/base/crc32c.h"
#include "ckpt/persist/slot_file.h"
#include "ckpt/slot/meta.h"
#include "ckpt/slot/store.h"
#include "ckpt/stream/state.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"

struct reserve {
    struct dlr_job job;
    struct dlr_data *d;
    int32_t rank;
    uint64_t bytes;
    unsigned first, n;
    bool make[DLR_LOCAL_FDS], old[DLR_LOCAL_FDS];
    struct dlr_slot *made[DLR_LOCAL_FDS];
};

static int run_reserve(struct dlr_job *job, struct dlr_err *err)
{
    struct reserve *r = (struct reserve *)job;
    char name[32];
    int rc = 0;

    for (unsigned k = 0; k < r->n && rc == 0; k++) {
        if (!r->make[k])
            continue;
        rc = dlr_store_name(r->rank, r->first + k, name, sizeof(name));
        if (rc == 0)
            rc = dlr_slot_create(r->d->dir, name, r->bytes, &r->made[k], err);
    }
    return rc;
}

static void tell_reserved(struct dlr_data *d, const struct reserve *r, int rc,
                          const char *why)
{
    struct dlr_local_msg msg;
    int fds[DLR_LOCAL_FDS];

    dlr_local_init(&msg, DLR_LOCAL_D_RESERVED);
    msg.round = d->round;
    msg.rank = r->rank;
    msg.arg[2] = r->first;
    if (rc < 0) {
        msg.arg[1] = (uint64_t)-rc;
        dlr_local_text(&msg, "%s", why);
        dlr_stream_send_agent(d, &msg, NULL, 0);
        return;
    }
    for (unsigned k = 0; k < r->n; k++) {
        const struct dlr_slot_table_slot *held =
            dlr_slot_table_find(&d->held, r->rank, r->first + k);

        if (!held) {
            tell_reserved(d, r, -ESTALE, "a slot was removed meanwhile");
            return;
        }
        fds[k] = held->fd;
    }
    msg.arg[0] = r->n;
    dlr_stream_send_agent(d, &msg, fds, r->n);
}

/* Takes over what was made. After a failure nothing new stays behind. */
static void reserve_done(struct dlr_job *job)
{
    struct reserve *r = (struct reserve *)job;
    struct dlr_data *d = r->d;
    int rc = job->rc;
    char name[32];

    for (unsigned k = 0; k < r->n; k++) {
        if (!r->made[k])
            continue;
        if (job->rc < 0 && !r->old[k]) {
            dlr_slot_unmap(r->made[k]);
            if (dlr_store_name(r->rank, r->first + k, name, sizeof(name)) == 0)
                unlinkat(d->dir, name, 0);
        } else if (dlr_slot_table_add(&d->held, r->rank, r->first + k, r->made[k]) <
                   0) {
            rc = rc < 0 ? rc : -ENOMEM;
        }
    }
    tell_reserved(d, r, rc, job->rc < 0 ? job->err.text : "no memory");
    free(r);
    dlr_slot_table_freed(&d->held);
}

void dlr_data_reserve(struct dlr_data *d, int32_t rank, uint64_t bytes, unsigned first,
                      unsigned slots)
{
    struct reserve *r = calloc(1, sizeof(*r)), none = {.rank = rank, .first = first};
    bool any = false;

    if (!r || d->dir < 0 || rank < 0 || !slots || slots > DLR_LOCAL_FDS) {
        tell_reserved(d, &none, r ? -EINVAL : -ENOMEM, "cannot reserve that");
        free(r);
        return;
    }
    *r = (struct reserve){.job = {.run = run_reserve, .done = reserve_done}, .d = d};
    r->rank = rank;
    r->bytes = dlr_align_up(bytes, DLR_SLOT_PAGE);
    r->first = first;
    r->n = slots;
    for (unsigned k = 0; k < slots; k++) {
        const struct dlr_slot_table_slot *held =
            dlr_slot_table_find(&d->held, rank, first + k);

        r->old[k] = held != NULL;
        r->make[k] = !held || dlr_slot_bytes(held->slot) < bytes;
        any = any || r->make[k];
    }
    if (any) {
        dlr_work_add(d->work, &r->job);
        return;
    }
    tell_reserved(d, r, 0, "");
    free(r);
}

struct file_job {
    struct dlr_job job;
    struct dlr_data *d;
    struct dlr_version version;
    int32_t rank;
    uint64_t id, key;
    struct dlr_slot_table_slot *held;
    bool have;  /* what is here already is only verified */
    bool adopt; /* of another run */
    char path[DLR_LOCAL_TEXT];
};

static void end_file(struct file_job *f, int rc, const char *why)
{
    dlr_data_done(f->d, f->rank, f->version, f->id, rc, why);
    free(f);
}

static void file_done(struct dlr_job *job)
{
    struct file_job *f = (struct file_job *)job;
    struct dlr_data *d = f->d;
    int rc = job->rc;

    if (f->have)
        dlr_slot_table_read_done(f->held);
    else if (!dlr_slot_table_write_done(&d->held, f->held, rc == 0) && rc == 0)
        rc = -ECANCELED;
    end_file(f, rc, job->rc < 0 ? job->err.text : rc < 0 ? "dropped meanwhile" : "");
    dlr_slot_table_freed(&d->held);
}

static int check_file(const struct file_job *f, const struct dlr_slot *from,
                      uint32_t *ret_blocks, struct dlr_err *err)
{
    struct dlr_slot_info info;
    int rc = dlr_slot_info(from, &info);

    if (rc < 0)
        return dlr_fail(err, rc, "'%s' has a corrupt head", f->path);
    *ret_blocks = info.nblocks;
    if ((info.key != f->key && !f->adopt) || info.rank != f->rank ||
        !dlr_version_eq(info.version, f->version))
        return dlr_fail(err, -EBADMSG,
                        "'%s' is rank %d round %u step %" PRIu64 " of %s run", f->path,
                        info.rank, info.version.round, info.version.step,
                        info.key == f->key ? "this" : "another");
    return 0;
}

/* The block as it is in the file, but of this run. */
static int put_meta(const struct file_job *f, const struct dlr_slot *from,
                    struct dlr_err *err)
{
    DLR_AUTO_FREE void *own = NULL;
    const void *meta;
    size_t bytes;

    dlr_slot_meta(from, &meta, &bytes);
    if (!f->adopt)
        return dlr_slot_put_meta(f->held->slot, meta, bytes, err);
    own = malloc(bytes ? bytes : 1);
    if (!own || bytes < sizeof(struct dlr_meta_head) + sizeof(uint32_t))
        return dlr_fail(err, own ? -EBADMSG : -ENOMEM, "no meta block, or no memory");
    memcpy(own, meta, bytes);
    dlr_slot_rekey(own, bytes, f->key, NULL);
    return dlr_slot_put_meta(f->held->slot, own, bytes, err);
}

/* Copies block by block and checks what arrived, not what was read. */
static int copy_blocks(struct dlr_slot *to, const struct dlr_slot *from, uint32_t n,
                       struct dlr_err *err)
{
    size_t bytes, to_bytes;
    uint32_t crc, to_crc;
    void *src, *dst;
    int rc;

    for (uint32_t i = 0; i < n; i++) {
        rc = dlr_slot_block(from, i, &src, &bytes, &crc);
        if (rc < 0)
            return dlr_fail(err, -EBADMSG, "block %u of %u cannot be read: %s", i, n,
                            strerror(-rc));
        dlr_slot_pass(from, i);
        if (dlr_slot_block(to, i, &dst, &to_bytes, &to_crc) < 0 || to_bytes != bytes)
            return dlr_fail(err, -EBADMSG, "block %u does not fit", i);
        memcpy(dst, src, bytes);
        if (dlr_crc32c(0, dst, bytes) != to_crc)
            return dlr_fail(err, -EBADMSG, "block %u of %u is corrupt", i, n);
    }
    return 0;
}

static int run_load(struct dlr_job *job, struct dlr_err *err)
{
    struct file_job *f = (struct file_job *)job;
    DLR_AUTO_CLOSE int fd = -1;
    struct dlr_slot *from;
    struct dlr_err why;
    uint32_t n = 0;
    int rc;

    if (f->have)
        return dlr_slot_verify(f->held->slot, err);
    fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return dlr_fail(err, -errno, "cannot open '%s': %m", f->path);
    rc = dlr_slot_file_map(fd, f->rank, &from, &why);
    if (rc < 0)
        return dlr_fail(err, rc, "'%s': %s", f->path, why.text);
    rc = check_file(f, from, &n, err);
    if (rc == 0)
        rc = put_meta(f, from, err);
    if (rc == 0)
        rc = copy_blocks(f->held->slot, from, n, err);
    dlr_slot_unmap(from);
    return rc;
}

static struct file_job *new_job(struct dlr_data *d, const struct dlr_local_msg *msg)
{
    struct file_job *f = calloc(1, sizeof(*f));
    struct dlr_version v = {(uint32_t)msg->arg[0], msg->step};

    if (!f) {
        dlr_data_done(d, msg->rank, v, msg->arg[1], -ENOMEM, "out of memory");
        return NULL;
    }
    f->d = d;
    f->version = v;
    f->rank = msg->rank;
    f->id = msg->arg[1];
    f->key = d->key;
    snprintf(f->path, sizeof(f->path), "%s", msg->text);
    f->job.done = file_done;
    f->held = dlr_slot_table_version(&d->held, f->rank, v);
    return f;
}

void dlr_data_load(struct dlr_data *d, const struct dlr_local_msg *msg)
{
    struct file_job *f = new_job(d, msg);

    if (!f)
        return;
    f->adopt = msg->type == DLR_LOCAL_D_ADOPT;
    f->have = f->held != NULL;
    f->job.run = run_load;
    if (!f->have)
        f->held = dlr_slot_table_choose(&d->held, f->rank);
    if (!f->held) {
        end_file(f, -ENOBUFS, "no slot of this rank is free");
        return;
    }
    if (f->have)
        dlr_slot_table_read(f->held);
    else
        dlr_slot_table_write(&d->held, f->held, f->version);
    dlr_work_add(d->work, &f->job);
}
