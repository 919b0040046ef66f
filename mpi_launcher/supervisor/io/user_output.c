/* SPDX-License-Identifier: Apache-2.0 */
/* Lines for the user, on the stderr of the script's srun. Nobody who stands still there
 * may stop the leases: a reader of a pipe or a terminal (a pager, Ctrl-S) costs the
 * line, which the journal has; a file, whose server may hang as the state directory's,
 * is written by a process apart.
 */
#include "mpi_launcher/supervisor/io/user_output.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "mpi_launcher/supervisor/io/io_state.h"

#define SAY_MS 1000 /* for the reader of our last lines, when nothing else waits */
#define LINE_BYTES 2200

static int write_line(void *arg, int *fd)
{
    const struct dlr_work_line *line = arg;

    return dlr_write_all(*fd, line->text, line->size);
}

/* A pipe that poll(2) calls writable takes PIPE_BUF bytes at once. */
static void put(struct dlr_sup_io *io, const char *line)
{
    bool busy = io->ops->busy && io->ops->busy(io->arg);
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};

    if (io->say.fd >= 0 && dlr_work_queue_put(&io->say, write_line, "", line) != -EPIPE)
        return;
    if (poll(&out, 1, busy ? 0 : SAY_MS) != 0)
        fprintf(stderr, "%s\n", line);
}

void dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
    char line[2048], text[LINE_BYTES];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    snprintf(text, sizeof(text), "dlrover: %s", line);
    put(io, text);
}

static void log_line(void *arg, enum dlr_log_level level, const char *line)
{
    char text[LINE_BYTES];

    snprintf(text, sizeof(text), "dlr: %s", line);
    put(arg, text);
}

void dlr_user_output_start(struct dlr_sup_io *io)
{
    dlr_log_to(log_line, io, DLR_LOG_INFO);
    if (dlr_is_file(STDERR_FILENO) &&
        dlr_work_queue_open(&io->say, NULL, "", STDERR_FILENO, 0) < 0)
        dlr_user_output_end(io);
}

void dlr_user_output_end(struct dlr_sup_io *io)
{
    dlr_work_queue_close(&io->say, SAY_MS); /* when it has written all */
}
