/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/journal/journal.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "mpi_launcher/journal/writer.h"

#define MAX_LINES 8192
#define SOCKET_BYTES                                                                   \
    (1 << 20)       /* what is in the socket is written even if we are killed */
#define MAX_LIVES 5 /* writers that are started for one journal */
#define OPEN_MS                                                                        \
    300 /* for the file system to open the journal: then lines wait for it */

struct line {
    struct line *next;
    size_t size;
    char bytes[]; /* a frame and what belongs to it */
};

struct dlr_journal {
    struct dlr_apart *apart;
    int turns;
    char *path;
    int fd; /* to the writer, -1: there is none any more */
    unsigned lives;
    struct dlr_journal_word word; /* of the writer, so many bytes of it have come */
    size_t heard;
    bool opened, late; /* late: nobody waits to be told that it failed */
    int open_rc;
    struct line *head, **tail;
    size_t sent; /* bytes of the head */
    unsigned queued, dropped;
};

static const int no_fds[DLR_APART_FDS] = {-1, -1};

static struct line *make_line(enum dlr_journal_kind kind, const char *path,
                              const char *text, bool newline)
{
    struct dlr_journal_frame frame = {.kind = kind};
    struct line *line;
    char *at;

    frame.path_size = path ? (uint32_t)strlen(path) + 1 : 0;
    frame.text_size = strlen(text) + newline;
    line =
        malloc(sizeof(*line) + sizeof(frame) + frame.path_size + frame.text_size + 1);
    if (!line)
        return NULL;
    line->next = NULL;
    line->size = sizeof(frame) + frame.path_size + frame.text_size;
    at = line->bytes;
    memcpy(at, &frame, sizeof(frame));
    at += sizeof(frame);
    memcpy(at, path ? path : "", frame.path_size);
    at += frame.path_size;
    memcpy(at, text, strlen(text));
    if (newline)
        at[strlen(text)] = '\n';
    return line;
}

/* --- the writer -------------------------------------------------------------------------------- */

