/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/journal/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define CHUNK (256u << 10)
#define LINE_START "{\"time\":\""
#define TIME_BYTES 24 /* 2026-11-21T03:04:05.678Z */
#define PROGRESS "\",\"event\":\"progress\","

void dlr_cli_reader_init(struct dlr_cli_reader *r, const char *path)
{
    *r = (struct dlr_cli_reader){.path = path, .fd = -1};
}

static void close_fd(struct dlr_cli_reader *r)
{
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
}

void dlr_cli_reader_done(struct dlr_cli_reader *r)
{
    if (r->path)
        close_fd(r);
    free(r->buf);
    *r = (struct dlr_cli_reader){.fd = -1};
}

/* Opened anew after each end: on NFS that is what makes another host's writes visible.
 */
static int open_fd(struct dlr_cli_reader *r, struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    bool stale;

    if (fd < 0 || fstat(fd, &st) < 0)
        return dlr_fail(err, -errno, "cannot read '%.300s': %s", r->path,
                        strerror(errno));
    if (!S_ISREG(st.st_mode))
        return dlr_fail(err, -EINVAL, "'%.300s' is not a regular file", r->path);
    stale = r->at && (r->dev != st.st_dev || r->ino != st.st_ino ||
                      r->at > (uint64_t)st.st_size);
    r->dev = st.st_dev;
    r->ino = st.st_ino;
    r->fd = dlr_steal_fd(&fd);
    if (!stale)
        return 0;
    r->at = r->start = r->end = 0;
    r->skipping = false;
    r->skipped = 0;
    return -ESTALE;
}

/* Room for at least one more byte behind end, and one for a NUL. */
static int make_room(struct dlr_cli_reader *r, struct dlr_err *err)
{
    size_t used = r->end - r->start, size = r->size;
    char *more;

    if (r->buf && r->start) {
        memmove(r->buf, r->buf + r->start, used);
        r->start = 0;
        r->end = used;
    }
    if (used > DLR_CLI_LINE_MAX) {
        r->skipped += !r->skipping;
        r->skipping = true;
        r->end = used = 0;
    }
    if (size - used > CHUNK / 2)
        return 0;
    size = size ? 2 * size : CHUNK;
    more = realloc(r->buf, size);
    if (!more)
        return dlr_fail(err, -ENOMEM, "no memory for a line of %zu bytes", used);
    r->buf = more;
    r->size = size;
    return 0;
}

/* The number of bytes read. */
static ssize_t fill(struct dlr_cli_reader *r, struct dlr_err *err)
{
    int rc = r->fd < 0 ? open_fd(r, err) : 0;
    ssize_t n;

    if (rc < 0 || (rc = make_room(r, err)) < 0)
        return rc;
    do
        n = pread(r->fd, r->buf + r->end, r->size - r->end - 1, (off_t)r->at);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return dlr_fail(err, -errno, "cannot read '%.300s': %s", r->path,
                        strerror(errno));
    if (n == 0)
        close_fd(r);
    r->at += (uint64_t)n;
    r->end += (size_t)n;
    return n;
}

int dlr_cli_reader_next(struct dlr_cli_reader *r, char **ret_line, size_t *ret_size,
                        struct dlr_err *err)
{
    size_t seen = 0; /* of the line: no end of it in there */
    ssize_t n;

    for (;;) {
        char *line = r->buf ? r->buf + r->start : NULL;
        char *nl = line ? memchr(line + seen, '\n', r->end - r->start - seen) : NULL;

        if (nl) {
            bool whole = !r->skipping && nl - line <= DLR_CLI_LINE_MAX;

            r->skipped += !whole && !r->skipping;
            *nl = '\0';
            r->start = (size_t)(nl - r->buf) + 1;
            r->skipping = false;
            seen = 0;
            if (!whole)
                continue;
            *ret_line = line;
            *ret_size = (size_t)(nl - line);
            return 1;
        }
        seen = r->end - r->start;
        n = fill(r, err);
        if (n <= 0)
            return (int)n;
        if (seen > r->end - r->start)
            seen = 0;
    }
}

/* What events and fields were called in journals that older releases wrote. */
static const struct {
    const char *former, *name;
} renamed[] = {
    {.former = "lapsed", .name = "lease_expired"},
    {.former = "strangers", .name = "auth_failures"},
    {.former = "unvetted", .name = "no_vetted_slot"},
};

static void rename_former(json_t *e)
{
    const char *name = json_string_value(json_object_get(e, "event"));

    for (size_t i = 0; i < sizeof(renamed) / sizeof(*renamed); i++)
        if (dlr_streq(name, renamed[i].former)) {
            json_object_set_new(e, "event", json_string(renamed[i].name));
            return;
        }
}

static json_t *parse_one(const char *line, size_t size)
{
    json_error_t jerr;
    json_t *e = json_loadb(line, size, JSON_REJECT_DUPLICATES, &jerr);

    if (e && json_is_string(json_object_get(e, "time")) &&
        json_is_string(json_object_get(e, "event"))) {
        rename_former(e);
        return e;
    }
    json_decref(e);
    return NULL;
}

json_t *dlr_cli_event_parse(const char *line, size_t size)
{
    json_t *e = parse_one(line, size);
    const char *last = NULL;

    if (e || size == 0)
        return e;
    for (const char *at = line + 1; (at = memmem(at, size - (size_t)(at - line),
                                                 LINE_START, sizeof(LINE_START) - 1));
         at++)
        last = at;
    return last ? parse_one(last, size - (size_t)(last - line)) : NULL;
}

bool dlr_cli_is_progress(const char *line, size_t size)
{
    const size_t at = sizeof(LINE_START) - 1 + TIME_BYTES, n = sizeof(PROGRESS) - 1;

    return size > at + n && memcmp(line, LINE_START, sizeof(LINE_START) - 1) == 0 &&
           memcmp(line + at, PROGRESS, n) == 0 && line[size - 1] == '}';
}

bool dlr_cli_is_before(const char *line, const char *time)
{
    return strncmp(line + sizeof(LINE_START) - 1, time, strlen(time)) < 0;
}
