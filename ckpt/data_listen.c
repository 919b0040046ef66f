/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/data_listen.h"

#include <errno.h>
#include <linux/filter.h>
#include <net/if.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"

#define PORTS 256 /* a connection for bulk has one of its own */

static struct {
    bool admit;
    int fds[PORTS]; /* which may have been closed, and be others by now */
    unsigned n;
} ports;

/* What comes over the loopback device is of this host, whatever address it says it is from. A connection that is
 * accepted has the filter, too.
 */
static int keep_out(int fd)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_IFINDEX)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, if_nametoindex("lo"), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    const struct sock_fprog prog = {sizeof(code) / sizeof(*code), code};

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

static bool listens(int fd)
{
    socklen_t size = sizeof(int);
    int is = 0;

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &size) == 0 && is;
}

static void set(int fd)
{
    int none = 0, rc;

    rc = ports.admit ? setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none))
                     : keep_out(fd);
    if (rc < 0 && !(ports.admit && errno == ENOENT))
        dlr_info("processes of this host can connect to a port: %s", strerror(errno));
}

void dlr_listen_local(bool admit)
{
    unsigned n = 0;

    if (ports.admit == admit)
        return;
    ports.admit = admit;
    for (unsigned i = 0; i < ports.n; i++) {
        if (!listens(ports.fds[i]))
            continue;
        set(ports.fds[i]);
        ports.fds[n++] = ports.fds[i];
    }
    ports.n = n;
}

/* In place of the C library's, for libraries, too. */
int listen(int fd, int backlog)
{
    unsigned i = 0;

    while (i < ports.n && ports.fds[i] != fd)
        i++;
    if (i < PORTS)
        ports.fds[i] = fd;
    if (i == ports.n && i < PORTS)
        ports.n++;
    if (!ports.admit)
        set(fd);
    return (int)syscall(SYS_listen, fd, backlog);
}
