/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/alone_line.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "ckpt/slot.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/str.h"

#define TEXT_MAX 64
#define LOCK_ROOM 32
#define LOOK_MS 100 /* nothing tells when another node's program ends */

static struct flock whole_file(void)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

/* Who has it, as far as the kernel knows: a process of another node has a number of its own there. */
static int refuse(int fd, int rank, struct dlr_err *err)
{
    struct flock lock = whole_file();

    if (fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
        lock.l_pid = 0;
    return dlr_fail(
        err, -EBUSY,
        "another program (process %d) saves in this directory as rank %d: "
        "give each its own, or its own rank; if none runs, since the node of "
        "the last one died with its lock, remove '.lock-%d'",
        (int)lock.l_pid, rank, rank);
}

int dlr_alone_lock(int dirfd, int rank, unsigned limit_ms, int *ret_fd,
                   struct dlr_err *err)
{
    const int64_t until = dlr_now_ms() + limit_ms;
    DLR_AUTO_CLOSE int fd = -1;
    char name[LOCK_ROOM];

    dlr_format(name, sizeof(name), ".lock-%d", rank);
    fd = openat(dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    for (;;) {
        struct flock lock = whole_file();

        /* Of the process: a child that a dead program leaves does not hold it. */
        if (fd < 0 || fcntl(fd, F_SETLK, &lock) == 0)
            break;
        if (errno != EAGAIN && errno != EACCES) {
            dlr_cleanup_close(&fd);
            fd = -1;
            break;
        }
        if (dlr_now_ms() >= until)
            return refuse(fd, rank, err);
        poll(NULL, 0, LOOK_MS);
    }
    *ret_fd = dlr_steal_fd(&fd);
    return 0;
}

int dlr_alone_line_new(uint64_t *ret, struct dlr_err *err)
{
    if (getrandom(ret, sizeof(*ret), 0) != sizeof(*ret))
        return dlr_fail(err, -EIO, "no random number is to be had");
    return 0;
}

uint64_t dlr_alone_line_after(uint64_t line, uint64_t step)
{
    char text[TEXT_MAX];

    dlr_format(text, sizeof(text), "%016" PRIx64 ".%" PRIu64, line, step);
    return dlr_slot_key(text);
}
