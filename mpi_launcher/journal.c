/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"

#define MAX_LINES 8192
#define OPEN_MS                                                                        \
    300 /* for the file system to open the journal: then lines wait for it */

enum kind { LINE, LAST, REPLACE, APPEND };

struct line {
    struct line *next;
    enum kind kind;
    char *path; /* of REPLACE and APPEND: the other file */
    size_t size;
    char text[];
};

struct dlr_journal {
    char *path;
    int fd, open_rc;
    bool opened, late; /* late: nobody waits to be told that it failed */
    off_t end; /* of the file after our newest line, -1: not known; the writer's own */
    pthread_t writer;
    pthread_mutex_t lock;
    pthread_cond_t some, none; /* something is queued; everything is written */
    struct line *head, **tail;
    unsigned queued, dropped;
    bool closing, idle;
    bool
        abandoned; /* nobody joins the writer: it frees everything when it comes back */
};

static struct line *take(struct dlr_journal *j)
{
    struct line *line;

    pthread_mutex_lock(&j->lock);
    while (!j->head && !j->closing) {
        j->idle = true;
        pthread_cond_broadcast(&j->none);
        pthread_cond_wait(&j->some, &j->lock);
    }
    j->idle = false;
    line = j->head;
    if (line) {
        j->head = line->next;
        if (!j->head)
            j->tail = &j->head;
        j->queued--;
    }
    pthread_mutex_unlock(&j->lock);
    return line;
}

static void replace(const struct line *line)
{
    struct iovec part = {(void *)line->text, line->size};
    struct dlr_err err;

    if (dlr_file_replace(AT_FDCWD, line->path, 0644, &part, 1, &err) < 0)
        dlr_warn("the state is not written: %s", err.text);
}

static void append(const struct line *line)
{
    DLR_AUTO_CLOSE int fd = -1;

    fd = open(line->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 || dlr_write_all(fd, line->text, line->size) < 0)
        dlr_warn("cannot write '%s': %s", line->path, strerror(errno));
}

/* Asked of the path: NFS asks its server for the size when a file is opened. */
static bool is_only_ours(const struct dlr_journal *j)
{
    DLR_AUTO_CLOSE int fd = -1;
    struct stat st;

    fd = j->end < 0 ? -1 : open(j->path, O_RDONLY | O_CLOEXEC);
    return fd < 0 || fstat(fd, &st) < 0 || st.st_size == j->end;
}

static void write_line(struct dlr_journal *j, const struct line *line)
{
    switch (line->kind) {
    case REPLACE:
        replace(line);
        return;
    case APPEND:
        append(line);
        return;
    case LAST:
        if (!is_only_ours(j))
            return;
        break;
    case LINE:
        break;
    }
    if (j->fd >= 0 && dlr_write_all(j->fd, line->text, line->size) == 0)
        j->end = lseek(j->fd, 0, SEEK_CUR);
}

static void destroy(struct dlr_journal *j)
{
    if (j->fd >= 0)
        close(j->fd);
    free(j->path);
    pthread_mutex_destroy(&j->lock);
    pthread_cond_destroy(&j->some);
    pthread_cond_destroy(&j->none);
    free(j);
}

