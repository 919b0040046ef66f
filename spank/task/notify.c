/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/task/notify.h"

#include <errno.h>

#include "common/base/cleanup.h"
#include "common/local/message.h"

static int tell(int fd, enum dlr_local_type type, uint32_t round, int rank,
                uint64_t arg)
{
    struct dlr_local_msg msg;

    if (fd < 0)
        return -ENOTCONN;
    dlr_local_init(&msg, type);
    msg.round = round;
    msg.rank = rank;
    msg.arg[0] = arg;
    return dlr_local_send(fd, &msg, NULL, 0);
}

int dlr_notify_step(const char *socket, uint32_t round, int *ret_fd,
                    struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = -1;
    int rc = dlr_local_connect(socket, 0, &fd, err);

    if (rc < 0)
        return rc;
    rc = tell(fd, DLR_LOCAL_STEPD, round, -1, 0);
    if (rc < 0)
        return dlr_fail(err, rc, "cannot tell the agent of the step");
    *ret_fd = dlr_steal_fd(&fd);
    return 0;
}

int dlr_notify_task(int fd, uint32_t round, int rank, pid_t pid)
{
    return tell(fd, DLR_LOCAL_TASK, round, rank, pid);
}

int dlr_notify_exit(int fd, uint32_t round, int rank, int status)
{
    return tell(fd, DLR_LOCAL_EXIT, round, rank, (uint32_t)status);
}
