/* SPDX-License-Identifier: Apache-2.0 */
/* Lines for the user, on the stderr of the script's srun. Nobody who stands still there may stop the
 * leases: a reader of a pipe or a terminal (a pager, Ctrl-S) costs the line, which the journal has; a
 * file, whose server may hang as the state directory's, is written by a process apart.
 */
#include "mpi_launcher/supervisor/io/user_output.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "mpi_launcher/supervisor/io/io_state.h"

#define SAY_MS 1000 /* for the reader of our last lines, when nothing else waits */
#define LINE_BYTES 2200

/* In the process apart: the file comes first. */
static void write_all(int fd)
{
    int fds[DLR_APART_FDS], none[DLR_APART_FDS];
    char text[2 * LINE_BYTES];
    ssize_t n = dlr_apart_recv(fd, text, 1, fds, 0);

    while (n > 0 && (n = dlr_apart_recv(fd, text, sizeof(text), none, 0)) > 0)
        dlr_write_all(fds[0], text, (size_t)n);
}

/* False when there is nobody. Of one who stands still the line is lost. */
static bool hand_over(struct dlr_sup_io *io, const char *text)
{
    ssize_t n = dlr_apart_send(io->say_fd, text, strlen(text), (int[]){-1, -1});

    return n >= 0 || n == -EAGAIN;
}

/* A pipe that poll(2) calls writable takes PIPE_BUF bytes at once. */
static void put(struct dlr_sup_io *io, const char *text)
{
    bool busy = io->ops->busy && io->ops->busy(io->arg);
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};

    if (io->say_fd >= 0 && !hand_over(io, text)) { /* somebody has killed it */
        close(dlr_steal_fd(&io->say_fd));
        dlr_sup_say_start(io);
        hand_over(io, text);
    }
    if (io->say_fd >= 0)
        return;
    if (poll(&out, 1, busy ? 0 : SAY_MS) != 0)
        fputs(text, stderr);
}

void dlr_sup_say(struct dlr_sup_io *io, const char *fmt, ...)
{
    char line[2048], text[LINE_BYTES];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    snprintf(text, sizeof(text), "dlrover: %s\n", line);
    put(io, text);
}

static void log_line(void *arg, enum dlr_log_level level, const char *line)
{
    char text[LINE_BYTES];

    snprintf(text, sizeof(text), "dlr: %s\n", line);
    put(arg, text);
}

void dlr_sup_say_start(struct dlr_sup_io *io)
{
    DLR_AUTO_CLOSE int fd = -1;

    dlr_log_to(log_line, io, DLR_LOG_INFO);
    if (!dlr_is_file(STDERR_FILENO) ||
        dlr_apart_start(io->apart, write_all, "dlrover-say", true, &fd) < 0)
        return;
    if (dlr_apart_send(fd, "", 1, (int[]){STDERR_FILENO, -1}) == 1)
        io->say_fd = dlr_steal_fd(&fd);
}

void dlr_sup_say_end(struct dlr_sup_io *io)
{
    struct pollfd writer = {.fd = io->say_fd, .events = POLLIN};

    if (io->say_fd < 0)
        return;
    shutdown(io->say_fd, SHUT_WR);
    poll(&writer, 1, SAY_MS); /* until it has written all */
    close(dlr_steal_fd(&io->say_fd));
}
