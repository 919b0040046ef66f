/* SPDX-License-Identifier: Apache-2.0 */
#include "common/local/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/str.h"

#define HEAD_BYTES offsetof(struct dlr_local_msg, text)
#define LISTEN_BACKLOG 64
#define KERNEL_FDS 253 /* SCM_MAX_FD: what a peer can send at most in one message */

void dlr_local_init(struct dlr_local_msg *msg, enum dlr_local_type type)
{
    memset(msg, 0, sizeof(*msg));
    msg->magic = DLR_LOCAL_MAGIC;
    msg->version = DLR_LOCAL_VERSION;
    msg->type = (uint16_t)type;
    msg->rank = -1;
}

void dlr_local_text(struct dlr_local_msg *msg, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(msg->text, sizeof(msg->text), fmt, ap);
    va_end(ap);
    msg->text_len = (uint32_t)strlen(msg->text);
}

int dlr_local_send(int fd, const struct dlr_local_msg *msg, const int *fds,
                   unsigned nfds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * DLR_LOCAL_FDS)];
    } control = {0};
    struct iovec part = {(void *)msg, HEAD_BYTES + msg->text_len};
    struct msghdr hdr = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t n;

    if (msg->text_len >= DLR_LOCAL_TEXT || nfds > DLR_LOCAL_FDS)
        return -EINVAL;
    if (nfds > 0) {
        struct cmsghdr *c = &control.align;

        hdr.msg_control = control.bytes;
        hdr.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
    }
    do
        n = sendmsg(fd, &hdr, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

/* Takes every descriptor out of hdr: the first DLR_LOCAL_FDS into fds, the rest closed.
 * Returns how many there were.
 */
static unsigned take_fds(struct msghdr *hdr, int fds[DLR_LOCAL_FDS])
{
    unsigned found = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c; c = CMSG_NXTHDR(hdr, c)) {
        size_t n;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++, found++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (found < DLR_LOCAL_FDS)
                fds[found] = fd;
            else
                close(fd);
        }
    }
    return found;
}

/* Whether the n bytes received are one whole message of ours. */
static int check(const struct dlr_local_msg *msg, size_t n)
{
    if (n < HEAD_BYTES || msg->magic != DLR_LOCAL_MAGIC ||
        msg->version != DLR_LOCAL_VERSION)
        return -EBADMSG;
    if (msg->text_len >= DLR_LOCAL_TEXT || n != HEAD_BYTES + msg->text_len)
        return -EBADMSG;
    return 0;
}

int dlr_local_recv(int fd, struct dlr_local_msg *ret_msg, int ret_fds[DLR_LOCAL_FDS],
                   unsigned *ret_nfds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * KERNEL_FDS)];
    } control;
    struct iovec part = {ret_msg, sizeof(*ret_msg)};
    struct msghdr hdr = {.msg_iov = &part,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    int fds[DLR_LOCAL_FDS];
    unsigned nfds;
    ssize_t n;

    do
        n = recvmsg(fd, &hdr, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    nfds = take_fds(&hdr, fds);
    if (n == 0 && nfds == 0)
        return 0;
    if (nfds > DLR_LOCAL_FDS || (hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
        check(ret_msg, (size_t)n) < 0) {
        for (unsigned i = 0; i < nfds && i < DLR_LOCAL_FDS; i++)
            close(fds[i]);
        return -EBADMSG;
    }
    ret_msg->text[ret_msg->text_len] = '\0';
    for (unsigned i = 0; i < nfds; i++)
        ret_fds[i] = fds[i];
    *ret_nfds = nfds;
    return 1;
}

static int address(const char *path, struct sockaddr_un *ret, struct dlr_err *err)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!*path || dlr_format(ret->sun_path, sizeof(ret->sun_path), "%s", path) < 0)
        return dlr_fail(err, -ENAMETOOLONG, "socket path '%s' must have 1 to %zu bytes",
                        path, sizeof(ret->sun_path) - 1);
    return 0;
}

/* A limit on each blocking call of the socket, connect included. */
static int set_timeout(int fd, int64_t timeout_ms)
{
    struct timeval tv = {.tv_sec = timeout_ms / 1000,
                         .tv_usec = timeout_ms % 1000 * 1000};

    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) < 0)
        return -errno;
    return 0;
}

