/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker and its node's agent say to each other, on the socket of its handle. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/supervised/supervised.h"
#include "common/base/clock.h"
#include "common/base/log.h"

#define SEND_MS 1000 /* the agent reads all the time; then it is as good as gone */

void dlr_supervised_gone(struct supervised *sup, const char *why)
{
    if (!atomic_exchange(&sup->gone, true))
        dlr_warn("nothing is saved from now on: %s", why);
}

/* -ETIMEDOUT when fd is not ready for events by deadline_ms. */
static int wait_fd(int fd, short events, int64_t deadline_ms)
{
    struct pollfd p = {fd, events, 0};
    int64_t left = deadline_ms - dlr_now_ms();
    int n;

    do
        n = poll(&p, 1, left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left);
    while (n < 0 && errno == EINTR && (left = deadline_ms - dlr_now_ms()) > 0);
    return n > 0 ? 0 : n == 0 ? -ETIMEDOUT : -errno;
}

int dlr_supervised_tell(struct supervised *sup)
{
    int64_t deadline = dlr_now_ms() + SEND_MS;
    int rc;

    while ((rc = dlr_local_send(sup->sock, &sup->msg, NULL, 0)) == -EAGAIN) {
        rc = wait_fd(sup->sock, POLLOUT, deadline);
        if (rc < 0)
            break;
    }
    if (rc < 0)
        dlr_supervised_gone(sup, "the agent of this node does not answer");
    return rc;
}

struct dlr_local_msg *dlr_supervised_compose(struct dlr_ckpt *ck,
                                             enum dlr_local_type type, uint64_t step)
{
    struct supervised *sup = ck->mode;

    dlr_local_init(&sup->msg, type);
    sup->msg.round = sup->round;
    sup->msg.rank = ck->conf.rank;
    sup->msg.step = step;
    return &sup->msg;
}

int dlr_supervised_await(struct dlr_ckpt *ck, enum dlr_local_type type,
                         int fds[DLR_LOCAL_FDS], unsigned *ret_nfds)
{
    struct supervised *sup = ck->mode;
    int64_t deadline = dlr_now_ms() + ck->conf.restore_ms;

    for (;;) {
        int rc = wait_fd(sup->sock, POLLIN, deadline);

        if (rc < 0)
            return dlr_fail(&ck->err, rc, "no word from the agent within %u ms",
                            ck->conf.restore_ms);
        rc = dlr_local_recv(sup->sock, &sup->msg, fds, ret_nfds);
        if (rc == -EAGAIN)
            continue;
        if (rc == 0)
            return dlr_fail(&ck->err, -ECONNRESET, "the agent closed the connection");
        if (rc < 0)
            return dlr_fail(&ck->err, rc, "cannot understand the agent: %s",
                            strerror(-rc));
        if (sup->msg.type == type)
            return 0;
        if (sup->msg.type == DLR_LOCAL_REFUSED)
            return dlr_fail(&ck->err, -(int)(sup->msg.arg[1] & INT32_MAX), "%s",
                            sup->msg.text);
        for (unsigned i = 0; i < *ret_nfds; i++)
            close(fds[i]);
    }
}
