/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/rounds/stdin_spool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"

#define DATA_AT (DLR_SPOOL_AT + 4096)
#define PIECE 65536

/* At DLR_SPOOL_AT; zeros before the first byte. */
struct head {
    uint64_t length; /* bytes kept */
    uint32_t ended;  /* there will be no more */
    uint32_t lost;   /* more came than may be kept */
};

struct feeder {
    struct head head;
    uint64_t limit, sent;
    int in, keep, out;
    char piece[PIECE];
};

bool dlr_spool_is_for(int in)
{
    struct stat st;

    return fstat(in, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

/* --- the process: after a fork among threads, so nothing but system calls --------- */

static int save(struct feeder *f)
{
    ssize_t n = pwrite(f->keep, &f->head, sizeof(f->head), DLR_SPOOL_AT);

    return n == sizeof(f->head) ? 0 : -EIO;
}

/* Until out takes more, or in (when asked for) has more; -EPIPE: nobody reads. */
static int wait_for(const struct feeder *f, bool more)
{
    struct pollfd fds[2] = {{.fd = f->out, .events = more ? 0 : POLLOUT},
                            {.fd = more ? f->in : -1, .events = POLLIN}};

    while (poll(fds, 2, -1) < 0)
        if (errno != EINTR)
            return -errno;
    return fds[0].revents & (POLLERR | POLLHUP) ? -EPIPE : 0;
}

static int pass_on(const struct feeder *f, const char *data, size_t size)
{
    while (size) {
        int rc = wait_for(f, false);
        ssize_t n = rc < 0 ? rc : write(f->out, data, size);

        if (rc < 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return -EPIPE;
        data += n > 0 ? n : 0;
        size -= n > 0 ? n : 0;
    }
    return 0;
}

/* Bytes that have just come: kept while there is room for all that came. */
static int keep(struct feeder *f, size_t size)
{
    if (!f->head.lost && f->head.length + size <= f->limit &&
        pwrite(f->keep, f->piece, size, DATA_AT + (off_t)f->head.length) ==
            (ssize_t)size)
        f->head.length += size;
    else
        f->head.lost = 1;
    return save(f);
}

static int live(struct feeder *f)
{
    ssize_t n = wait_for(f, true) < 0 ? -1 : read(f->in, f->piece, PIECE);

    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : -EPIPE;
    if (n == 0) {
        f->head.ended = 1;
        return save(f);
    }
    f->sent += n;
    return keep(f, n) < 0 ? -EPIPE : pass_on(f, f->piece, n);
}

static int replay(struct feeder *f)
{
    uint64_t left = f->head.length - f->sent;
    size_t want = left < PIECE ? left : PIECE;
    ssize_t n = pread(f->keep, f->piece, want, DATA_AT + (off_t)f->sent);

    if (n <= 0)
        return -EPIPE;
    f->sent += n;
    return pass_on(f, f->piece, n);
}

/* The feeder of an earlier round may be in the middle of keeping what it has read. It
 * ends with its srun, which the supervisor kills before it launches the next round.
 */
static int take_turn(struct feeder *f)
{
    struct flock all = {.l_type = F_WRLCK, .l_start = DLR_SPOOL_AT, .l_len = 1};

    while (fcntl(f->keep, F_SETLKW, &all) < 0)
        if (errno != EINTR)
            return -errno;
    return pread(f->keep, &f->head, sizeof(f->head), DLR_SPOOL_AT) < 0 ? -errno : 0;
}

static void feed(struct feeder *f)
{
    int rc = take_turn(f);

    while (rc == 0 && (f->sent < f->head.length || !f->head.ended))
        rc = f->sent < f->head.length ? replay(f) : live(f);
    _exit(rc < 0);
}

/* In the descriptors 0 to 2, all others are closed: a pipe that was left open here
 * would outlive its owner.
 */
static void child(struct feeder *f)
{
    if (fork() != 0)
        _exit(0); /* the keeper reaps it: the supervisor may be gone by then */
    setsid();     /* Ctrl-C is the supervisor's */
    prctl(PR_SET_NAME, "dlrover-stdin");
    f->in = fcntl(f->in, F_DUPFD, 3);
    f->out = fcntl(f->out, F_DUPFD, 3);
    f->keep = fcntl(f->keep, F_DUPFD, 3);
    if (f->in < 0 || f->out < 0 || f->keep < 0)
        _exit(1);
    f->in = dup2(f->in, 0);
    f->out = dup2(f->out, 1);
    f->keep = dup2(f->keep, 2);
    closefrom(3);
    fcntl(f->out, F_SETFL, O_NONBLOCK);
    feed(f);
}

/* --- its start -------------------------------------------------------------------- */

int dlr_spool_feed(int in, int keep_fd, uint64_t limit, int *ret_out,
                   struct dlr_err *err)
{
    static struct feeder f; /* too large for a stack, and malloc is not for the child */
    DLR_AUTO_CLOSE int reader = -1;
    DLR_AUTO_CLOSE int writer = -1;
    int pipes[2];
    pid_t pid;

    memset(&f.head, 0, sizeof(f.head));
    if (pread(keep_fd, &f.head, sizeof(f.head), DLR_SPOOL_AT) < 0)
        return dlr_fail(err, -errno, "cannot read the kept input: %s", strerror(errno));
    if (f.head.lost)
        return dlr_fail(err, -ENOSPC, "more than %llu bytes have come",
                        (unsigned long long)limit);
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return dlr_fail(err, -errno, "cannot make a pipe: %s", strerror(errno));
    reader = pipes[0];
    writer = pipes[1];
    f.limit = limit;
    f.sent = 0;
    f.in = in;
    f.keep = keep_fd;
    f.out = writer;
    pid = fork();
    if (pid == 0)
        child(&f);
    if (pid < 0)
        return dlr_fail(err, -errno, "cannot fork: %s", strerror(errno));
    waitpid(pid, NULL, 0);
    *ret_out = dlr_steal_fd(&reader);
    return 0;
}