/* Within timeout_ms (0: the socket does not block), whatever signals come: each try has
 * what is left of it.
 */
static int connect_within(int fd, const struct sockaddr_un *addr, int64_t timeout_ms)
{
    const int64_t deadline_ms = dlr_now_ms() + timeout_ms;
    int64_t left_ms = timeout_ms;
    int rc;

    do {
        rc = timeout_ms > 0 ? set_timeout(fd, left_ms) : 0;
        if (rc == 0 && connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0)
            rc = -errno;
        left_ms = deadline_ms - dlr_now_ms();
    } while (rc == -EINTR && left_ms > 0);
    if (timeout_ms > 0 && (rc == -EAGAIN || rc == -EINTR))
        return -ETIMEDOUT;
    return rc == 0 && timeout_ms > 0 ? set_timeout(fd, timeout_ms) : rc;
}

int dlr_local_connect(const char *path, int64_t timeout_ms, int *ret_fd,
                      struct dlr_err *err)
{
    int flags = SOCK_SEQPACKET | SOCK_CLOEXEC | (timeout_ms > 0 ? 0 : SOCK_NONBLOCK);
    struct sockaddr_un addr;
    DLR_AUTO_CLOSE int fd = -1;
    unsigned uid = 0;
    int pid, rc = address(path, &addr, err);

    if (rc < 0)
        return rc;
    fd = socket(AF_UNIX, flags, 0);
    if (fd < 0)
        return dlr_fail(err, -errno, "cannot make a socket: %m");
    rc = connect_within(fd, &addr, timeout_ms);
    if (rc < 0)
        return dlr_fail(err, rc, "cannot connect to '%s': %s", path, strerror(-rc));
    rc = dlr_local_peer(fd, &uid, &pid);
    if (rc == 0 && uid != geteuid())
        rc = -EPERM;
    if (rc < 0)
        return dlr_fail(err, rc, "'%s' is a socket of uid %u, not ours", path, uid);
    *ret_fd = dlr_steal_fd(&fd);
    return 0;
}

/* Removes a socket of ours that nobody listens on. -EADDRINUSE when somebody does,
 * -EEXIST when path is something else.
 */
static int remove_stale(const char *path, struct dlr_err *err)
{
    struct stat st;
    int fd = -1, rc;

    if (lstat(path, &st) < 0)
        return 0; /* bind will say it when this is more than absence */
    if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid())
        return dlr_fail(err, -EEXIST, "'%s' is there and is no socket of ours", path);
    rc = dlr_local_connect(path, 0, &fd, NULL);
    if (rc == 0)
        close(fd);
    if (rc != -ECONNREFUSED && rc != -ENOENT) /* -EAGAIN: alive, only busy */
        return dlr_fail(err, -EADDRINUSE, "another process listens on '%s'", path);
    if (unlink(path) < 0 && errno != ENOENT)
        return dlr_fail(err, -errno, "cannot remove '%s': %m", path);
    return 0;
}

int dlr_local_listen(const char *path, int *ret_fd, struct dlr_err *err)
{
    struct sockaddr_un addr;
    DLR_AUTO_CLOSE int fd = -1;
    int rc = address(path, &addr, err);

    if (rc == 0)
        rc = remove_stale(path, err);
    if (rc < 0)
        return rc;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    /* The mode of the socket becomes that of the file: no moment with a wider one. */
    if (fd < 0 || fchmod(fd, 0600) < 0)
        return dlr_fail(err, -errno, "cannot make a socket: %m");
    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return dlr_fail(err, -errno, "cannot bind '%s': %m", path);
    if (listen(fd, LISTEN_BACKLOG) < 0)
        return dlr_fail(err, -errno, "cannot listen on '%s': %m", path);
    *ret_fd = dlr_steal_fd(&fd);
    return 0;
}

int dlr_local_peer(int fd, unsigned *ret_uid, int *ret_pid)
{
    struct ucred cred;
    socklen_t size = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
        return -errno;
    *ret_uid = cred.uid;
    *ret_pid = cred.pid;
    return 0;
}
