/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/persist/bulk_write.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"

#define PIECE (4u << 20)  /* bytes of one write without a limit */
#define PIECES_A_SECOND 8 /* with a limit: so often it is looked at again */
#define THREADS 4         /* writes in flight without a limit */
#define THREADS_MAX 16
#define NS 1000000000ll

struct writer {
    const struct dlr_bulk_write_write *bulk;
    const char *name;
    int fd;
    atomic_bool direct; /* past the page cache, until the file system refuses */
    uint64_t piece;
    int64_t begin_ns;
    _Atomic uint64_t next; /* first piece that nobody writes yet */
    atomic_int rc;         /* the first failure, */
    struct dlr_err err;    /* whose text is written by who sets rc */
};

static uint64_t round_up(uint64_t n)
{
    return (n + DLR_BULK_WRITE_ALIGN - 1) / DLR_BULK_WRITE_ALIGN * DLR_BULK_WRITE_ALIGN;
}

static void set_direct(struct writer *w, bool on)
{
    int flags = fcntl(w->fd, F_GETFL);

    if (flags < 0 ||
        fcntl(w->fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) < 0)
        on = false;
    atomic_store(&w->direct, on);
}

/* Waits until the bytes before at would have been written at the rate that is allowed:
 * time itself is what is waited for, in short parts, since hurry may come meanwhile.
 */
static void pace(const struct writer *w, uint64_t at)
{
    const struct dlr_bulk_write_write *b = w->bulk;
    int64_t due;

    if (!b->rate)
        return;
    due = w->begin_ns + (int64_t)((double)at / (double)b->rate * NS);
    while (!b->hurry || !atomic_load(b->hurry)) {
        int64_t left = due - dlr_now_ns();
        struct timespec part = {.tv_nsec = NS / PIECES_A_SECOND};

        if (left <= 0)
            return;
        if (left < part.tv_nsec)
            part.tv_nsec = left;
        nanosleep(&part, NULL);
    }
}

/* How much of n bytes counts as written; 0: not past the page cache, it is to be tried
 * again.
 */
static uint64_t counted(struct writer *w, bool direct, ssize_t n)
{
    uint64_t whole =
        direct && n > 0 ? (uint64_t)n / DLR_BULK_WRITE_ALIGN * DLR_BULK_WRITE_ALIGN : 0;

    if (!direct)
        return (uint64_t)n;
    if (whole == 0)
        set_direct(w, false);
    return whole;
}

/* Past the page cache whole blocks are written: what is too much is cut off at the end.
 */
static int write_piece(struct writer *w, const char *from, uint64_t at, uint64_t end)
{
    while (at < end) {
        bool direct = atomic_load(&w->direct);
        uint64_t bytes = direct ? round_up(end - at) : end - at;
        ssize_t n = pwrite(w->fd, from, bytes, (off_t)at);
        uint64_t done;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && !(direct && errno == EINVAL))
            return -errno;
        if (n == 0)
            return -EIO;
        done = counted(w, direct, n);
        from += done;
        at += done;
    }
    return 0;
}

/* The first failure is the one that is told. */
static void fail(struct writer *w, int rc, const struct dlr_err *why)
{
    int none = 0;

    if (!atomic_compare_exchange_strong(&w->rc, &none, rc))
        return;
    if (why)
        w->err = *why;
    else
        dlr_fail(&w->err, rc, "cannot write '%s': %s", w->name, strerror(-rc));
}

/* One piece: bytes [from, to) of a part, in the file and among all bytes that are
 * written.
 */
struct piece {
    const struct dlr_bulk_write_part *part;
    uint64_t from, to, at, before;
};

static uint64_t pieces(const struct writer *w, const struct dlr_bulk_write_part *part)
{
    return (part->bytes + w->piece - 1) / w->piece;
}

/* Piece k of them all; false when there are not so many. */
static bool find_piece(const struct writer *w, uint64_t k, struct piece *ret)
{
    const struct dlr_bulk_write_write *b = w->bulk;
    uint64_t at = b->head_bytes, before = 0, n;

    for (unsigned i = 0; i < b->nparts; i++, k -= n) {
        const struct dlr_bulk_write_part *part = &b->parts[i];

        n = pieces(w, part);
        if (k < n) {
            uint64_t from = k * w->piece, left = part->bytes - from;

            *ret =
                (struct piece){part, from, from + (left < w->piece ? left : w->piece),
                               at + from, before + from};
            return true;
        }
        at += round_up(part->bytes);
        before += part->bytes;
    }
    return false;
}

/* The last block of a part, or what there is of it: what is written past the page cache
 * is filled up with zeros, not with what lies behind the part in memory.
 */
