/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of "FIRST LAST COUNT CHECK VERDICT TEXT", one a line. */
#include "health/history.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"

#define FOLDER "dlrover-health"
#define LINE_MAX_BYTES 512

/* --- rows ------------------------------------------------------------------------- */

static long last_of(const struct dlr_history *h, const char *check)
{
    long i = (long)h->n - 1;

    while (i >= 0 && !dlr_streq(h->rows[i].check, check))
        i--;
    return i;
}

const struct dlr_history_row *dlr_history_last(const struct dlr_history *h,
                                               const char *check)
{
    long i = last_of(h, check);

    return i < 0 ? NULL : &h->rows[i];
}

static void drop(struct dlr_history *h, unsigned i)
{
    memmove(&h->rows[i], &h->rows[i + 1], (h->n - i - 1) * sizeof(h->rows[0]));
    h->n--;
}

/* What has a newer row of its check goes first: the last word on each is kept. */
static void make_room(struct dlr_history *h)
{
    unsigned i = 0;

    while (i < h->n && last_of(h, h->rows[i].check) == (long)i)
        i++;
    drop(h, i < h->n ? i : 0);
}

static void set_text(struct dlr_history_row *row, const char *text)
{
    dlr_format(row->text, sizeof(row->text), "%.*s", (int)sizeof(row->text) - 1, text);
    dlr_plain(row->text);
}

void dlr_history_add(struct dlr_history *h, const char *check,
                     enum dlr_health_verdict verdict, const char *text, int64_t now_s)
{
    long at = last_of(h, check);
    struct dlr_history_row *row = at < 0 ? NULL : &h->rows[at];
    bool same = row && row->verdict == verdict;

    if (verdict == DLR_HEALTH_SKIP)
        return;
    if (same && now_s >= row->last_s && now_s - row->last_s < DLR_HISTORY_APART_S) {
        set_text(row, text);
        return;
    }
    if (!same || now_s < row->first_s || now_s - row->first_s >= DLR_HISTORY_MERGE_S) {
        if (h->n == DLR_HISTORY_ROWS)
            make_room(h);
        row = &h->rows[h->n++];
        memset(row, 0, sizeof(*row));
        row->first_s = now_s;
        dlr_format(row->check, sizeof(row->check), "%s", check);
        row->verdict = verdict;
    }
    row->last_s = now_s;
    row->count++;
    set_text(row, text);
}

struct dlr_history_streak dlr_history_streak(const struct dlr_history *h,
                                             const char *check)
{
    struct dlr_history_streak s = {0};
    long i = last_of(h, check);

    if (i < 0 || h->rows[i].verdict == DLR_HEALTH_FAIL)
        return s;
    s.bad = h->rows[i].verdict == DLR_HEALTH_DRAIN;
    s.last_s = h->rows[i].last_s;
    for (; i >= 0; i--) {
        const struct dlr_history_row *row = &h->rows[i];

        if (!dlr_streq(row->check, check))
            continue;
        if (row->verdict == DLR_HEALTH_FAIL ||
            (row->verdict == DLR_HEALTH_DRAIN) != s.bad)
            break;
        s.count += row->count;
        s.first_s = row->first_s;
        s.first = row;
    }
    return s;
}

/* --- the directory ---------------------------------------------------------------- */

static int open_below(const char *base, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int base_fd = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
    DLR_AUTO_CLOSE int fd = -1;
    struct stat st;

    if (base_fd < 0)
        return dlr_fail(err, -errno, "'%s': %s", base, strerror(errno));
    if (mkdirat(base_fd, FOLDER, 0700) < 0 && errno != EEXIST)
        return dlr_fail(err, -errno, "'%s/" FOLDER "': %s", base, strerror(errno));
    fd = openat(base_fd, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return dlr_fail(err, -errno, "'%s/" FOLDER "': %s", base, strerror(errno));
    if (st.st_uid != geteuid() || st.st_mode & 022)
        return dlr_fail(err, -EPERM,
                        "'%s/" FOLDER "' must belong to uid %u and be writable by "
                        "nobody else: remove it",
                        base, geteuid());
    /* 0700 says nothing of a file system that has become read-only */
    if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0)
        return dlr_fail(err, -errno, "'%s/" FOLDER "': %s", base, strerror(errno));
    return dlr_steal_fd(&fd);
}

int dlr_history_open(const char *const bases[], int *ret_fd, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = -ENOENT;

    for (; *bases && fd < 0; bases++)
        fd = open_below(*bases, err);
    if (fd < 0)
        return fd;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return dlr_fail(err, -errno, "another check of this node is running");
    *ret_fd = dlr_steal_fd(&fd);
    return 0;
}

/* --- the file --------------------------------------------------------------------- */

static bool read_row(const char *line, struct dlr_history_row *row)
{
    char verdict[16];
    int used = 0, v;

    memset(row, 0, sizeof(*row));
    if (sscanf(line, "%" SCNd64 " %" SCNd64 " %u %31s %15s %n", &row->first_s,
               &row->last_s, &row->count, row->check, verdict, &used) != 5 ||
        !used)
        return false;
    v = dlr_health_verdict_parse(verdict);
    if (v < 0 || !row->count || row->last_s < row->first_s)
        return false;
    row->verdict = (enum dlr_health_verdict)v;
    set_text(row, line + used);
    return true;
}

int dlr_history_load(int dirfd, const char *node, struct dlr_history *ret,
                     struct dlr_err *err)
{
    DLR_AUTO_FREE char *text = NULL;
    char *rest, *line;
    size_t size = 0;
    int rc = dlr_file_load_own(dirfd, node, DLR_HISTORY_BYTES, &text, &size, err);

    memset(ret, 0, sizeof(*ret));
    if (rc == -ENOENT || rc == -EFBIG) /* too large for one of ours: begun anew */
        return 0;
    if (rc < 0)
        return rc;
    for (rest = text; (line = strsep(&rest, "\n"));)
        if (ret->n < DLR_HISTORY_ROWS && read_row(line, &ret->rows[ret->n]))
            ret->n++;
    return 0;
}

static int write_row(const struct dlr_history_row *row, char line[LINE_MAX_BYTES])
{
    return snprintf(line, LINE_MAX_BYTES,
                    "%" PRId64 " %" PRId64 " %u %.31s %s %.255s\n", row->first_s,
                    row->last_s, row->count, row->check,
                    dlr_health_verdict_name(row->verdict), row->text);
}

int dlr_history_save(int dirfd, const char *node, const struct dlr_history *h,
                     struct dlr_err *err)
{
    DLR_AUTO_FREE struct dlr_history *kept = malloc(sizeof(*kept));
    DLR_AUTO_FREE char *text = malloc(DLR_HISTORY_BYTES);
    char line[LINE_MAX_BYTES];
    struct iovec part = {text, 0};
    size_t bytes = 0;
    unsigned i;

    if (!kept || !text)
        return dlr_fail(err, -ENOMEM, "out of memory");
    *kept = *h;
    for (i = 0; i < kept->n; i++)
        bytes += (size_t)write_row(&kept->rows[i], line);
    for (; bytes > DLR_HISTORY_BYTES; bytes = part.iov_len) {
        make_room(kept);
        for (part.iov_len = 0, i = 0; i < kept->n; i++)
            part.iov_len += (size_t)write_row(&kept->rows[i], line);
    }
    for (part.iov_len = 0, i = 0; i < kept->n; i++) {
        size_t size = (size_t)write_row(&kept->rows[i], line);

        memcpy(text + part.iov_len, line, size);
        part.iov_len += size;
    }
    return dlr_file_replace(dirfd, node, 0600, &part, 1, err);
}
