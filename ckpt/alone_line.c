/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/alone_line.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/slot.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/str.h"

#define TEXT_MAX 64
#define LOCK_ROOM 32
#define WORD_MAX 128
#define WORD_OUT "dlrover-line 1\nstep %" PRIu64 "\nline %016" PRIx64 "\n"
#define WORD_IN "dlrover-line 1 step %20" SCNu64 " line %16" SCNx64
#define LOOK_MS 100 /* nothing tells when another node's program ends */

/* The kernel gives a lock up when the process closes any descriptor of the file: each file is opened once, and closed
 * by the last handle that has it.
 */
struct held {
    struct held *next;
    dev_t dev;
    ino_t ino;
    pid_t pid;
    int fd;
    unsigned uses;
};

static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
static struct held *held;

/* The descriptor of a lock that this process has; -1. */
static int share(int dirfd, const char *name)
{
    struct stat st;
    int fd = -1;

    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    pthread_mutex_lock(&held_lock);
    for (struct held *h = held; h && fd < 0; h = h->next)
        if (h->dev == st.st_dev && h->ino == st.st_ino && h->pid == getpid()) {
            h->uses++;
            fd = h->fd;
        }
    pthread_mutex_unlock(&held_lock);
    return fd;
}

static int keep(int fd, struct dlr_err *err)
{
    struct held *h = calloc(1, sizeof(*h));
    struct stat st;

    if (!h || fstat(fd, &st) < 0) {
        free(h);
        return dlr_fail(err, -ENOMEM, "no memory");
    }
    *h = (struct held){NULL, st.st_dev, st.st_ino, getpid(), fd, 1};
    pthread_mutex_lock(&held_lock);
    h->next = held;
    held = h;
    pthread_mutex_unlock(&held_lock);
    return 0;
}

void dlr_alone_unlock(int fd)
{
    struct held **at = &held, *last = NULL;

    pthread_mutex_lock(&held_lock);
    while (*at && ((*at)->fd != fd || (*at)->pid != getpid()))
        at = &(*at)->next;
    if (*at && --(*at)->uses == 0) {
        last = *at;
        *at = last->next;
        close(last->fd);
    }
    pthread_mutex_unlock(&held_lock);
    free(last);
}

static struct flock whole_file(void)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

/* What the holder of fd's lock has said last, here or in an earlier life, counts no more. */
static void take_back(int fd)
{
    if (ftruncate(fd, 0) < 0)
        dlr_debug("cannot empty a lock's file: %m");
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
    int rc;

    dlr_format(name, sizeof(name), ".lock-%d", rank);
    *ret_fd = share(dirfd, name);
    if (*ret_fd >= 0)
        return 0;
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
    if (fd >= 0)
        take_back(fd);
    rc = fd >= 0 ? keep(fd, err) : 0;
    if (rc == 0)
        *ret_fd = dlr_steal_fd(&fd);
    return rc;
}

void dlr_alone_line_say(int fd, uint64_t step, uint64_t line)
{
    char text[WORD_MAX];

    dlr_format(text, sizeof(text), WORD_OUT, step, line);
    if (fd >= 0 && (pwrite(fd, text, strlen(text), 0) < 0 || fsync(fd) < 0))
        dlr_debug("cannot say which line goes on: %m");
}

/* As the kernel of another process sees it: what fd's file says is of one that lives. */
static bool is_locked(int fd)
{
    struct flock lock = whole_file();

    return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool dlr_alone_line_said(int dirfd, int rank, uint64_t *ret_step, uint64_t *ret_line)
{
    DLR_AUTO_CLOSE int fd = -1;
    char name[LOCK_ROOM], text[WORD_MAX] = "", again[WORD_MAX];
    uint64_t step, line;
    int own;

    dlr_format(name, sizeof(name), ".lock-%d", rank);
    own = share(dirfd, name); /* never opened twice */
    if (own < 0)
        fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (own < 0 && (fd < 0 || !is_locked(fd)))
        return false;
    if (pread(own < 0 ? fd : own, text, sizeof(text) - 1, 0) < 0)
        text[0] = '\0';
    dlr_alone_unlock(own);
    if (sscanf(text, WORD_IN, &step, &line) != 2)
        return false;
    dlr_format(again, sizeof(again), WORD_OUT, step, line);
    if (!dlr_streq(text, again))
        return false;
    *ret_step = step;
    *ret_line = line;
    return true;
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