static void open_file(struct dlr_journal *j)
{
    int fd = open(j->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    int rc = fd < 0 ? -errno : 0;

    pthread_mutex_lock(&j->lock);
    j->fd = fd;
    j->open_rc = rc;
    j->opened = true;
    if (rc < 0 && j->late)
        dlr_warn("there will be no journal: cannot open '%s': %s", j->path,
                 strerror(-rc));
    pthread_cond_broadcast(&j->none);
    pthread_mutex_unlock(&j->lock);
}

static void *write_lines(void *arg)
{
    struct dlr_journal *j = arg;
    struct line *line;
    bool abandoned;

    open_file(j);
    while ((line = take(j))) {
        write_line(j, line);
        free(line->path);
        free(line);
    }
    pthread_mutex_lock(&j->lock);
    j->idle = true;
    abandoned = j->abandoned;
    pthread_cond_broadcast(&j->none);
    pthread_mutex_unlock(&j->lock);
    if (abandoned)
        destroy(j);
    return NULL;
}

static struct timespec after_ms(int64_t ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += ms % 1000 * 1000000;
    t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static struct dlr_journal *make(const char *path)
{
    struct dlr_journal *j = calloc(1, sizeof(*j));
    pthread_condattr_t attr;

    if (!j)
        return NULL;
    j->path = strdup(path);
    j->fd = -1;
    j->end = -1;
    j->tail = &j->head;
    pthread_mutex_init(&j->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&j->some, NULL);
    pthread_cond_init(&j->none, &attr);
    pthread_condattr_destroy(&attr);
    if (!j->path || pthread_create(&j->writer, NULL, write_lines, j)) {
        destroy(j);
        return NULL;
    }
    return j;
}

static void queue_text(struct dlr_journal *j, enum kind kind, const char *path,
                       const char *text)
{
    size_t size = strlen(text);
    struct line *line = malloc(sizeof(*line) + size + 1);

    if (!line)
        return;
    line->next = NULL;
    line->kind = kind;
    line->path = path ? strdup(path) : NULL;
    line->size = size + 1;
    memcpy(line->text, text, size);
    line->text[size] = '\n';
    pthread_mutex_lock(&j->lock);
    if (j->queued >= MAX_LINES) {
        j->dropped++;
        free(line->path);
        free(line);
    } else {
        *j->tail = line;
        j->tail = &line->next;
        j->queued++;
        if (!path)
            j->dropped = 0; /* this line has said how many were lost before it */
        pthread_cond_signal(&j->some);
    }
    pthread_mutex_unlock(&j->lock);
}

static void tell(struct dlr_journal *j, enum kind kind, const char *name,
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
    tell(j, LINE, name, fields);
}

void dlr_journal_last(struct dlr_journal *j, const char *name, json_t *fields)
{
    tell(j, LAST, name, fields);
}

void dlr_journal_replace(struct dlr_journal *j, const char *path, const char *text)
{
    if (j)
        queue_text(j, REPLACE, path, text);
}

void dlr_journal_append(struct dlr_journal *j, const char *path, const char *text)
{
    if (j)
        queue_text(j, APPEND, path, text);
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

struct dlr_journal *dlr_journal_close(struct dlr_journal *j, int64_t timeout_ms)
{
    struct timespec until = after_ms(timeout_ms);
    bool hangs;
    int rc = 0;

    if (!j)
        return NULL;
    pthread_mutex_lock(&j->lock);
    j->closing = true;
    pthread_cond_signal(&j->some);
    while ((!j->idle || j->head) && rc == 0)
        rc = pthread_cond_timedwait(&j->none, &j->lock, &until);
    hangs = !j->idle || j->head;
    if (hangs) { /* the writer is on its own */
        j->abandoned = true;
        pthread_detach(j->writer);
    }
    pthread_mutex_unlock(&j->lock);
    if (hangs)
        return NULL;
    pthread_join(j->writer, NULL);
    destroy(j);
    return NULL;
}

int dlr_journal_open(const char *path, struct dlr_journal **ret, struct dlr_err *err)
{
    struct dlr_journal *j = make(path);
    struct timespec until = after_ms(OPEN_MS);
    int late = 0, rc;

    if (!j)
        return dlr_fail(err, -ENOMEM, "cannot start the journal's thread");
    pthread_mutex_lock(&j->lock);
    while (!j->opened && !late)
        late = pthread_cond_timedwait(&j->none, &j->lock, &until);
    rc = j->opened ? j->open_rc : 0;
    j->late = !j->opened;
    pthread_mutex_unlock(&j->lock);
    if (rc < 0) {
        dlr_journal_close(j, OPEN_MS);
        return dlr_fail(err, rc, "cannot open '%s': %s", path, strerror(-rc));
    }
    *ret = j;
    return 0;
}
