/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what a journal's owner says, in order, for as long as a file system takes. It ends when
 * the owner has closed the journal or is gone, and all is written.
 */
#include "mpi_launcher/journal/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "mpi_launcher/process/fork_server.h"

#define TURN_MS 600000 /* for the writer of a former supervisor, which may hang */
#define TURN_TRIES 16  /* writers that end just when they are waited for */

struct line {
    enum dlr_journal_kind kind;
    char *path, *text; /* text with its newline */
    size_t size;
};

struct writer {
    int fd; /* to the owner */
    int file;
    char *path;
    off_t end; /* of the file after our newest line, -1: not known */
};

/* An owner who does not listen is not waited for. */
static void tell(struct writer *w, int rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void tell(struct writer *w, int rc, const char *fmt, ...)
{
    struct dlr_journal_word word = {.rc = rc};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(word.text, sizeof(word.text), fmt, ap);
    va_end(ap);
    dlr_apart_send(w->fd, &word, sizeof(word), (int[]){-1, -1});
}

/* --- whose turn it is ------------------------------------------------------------------------ */

/* False when it still runs at the end: it is killed, and writes nothing after what it hangs in. */
static bool await_end(pid_t pid, int64_t until_ms)
{
    DLR_AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    int64_t left = until_ms - dlr_now_ms();

    if (pidfd < 0)
        return errno == ESRCH;
    if (poll(&ended, 1, left > 0 ? (int)left : 0) == 1)
        return true;
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    return false;
}

static void await_turn(int turns)
{
    struct flock ours = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    int64_t until_ms = dlr_now_ms() + TURN_MS;

    for (unsigned i = 0; turns >= 0 && i < TURN_TRIES; i++) {
        struct flock other = ours;

        if (fcntl(turns, F_SETLK, &ours) == 0 || fcntl(turns, F_GETLK, &other) < 0)
            return;
        if (other.l_type != F_UNLCK && !await_end(other.l_pid, until_ms))
            return;
    }
}

/* --- files ------------------------------------------------------------------------------------- */

static void replace(struct writer *w, const struct line *line)
{
    struct iovec part = {line->text, line->size};
    struct dlr_err err;

    if (dlr_file_replace(AT_FDCWD, line->path, 0644, &part, 1, &err) < 0)
        tell(w, err.code, "the state is not written: %s", err.text);
}

static void append(struct writer *w, const struct line *line)
{
    DLR_AUTO_CLOSE int fd = -1;

    fd = open(line->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 || dlr_write_all(fd, line->text, line->size) < 0)
        tell(w, -errno, "cannot write '%s': %s", line->path, strerror(errno));
}

/* Asked of the path: NFS asks its server for the size when a file is opened. */
static bool is_only_ours(const struct writer *w)
{
    DLR_AUTO_CLOSE int fd = -1;
    struct stat st;

    fd = w->end < 0 ? -1 : open(w->path, O_RDONLY | O_CLOEXEC);
    return fd < 0 || fstat(fd, &st) < 0 || st.st_size == w->end;
}

static void write_line(struct writer *w, const struct line *line)
{
    switch (line->kind) {
    case DLR_JOURNAL_REPLACE:
        replace(w, line);
        return;
    case DLR_JOURNAL_APPEND:
        append(w, line);
        return;
    case DLR_JOURNAL_LAST:
        if (!is_only_ours(w))
            return;
        break;
    default:
        break;
    }
    if (w->file >= 0 && dlr_write_all(w->file, line->text, line->size) == 0)
        w->end = lseek(w->file, 0, SEEK_CUR);
}

/* --- the owner --------------------------------------------------------------------------------- */

/* *ret_turns: the descriptor that came with it, -1 none. Nothing half: who is killed may have said
 * part of a line.
 */
static int receive(int fd, struct line *ret, int *ret_turns)
{
    struct dlr_journal_frame frame;
    int fds[DLR_APART_FDS];
    DLR_AUTO_FREE char *path = NULL;
    DLR_AUTO_FREE char *text = NULL;

    if (dlr_apart_recv(fd, &frame, sizeof(frame), fds, MSG_WAITALL) != sizeof(frame))
        return -ENODATA;
    path = malloc(frame.path_size + 1);
    text = malloc(frame.text_size + 1);
    if (!path || !text || dlr_read_all(fd, path, frame.path_size) < 0 ||
        dlr_read_all(fd, text, frame.text_size) < 0)
        return -ENODATA;
    *ret = (struct line){frame.kind, DLR_STEAL(path), DLR_STEAL(text), frame.text_size};
    *ret_turns = fds[0];
    return 0;
}

static int open_file(struct writer *w)
{
    struct line first;
    int turns;

    if (receive(w->fd, &first, &turns) < 0)
        return -ENODATA;
    free(first.text);
    w->path = first.path;
    await_turn(turns); /* and keep it: closing turns would end it */
    w->file = open(w->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    tell(w, w->file < 0 ? -errno : 0, "cannot open '%s': %s", w->path, strerror(errno));
    return 0;
}

void dlr_journal_write(int fd)
{
    struct writer w = {.fd = fd, .file = -1, .end = -1};
    struct line line;
    int none;

    if (open_file(&w) < 0)
        return;
    while (receive(fd, &line, &none) == 0) {
        write_line(&w, &line);
        free(line.path);
        free(line.text);
    }
}
