/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/keeper/child_exits.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <unistd.h>

struct record {
    uint32_t nth; /* 0: empty */
    int32_t pid, status, unused;
};
static_assert(sizeof(struct record) * DLR_CHILD_EXITS == 4096,
              "one page of the memory file");

int dlr_child_exits_add(int fd, unsigned nth, pid_t pid, int status)
{
    struct record r = {.nth = nth, .pid = pid, .status = status};
    off_t at = DLR_CHILD_EXITS_AT + (nth % DLR_CHILD_EXITS) * sizeof(r);
    ssize_t n = pwrite(fd, &r, sizeof(r), at);

    if (n < 0)
        return -errno;
    return n == sizeof(r) ? 0 : -EIO;
}

int dlr_child_exits_find(int fd, pid_t pid, int *ret_status)
{
    struct record all[DLR_CHILD_EXITS];
    ssize_t n = pread(fd, all, sizeof(all), DLR_CHILD_EXITS_AT);
    uint32_t newest = 0;

    for (unsigned i = 0; n > 0 && i < n / sizeof(*all); i++)
        if (all[i].pid == pid && all[i].nth > newest) {
            newest = all[i].nth;
            *ret_status = all[i].status;
        }
    return newest ? 0 : -ENOENT;
}
