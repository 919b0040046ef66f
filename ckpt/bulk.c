/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/bulk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"

#define PIECE (4u << 20)     /* bytes of one write without a limit */
#define PIECE_MIN (4u << 10) /* and with one */
#define PIECES_A_SECOND 8    /* with a limit: so often it is looked at again */
#define THREADS 4
#define THREADS_MAX 16
#define VECTOR 64 /* parts of one write */
#define NS 1000000000ll

struct writer {
    const struct dlr_bulk *bulk;
    int fd;
    uint64_t bytes, piece;
    int64_t begin_ns;
    _Atomic uint64_t next; /* first byte that nobody writes yet */
    atomic_int rc;         /* the first failure */
};

/* Waits until the bytes before at would have been written at the rate that is allowed: time
 * itself is what is waited for, in short parts, since hurry may come meanwhile.
 */
static void pace(const struct writer *w, uint64_t at)
{
    const struct dlr_bulk *b = w->bulk;
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

/* What of the parts lies in [at, end), at most VECTOR of them. */
static int slice(const struct dlr_bulk *b, uint64_t at, uint64_t end, struct iovec *ret)
{
    uint64_t from = 0;
    int n = 0;

    for (unsigned i = 0; i < b->nparts && from < end && n < VECTOR; i++) {
        uint64_t to = from + b->parts[i].iov_len;
        uint64_t a = at > from ? at : from, z = end < to ? end : to;

        if (a < z)
            ret[n++] = (struct iovec){(char *)b->parts[i].iov_base + (a - from), z - a};
        from = to;
    }
    return n;
}

static int write_piece(const struct writer *w, uint64_t at, uint64_t end)
{
    while (at < end) {
        struct iovec vector[VECTOR];
        ssize_t n = pwritev(w->fd, vector, slice(w->bulk, at, end, vector), (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -EIO;
        at += (uint64_t)n;
    }
    return 0;
}

static void *work(void *arg)
{
    struct writer *w = arg;

    while (atomic_load(&w->rc) == 0) {
        uint64_t at = atomic_fetch_add(&w->next, w->piece), end = at + w->piece;
        int rc, none = 0;

        if (at >= w->bytes)
            break;
        end = end < w->bytes ? end : w->bytes;
        pace(w, at);
        rc = write_piece(w, at, end);
        if (rc < 0)
            atomic_compare_exchange_strong(&w->rc, &none, rc);
        else /* the disk begins now; the sync at the end has less to do */
            sync_file_range(w->fd, (off_t)at, (off_t)(end - at), SYNC_FILE_RANGE_WRITE);
    }
    return NULL;
}

static int write_all(struct writer *w)
{
    unsigned want = w->bulk->threads, n = 0;
    pthread_t threads[THREADS_MAX];

    if (want == 0)
        want = w->bulk->rate ? 1 : THREADS;
    if (want > THREADS_MAX)
        want = THREADS_MAX;
    while (n + 1 < want && n * w->piece < w->bytes &&
           pthread_create(&threads[n], NULL, work, w) == 0)
        n++;
    work(w);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    return atomic_load(&w->rc);
}

static int fill(int fd, const char *name, void *arg, struct dlr_err *err)
{
    struct writer w = {.bulk = arg, .fd = fd, .piece = PIECE};
    uint64_t rate = w.bulk->rate;
    int rc = 0;

    for (unsigned i = 0; i < w.bulk->nparts; i++)
        w.bytes += w.bulk->parts[i].iov_len;
    if (rate && rate / PIECES_A_SECOND < PIECE)
        w.piece =
            rate / PIECES_A_SECOND > PIECE_MIN ? rate / PIECES_A_SECOND : PIECE_MIN;
    w.begin_ns = dlr_now_ns();
    if (w.bytes > 0 && fallocate(fd, 0, 0, (off_t)w.bytes) < 0 && errno != EOPNOTSUPP &&
        errno != ENOSYS)
        rc = -errno;
    if (rc == 0)
        rc = write_all(&w);
    return rc < 0 ? dlr_fail(err, rc, "cannot write '%s': %s", name, strerror(-rc)) : 0;
}

int dlr_bulk_replace(const char *path, mode_t mode, const struct dlr_bulk *bulk,
                     struct dlr_err *err)
{
    return dlr_file_replace_by(AT_FDCWD, path, mode, fill, (void *)bulk, err);
}