static int start_writer(struct dlr_journal *j)
{
    DLR_AUTO_FREE struct line *first = make_line(DLR_JOURNAL_OPEN, j->path, "", false);
    int bytes = SOCKET_BYTES, fds[DLR_APART_FDS] = {j->turns, -1};
    int rc = first ? dlr_apart_start(j->apart, dlr_journal_write, "dlrover-journal",
                                     true, &j->fd)
                   : -ENOMEM;

    if (rc < 0)
        return rc;
    j->lives++;
    j->sent = j->heard = 0;
    j->opened = false;
    setsockopt(j->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    if (dlr_apart_send(j->fd, first->bytes, first->size, fds) == (ssize_t)first->size)
        return 0;
    close(dlr_steal_fd(&j->fd));
    return -EIO;
}

/* Somebody has killed it; what it had been given and not written is lost. */
static void start_again(struct dlr_journal *j)
{
    close(dlr_steal_fd(&j->fd));
    j->late = true;
    if (j->lives >= MAX_LIVES || start_writer(j) < 0)
        dlr_warn("the journal '%s' ends here: its writer died", j->path);
}

static void on_word(struct dlr_journal *j)
{
    const struct dlr_journal_word *word = &j->word;

    if (j->opened) {
        dlr_warn("%s", word->text);
        return;
    }
    j->opened = true;
    j->open_rc = word->rc;
    if (word->rc < 0 && j->late)
        dlr_warn("there will be no journal: %s", word->text);
}

/* False when the writer has ended. */
static bool hear(struct dlr_journal *j)
{
    for (;;) {
        int fds[DLR_APART_FDS];
        ssize_t n = dlr_apart_recv(j->fd, (char *)&j->word + j->heard,
                                   sizeof(j->word) - j->heard, fds, MSG_DONTWAIT);

        if (n <= 0)
            return n == -EAGAIN;
        j->heard += (size_t)n;
        if (j->heard < sizeof(j->word))
            continue;
        j->heard = 0;
        on_word(j);
    }
}

static void give(struct dlr_journal *j)
{
    while (j->head) {
        struct line *line = j->head;
        ssize_t n =
            dlr_apart_send(j->fd, line->bytes + j->sent, line->size - j->sent, no_fds);

        if (n < 0)
            return;
        j->sent += (size_t)n;
        if (j->sent < line->size)
            continue;
        j->sent = 0;
        j->head = line->next;
        if (!j->head)
            j->tail = &j->head;
        j->queued--;
        free(line);
    }
}

void dlr_journal_tick(struct dlr_journal *j)
{
    if (!j || j->fd < 0)
        return;
    if (!hear(j))
        start_again(j);
    if (j->fd >= 0)
        give(j);
}

/* --- lines ----------------------------------------------------------------------------------- */

static void queue_text(struct dlr_journal *j, enum dlr_journal_kind kind,
                       const char *path, const char *text)
{
    struct line *line =
        j->queued < MAX_LINES ? make_line(kind, path, text, true) : NULL;

    if (!line) {
        j->dropped++;
        return;
    }
    *j->tail = line;
    j->tail = &line->next;
    j->queued++;
    if (!path)
        j->dropped = 0; /* this line has said how many were lost before it */
    dlr_journal_tick(j);
}

static void tell(struct dlr_journal *j, enum dlr_journal_kind kind, const char *name,
                 json_t *fields)
{
    DLR_AUTO_FREE char *text = NULL;
    char when[32];
    json_t *line;

    if (!j) {
        json_decref(fields);
        return;
    }
    dlr_wall_text(dlr_wall_ns(), when, sizeof(when));
    line = json_pack("{s:s,s:s}", "time", when, "event", name);
    if (line && j->dropped)
        json_object_set_new(line, "dropped_lines", json_integer(j->dropped));
    if (line && fields)
        json_object_update(line, fields);
    text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    if (text)
        queue_text(j, kind, NULL, text);
    json_decref(line);
    json_decref(fields);
}

void dlr_journal_event(struct dlr_journal *j, const char *name, json_t *fields)
{
    tell(j, DLR_JOURNAL_LINE, name, fields);
}

void dlr_journal_last(struct dlr_journal *j, const char *name, json_t *fields)
{
    tell(j, DLR_JOURNAL_LAST, name, fields);
}

void dlr_journal_replace(struct dlr_journal *j, const char *path, const char *text)
{
    if (j)
        queue_text(j, DLR_JOURNAL_REPLACE, path, text);
}

void dlr_journal_append(struct dlr_journal *j, const char *path, const char *text)
{
    if (j)
        queue_text(j, DLR_JOURNAL_APPEND, path, text);
}

void dlr_journal_note(struct dlr_journal *j, const char *name, const char *fmt, ...)
{
    json_error_t jerr;
    va_list ap;
    json_t *fields;
    char object[512];

    snprintf(object, sizeof(object), "{%s}", fmt);
    va_start(ap, fmt);
    fields = json_vpack_ex(&jerr, 0, object, ap);
    va_end(ap);
    dlr_journal_event(j, name, fields);
}

/* --- its life ---------------------------------------------------------------------------------- */

static void destroy(struct dlr_journal *j)
{
    while (j->head) {
        struct line *line = j->head;

        j->head = line->next;
        free(line);
    }
    if (j->fd >= 0)
        close(j->fd);
    free(j->path);
    free(j);
}

static void await_writer(const struct dlr_journal *j, int64_t until_ms)
{
    struct pollfd writer = {.fd = j->fd, .events = POLLIN | (j->head ? POLLOUT : 0)};
    int64_t left = until_ms - dlr_now_ms();

    poll(&writer, 1, left > 0 ? (int)left : 0);
}

struct dlr_journal *dlr_journal_close(struct dlr_journal *j, int64_t timeout_ms)
{
    int64_t until_ms = dlr_now_ms() + timeout_ms;

    if (!j)
        return NULL;
    while (j->fd >= 0) {
        bool there = hear(j);

        if (!there && !j->head)
            break; /* it has written all */
        if (!there)
            start_again(j);
        if (j->fd < 0 || dlr_now_ms() > until_ms)
            break;
        give(j);
        if (!j->head)
            shutdown(j->fd, SHUT_WR);
        await_writer(j, until_ms);
    }
    destroy(j);
    return NULL;
}

int dlr_journal_open(struct dlr_apart *apart, int turns, const char *path,
                     struct dlr_journal **ret, struct dlr_err *err)
{
    struct dlr_journal *j = calloc(1, sizeof(*j));
    int64_t until_ms = dlr_now_ms() + OPEN_MS;
    int rc = -ENOMEM;

    if (j) {
        *j = (struct dlr_journal){.apart = apart, .turns = turns, .fd = -1};
        j->tail = &j->head;
        j->path = strdup(path);
        rc = j->path ? start_writer(j) : -ENOMEM;
    }
    while (rc == 0 && !j->opened && dlr_now_ms() <= until_ms) {
        await_writer(j, until_ms);
        rc = hear(j) ? 0 : -EIO;
    }
    if (rc == 0 && j->opened)
        rc = j->open_rc;
    if (rc < 0) {
        dlr_fail(err, rc, "cannot open '%s': %s", path, strerror(-rc));
        if (j)
            destroy(j);
        return rc;
    }
    j->late = !j->opened;
    *ret = j;
    return 0;
}
