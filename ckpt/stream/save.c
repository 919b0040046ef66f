/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of this node to one file of a disk, which may take long: a thread of its own
 * does it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/persist/slot_file.h"
#include "ckpt/stream/state.h"
#include "common/base/str.h"

/* One rank's slot, and what became of it. */
struct part {
    uint64_t id; /* of the request */
    int32_t rank;
    struct dlr_slot_table_slot *held;
    struct dlr_slice slice;
    int rc;
    struct dlr_err err;
};

struct dlr_save {
    struct dlr_job job;
    struct dlr_data *d;
    struct dlr_version version;
    uint64_t rate; /* bytes a second at most; 0: no limit, somebody waits */
    char path[DLR_LOCAL_TEXT];
    struct part *parts; /* [n] */
    unsigned n;
};

static void tell(struct dlr_save *s, const struct part *p)
{
    char slice[DLR_SLICE_TEXT];

    dlr_slice_show(&p->slice, slice);
    dlr_data_done(s->d, p->rank, s->version, p->id, p->rc,
                  p->rc < 0 ? p->err.text : slice);
}

/* Every rank's end is told, and its slot is nobody's any more. */
static void end(struct dlr_save *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        dlr_slot_table_read_done(s->parts[i].held);
        tell(s, &s->parts[i]);
    }
    free(s->parts);
    free(s);
}

static void save_done(struct dlr_job *job)
{
    struct dlr_save *s = (struct dlr_save *)job;
    struct dlr_data *d = s->d;

    if (!s->rate)
        atomic_fetch_sub(&d->urgent, 1);
    end(s);
    dlr_slot_table_freed(&d->held);
}

/* Puts those that are to blame behind the others, of which it returns the number. */
static unsigned set_aside(struct dlr_save *s, const struct dlr_slot_file_part *saved,
                          unsigned n, int rc, const struct dlr_err *why)
{
    unsigned good = n;

    for (unsigned i = n; i-- > 0;) {
        struct part bad = s->parts[i];

        if (!saved[i].bad)
            continue;
        bad.rc = rc;
        bad.err = *why;
        memmove(&s->parts[i], &s->parts[i + 1], (good - 1 - i) * sizeof(s->parts[0]));
        s->parts[--good] = bad;
    }
    return good;
}

static void settle(struct dlr_save *s, const struct dlr_slot_file_part *saved,
                   unsigned n, int rc, const struct dlr_err *why)
{
    for (unsigned i = 0; i < n; i++) {
        s->parts[i].rc = rc;
        if (rc < 0)
            s->parts[i].err = *why;
        else
            s->parts[i].slice = saved[i].slice;
    }
}

/* One corrupt slot must not cost the others their file: it is written again without it.
 */
static int run_save(struct dlr_job *job, struct dlr_err *err)
{
    struct dlr_save *s = (struct dlr_save *)job;
    const struct dlr_slot_file_how how = {
        .check = true, .rate = s->rate, .hurry = &s->d->urgent};
    struct dlr_slot_file_part *saved = calloc(s->n, sizeof(*saved));
    unsigned n = s->n, was;
    int rc = saved ? 0 : dlr_fail(err, -ENOMEM, "out of memory");

    do {
        was = n;
        for (unsigned i = 0; saved && i < n; i++)
            saved[i].slot = s->parts[i].held->slot;
        if (saved && n > 0)
            rc = dlr_slot_file_write(saved, n, AT_FDCWD, s->path, 0600, &how, err);
        if (saved && rc < 0)
            n = set_aside(s, saved, n, rc, err);
    } while (n < was && n > 0);
    settle(s, saved, n, rc, err);
    free(saved);
    return 0; /* each part has its own */
}

static int by_rank(const void *a, const void *b)
{
    const struct part *x = a, *y = b;

    return (x->rank > y->rank) - (x->rank < y->rank);
}

static void start(struct dlr_data *d, struct dlr_save *s)
{
    qsort(s->parts, s->n, sizeof(*s->parts), by_rank);
    if (!s->rate)
        atomic_fetch_add(&d->urgent, 1); /* what is slow before it is no more */
    dlr_work_add(d->save, &s->job);
}

static struct dlr_save *begin(struct dlr_data *d, const struct dlr_local_msg *msg)
{
    struct dlr_save *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->job = (struct dlr_job){.run = run_save, .done = save_done};
    s->d = d;
    s->version = (struct dlr_version){(uint32_t)msg->arg[0], msg->step};
    s->rate = msg->arg[2];
    dlr_format(s->path, sizeof(s->path), "%s", msg->text);
    return s;
}

static int add(struct dlr_save *s, const struct dlr_local_msg *msg,
               const char **ret_why)
{
    struct dlr_slot_table_slot *held =
        dlr_slot_table_version(&s->d->held, msg->rank, s->version);
    struct part *more;

    *ret_why = "this version is not held here";
    if (!held)
        return -ENOENT;
    *ret_why = "out of memory";
    more = realloc(s->parts, (s->n + 1) * sizeof(*more));
    if (!more)
        return -ENOMEM;
    s->parts = more;
    memset(&more[s->n], 0, sizeof(*more));
    more[s->n].id = msg->arg[1];
    more[s->n].rank = msg->rank;
    more[s->n++].held = held;
    dlr_slot_table_read(held);
    return 0;
}

/* The rest of a file's ranks never came. */
static void cut_short(struct dlr_data *d)
{
    struct dlr_save *s = d->gathering;

    d->gathering = NULL;
    for (unsigned i = 0; i < s->n; i++)
        s->parts[i].rc = dlr_fail(&s->parts[i].err, -EPROTO, "the order was cut short");
    end(s);
}

void dlr_data_save(struct dlr_data *d, const struct dlr_local_msg *msg)
{
    struct dlr_version v = {(uint32_t)msg->arg[0], msg->step};
    const char *why = "out of memory";
    struct dlr_save *s;
    int rc = -ENOMEM;

    if (d->gathering && (!dlr_streq(d->gathering->path, msg->text) ||
                         !dlr_version_eq(d->gathering->version, v)))
        cut_short(d);
    s = d->gathering ? d->gathering : begin(d, msg);
    if (s)
        rc = add(s, msg, &why);
    if (rc < 0)
        dlr_data_done(d, msg->rank, v, msg->arg[1], rc, why);
    d->gathering = s;
    if (!s || msg->arg[3] > 0)
        return;
    d->gathering = NULL;
    if (s->n > 0)
        start(d, s);
    else
        end(s);
}
