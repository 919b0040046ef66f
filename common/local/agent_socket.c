/* SPDX-License-Identifier: Apache-2.0 */
#include "common/local/agent_socket.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/str.h"

/* In a container the socket's path names nothing; the descriptor that the task
 * inherited leads to it through /proc. The path comes first: most programs close what
 * they inherit before they start others, and that number may be any file by now (then
 * the connect fails).
 */
int dlr_agent_socket_connect(int64_t timeout_ms, int *ret_fd, struct dlr_err *err)
{
    const char *path = getenv("DLROVER_AGENT_SOCKET"), *fd = getenv("DLROVER_AGENT_FD");
    char name[64];
    unsigned number;
    int rc = dlr_local_connect(path, timeout_ms, ret_fd, err);

    if (rc == 0 || rc == -ETIMEDOUT || !fd || dlr_parse_uint(fd, INT_MAX, &number) < 0)
        return rc;
    dlr_format(name, sizeof(name), "/proc/self/fd/%u", number);
    if (dlr_local_connect(name, timeout_ms, ret_fd, NULL) == 0)
        return 0;
    return dlr_fail(err, rc,
                    "cannot reach the agent: neither '%s' nor descriptor %u "
                    "(DLROVER_AGENT_FD) leads to it; a container must keep one of them",
                    path, number);
}

int dlr_agent_socket_answer(int fd, int64_t deadline_ms, struct dlr_local_msg *ret_msg,
                            int ret_fds[DLR_LOCAL_FDS], unsigned *ret_nfds)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int64_t left_ms;
    int n;

    do {
        left_ms = deadline_ms - dlr_now_ms();
        n = poll(&ready, 1,
                 left_ms < 0         ? 0
                 : left_ms > INT_MAX ? INT_MAX
                                     : (int)left_ms);
    } while (n < 0 && errno == EINTR && left_ms > 0);
    if (n <= 0)
        return n == 0 || errno == EINTR ? -ETIMEDOUT : -errno;
    return dlr_local_recv(fd, ret_msg, ret_fds, ret_nfds);
}
