/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what a journal's owner says, in order, for as long as a file system takes. It
 * ends when the owner has closed the journal or is gone, and all is written.
 */
#include "mpi_launcher/journal/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "mpi_launcher/process/work_queue.h"

#define TURN_MS 600000   /* for the writer of a former supervisor, which may hang */
#define TAIL_BYTES 65536 /* of the journal: what the end is looked for in */
#define TURN_TRIES 16    /* writers that end just when they are waited for */

/* --- whose turn it is ------------------------------------------------------------- */

/* False when it still runs at the end: it is killed, and writes nothing after what it
 * hangs in.
 */
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

/* --- files ------------------------------------------------------------------------ */

int dlr_journal_replace_file(void *arg, int *fd)
{
    struct dlr_work_line *line = arg;
    struct iovec part = {(void *)line->text, line->size};
    struct dlr_err err;
    int rc = dlr_file_replace(AT_FDCWD, line->path, 0644, &part, 1, &err);

    return rc < 0 ? dlr_fail(&line->err, rc, "the state is not written: %s", err.text)
                  : 0;
}

int dlr_journal_append_file(void *arg, int *fd)
{
    struct dlr_work_line *line = arg;
    DLR_AUTO_CLOSE int file = -1;

    file = open(line->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0 || dlr_write_all(file, line->text, line->size) < 0)
        return dlr_fail(&line->err, -errno, "cannot write '%s': %s", line->path,
                        strerror(errno));
    return 0;
}

/* --- the journal ------------------------------------------------------------------ */

int dlr_journal_start(void *arg, int *fd)
{
    struct dlr_work_line *line = arg;

    await_turn(*fd); /* and keep it: closing it would end it */
    *fd = open(line->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return *fd < 0 ? dlr_fail(&line->err, -errno, "cannot open '%s': %s", line->path,
                              strerror(errno))
                   : 0;
}

int dlr_journal_write(void *arg, int *fd)
{
    const struct dlr_work_line *line = arg;

    if (*fd >= 0)
        dlr_write_all(*fd, line->text, line->size);
    return 0;
}

/* Asked of the path: NFS asks its server for the size when a file is opened. Where we
 * stand is behind our newest line.
 */
static bool is_only_ours(const char *path, int fd)
{
    off_t end = lseek(fd, 0, SEEK_CUR);
    DLR_AUTO_CLOSE int other = -1;
    struct stat st;

    other = end <= 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    return other < 0 || fstat(other, &st) < 0 || st.st_size == end;
}

int dlr_journal_write_last(void *arg, int *fd)
{
    const struct dlr_work_line *line = arg;

    return is_only_ours(line->path, *fd) ? dlr_journal_write(arg, fd) : 0;
}

/* A quote inside of a string has a backslash before it. */
static const char *newest(const char *text, const char *event)
{
    const char *at = NULL;

    while ((text = strstr(text, event)))
        at = text++;
    return at;
}

static bool has_end(const char *path)
{
    DLR_AUTO_FREE char *text = calloc(1, TAIL_BYTES + 1);
    DLR_AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC);
    const char *start, *end;
    struct stat st;
    off_t from;

    if (!text || file < 0 || fstat(file, &st) < 0)
        return false;
    from = st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0;
    if (pread(file, text, TAIL_BYTES, from) <= 0)
        return false;
    start = newest(text, "\"event\":\"start\"");
    end = newest(text, "\"event\":\"end\"");
    return end && (!start || start < end);
}

int dlr_journal_write_missing(void *arg, int *fd)
{
    const struct dlr_work_line *line = arg;

    return has_end(line->path) ? 0 : dlr_journal_write(arg, fd);
}