static int write_rest(struct writer *w, const char *from, uint64_t at, uint64_t end)
{
    _Alignas(DLR_BULK_WRITE_ALIGN) char block[DLR_BULK_WRITE_ALIGN] = {0};

    memcpy(block, from, end - at);
    return write_piece(w, block, at, end);
}

static void write_body(struct writer *w, const struct piece *p)
{
    const struct dlr_bulk_write_write *b = w->bulk;
    const char *data = (const char *)p->part->data + p->from;
    uint64_t end = p->at + (p->to - p->from);
    uint64_t whole = end - (p->to - p->from) % DLR_BULK_WRITE_ALIGN;
    struct dlr_err err;
    int rc = b->check ? b->check(p->part->arg, p->from, p->to, &err) : 0;

    if (rc < 0) {
        fail(w, rc, &err);
        return;
    }
    rc = write_piece(w, data, p->at, whole);
    if (rc == 0 && whole < end)
        rc = write_rest(w, data + (whole - p->at), whole, end);
    if (rc < 0)
        fail(w, rc, NULL);
    else if (!atomic_load(
                 &w->direct)) /* the disk begins now; the sync has less to do */
        sync_file_range(w->fd, (off_t)p->at, (off_t)(end - p->at),
                        SYNC_FILE_RANGE_WRITE);
}

static void *work(void *arg)
{
    struct writer *w = arg;
    struct piece p;

    while (atomic_load(&w->rc) == 0 &&
           find_piece(w, atomic_fetch_add(&w->next, 1), &p)) {
        pace(w, p.before);
        write_body(w, &p);
    }
    return NULL;
}

static void write_all(struct writer *w)
{
    unsigned want = w->bulk->threads, n = 0;
    pthread_t threads[THREADS_MAX];
    struct piece p;
    int rc;

    if (want == 0)
        want = w->bulk->rate ? 1 : THREADS;
    if (want > THREADS_MAX)
        want = THREADS_MAX;
    while (n + 1 < want && find_piece(w, n + 1, &p) &&
           pthread_create(&threads[n], NULL, work, w) == 0)
        n++;
    rc = write_piece(w, w->bulk->head, 0, w->bulk->head_bytes);
    if (rc < 0)
        fail(w, rc, NULL);
    work(w);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

static bool is_aligned(const struct dlr_bulk_write_write *b)
{
    uintptr_t all = (uintptr_t)b->head | b->head_bytes;

    for (unsigned i = 0; i < b->nparts; i++)
        all |= (uintptr_t)b->parts[i].data;
    return all % DLR_BULK_WRITE_ALIGN == 0;
}

static uint64_t piece_of(const struct dlr_bulk_write_write *b)
{
    uint64_t unit = b->unit ? b->unit : DLR_BULK_WRITE_ALIGN,
             n = b->rate / PIECES_A_SECOND;

    if (!b->rate || n > PIECE)
        return PIECE;
    return n > unit ? n / unit * unit : unit;
}

uint64_t dlr_bulk_write_bytes(const struct dlr_bulk_write_write *bulk)
{
    uint64_t end = bulk->head_bytes, at = end;

    for (unsigned i = 0; i < bulk->nparts; i++) {
        end = at + bulk->parts[i].bytes;
        at += round_up(bulk->parts[i].bytes);
    }
    return end;
}

static int fill(int fd, const char *name, void *arg, struct dlr_err *err)
{
    const struct dlr_bulk_write_write *b = arg;
    struct writer w = {.bulk = b, .name = name, .fd = fd, .piece = piece_of(b)};
    uint64_t bytes = dlr_bulk_write_bytes(b);
    int rc = 0;

    if (bytes > 0 && fallocate(fd, 0, 0, (off_t)bytes) < 0 && errno != EOPNOTSUPP &&
        errno != ENOSYS)
        rc = -errno;
    if (rc == 0 && is_aligned(b))
        set_direct(&w, true);
    w.begin_ns = dlr_now_ns();
    if (rc == 0)
        write_all(&w);
    else
        fail(&w, rc, NULL);
    rc = atomic_load(&w.rc);
    if (rc == 0 && (bytes % DLR_BULK_WRITE_ALIGN || b->nparts > 1 || b->over) &&
        ftruncate(fd, (off_t)bytes) < 0) {
        rc = -errno;
        fail(&w, rc, NULL);
    }
    return rc < 0 ? dlr_fail(err, rc, "%s", w.err.text) : 0;
}

int dlr_bulk_write_replace(int dirfd, const char *path, mode_t mode,
                           const struct dlr_bulk_write_write *bulk, struct dlr_err *err)
{
    return dlr_file_replace_over(dirfd, path, mode, bulk->over, fill, (void *)bulk,
                                 err);
}
