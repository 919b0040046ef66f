/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/process/fork_server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define SERVE_FD 3

struct dlr_fork_server {
    int fd; /* to the process that forks the others */
};

/* Of the same program: the address of a function means the same on both sides. */
struct request {
    dlr_fork_server_fn fn;
    bool outlives;
    char name[16];
};

union control {
    struct cmsghdr align;
    char buf[CMSG_SPACE(sizeof(int) * DLR_FORK_SERVER_FDS)];
};

ssize_t dlr_fork_server_send(int fd, const void *buf, size_t size,
                             const int fds[DLR_FORK_SERVER_FDS])
{
    struct iovec part = {(void *)buf, size};
    struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
    union control control = {0};
    unsigned n = 0;
    ssize_t sent;

    while (n < DLR_FORK_SERVER_FDS && fds[n] >= 0)
        n++;
    if (n > 0) {
        struct cmsghdr *c = &control.align;

        msg.msg_control = control.buf;
        msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n * sizeof(int));
    }
    do
        sent = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

ssize_t dlr_fork_server_recv(int fd, void *buf, size_t size,
                             int ret_fds[DLR_FORK_SERVER_FDS], int flags)
{
    struct iovec part = {buf, size};
    union control control = {0};
    struct msghdr msg = {.msg_iov = &part,
                         .msg_iovlen = 1,
                         .msg_control = control.buf,
                         .msg_controllen = sizeof(control.buf)};
    ssize_t n;

    for (unsigned i = 0; i < DLR_FORK_SERVER_FDS; i++)
        ret_fds[i] = -1;
    do
        n = recvmsg(fd, &msg, flags | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            memcpy(ret_fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
    return n;
}

/* --- the process that forks the others -------------------------------------------- */

/* The child of an early process has little to keep, but all its descriptors. */
static int keep_only(int fd)
{
    int null_fd = open("/dev/null", O_RDWR);

    if (null_fd < 0)
        return -errno;
    fd = fcntl(fd, F_DUPFD, SERVE_FD + 1);
    for (int i = 0; i < SERVE_FD; i++)
        if (dup2(null_fd, i) < 0)
            return -errno;
    if (fd < 0 || dup2(fd, SERVE_FD) < 0)
        return -errno;
    return close_range(SERVE_FD + 1, ~0U, 0) < 0 ? -errno : 0;
}

static void work(const struct request *r, int fd, pid_t parent)
{
    prctl(PR_SET_NAME, r->name);
    if (!r->outlives) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            return;
    }
    close(SERVE_FD);
    r->fn(fd);
}

/* It never looks at a file, so it ends at once with whom it serves. */
static void serve(void)
{
    pid_t self = getpid();
    int fds[DLR_FORK_SERVER_FDS];
    struct request r;

    prctl(PR_SET_NAME, "dlrover-files");
    signal(SIGCHLD, SIG_IGN); /* nobody waits for them */
    signal(SIGPIPE, SIG_IGN);
    while (dlr_fork_server_recv(SERVE_FD, &r, sizeof(r), fds, 0) == sizeof(r)) {
        if (fork() == 0) {
            work(&r, fds[0], self);
            _exit(0);
        }
        close(fds[0]);
    }
}

static int fork_server(struct dlr_fork_server *server)
{
    int pair[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    pid = fork();
    if (pid == 0) {
        if (keep_only(pair[1]) == 0)
            serve();
        _exit(0);
    }
    close(pair[1]);
    if (pid < 0) {
        int rc = -errno;

        close(pair[0]);
        return rc;
    }
    if (server->fd >= 0)
        close(server->fd);
    server->fd = pair[0];
    return 0;
}

/* --- ours ------------------------------------------------------------------------- */

int dlr_fork_server_new(struct dlr_fork_server **ret, struct dlr_err *err)
{
    struct dlr_fork_server *server = calloc(1, sizeof(*server));
    int rc = -ENOMEM;

    if (server) {
        server->fd = -1;
        rc = fork_server(server);
    }
    if (rc < 0) {
        free(server);
        return dlr_fail(err, rc, "cannot start a process for files: %s", strerror(-rc));
    }
    *ret = server;
    return 0;
}

int dlr_fork_server_start(struct dlr_fork_server *server, dlr_fork_server_fn fn,
                          const char *name, bool outlives, int *ret_fd)
{
    struct request r = {.fn = fn, .outlives = outlives};
    DLR_AUTO_CLOSE int theirs = -1;
    DLR_AUTO_CLOSE int ours = -1;
    ssize_t n;
    int pair[2], rc = 0;

    dlr_format(r.name, sizeof(r.name), "%s", name);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    ours = pair[0];
    theirs = pair[1];
    n = dlr_fork_server_send(server->fd, &r, sizeof(r), (int[]){theirs, -1});
    if (n == -EPIPE || n == -ECONNRESET) { /* somebody has killed it */
        rc = fork_server(server);
        n = rc < 0
                ? rc
                : dlr_fork_server_send(server->fd, &r, sizeof(r), (int[]){theirs, -1});
    }
    if (n < 0)
        return (int)n;
    *ret_fd = dlr_steal_fd(&ours);
    return 0;
}

struct dlr_fork_server *dlr_fork_server_free(struct dlr_fork_server *server)
{
    if (server) {
        close(server->fd);
        free(server);
    }
    return NULL;
}
