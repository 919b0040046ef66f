/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/standalone/lineage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/slot/slot.h"
#include "ckpt/standalone/launch_id.h"
#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/str.h"

#define TEXT_MAX 64
#define LOCK_ROOM 32
#define WORD_MAX 128
#define WORD_OUT "dlrover-line 1\nstep %" PRIu64 "\nline %016" PRIx64 "\n"
#define WORD_IN "dlrover-line 1 step %20" SCNu64 " line %16" SCNx64
#define START_AT WORD_MAX /* in a lock's file: behind the word */
#define LOOK_MS 100       /* nothing tells when another node's program ends */

/* The kernel gives a lock up when the process closes any descriptor of the file: each
 * file is opened once, and closed by the last handle that has it.
 */
struct held {
    struct held *next;
    dev_t dev;
    ino_t ino;
    pid_t pid;
    int fd;
    unsigned uses;
    const void *user; /* of its handles the one that saves */
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
    *h = (struct held){NULL, st.st_dev, st.st_ino, getpid(), fd, 1, NULL};
    pthread_mutex_lock(&held_lock);
    h->next = held;
    held = h;
    pthread_mutex_unlock(&held_lock);
    return 0;
}

void dlr_standalone_unlock(int fd)
{
    struct held **at = &held, *last = NULL;

    pthread_mutex_lock(&held_lock);
    while (*at && ((*at)->fd != fd || (*at)->pid != getpid()))
        at = &(*at)->next;
    if (*at && --(*at)->uses == 0) {
        last = *at;
        *at = last->next;
        if (ftruncate(last->fd, START_AT) < 0) /* who is killed leaves it as it is */
            dlr_debug("cannot say that a start has ended: %m");
        close(last->fd);
    }
    pthread_mutex_unlock(&held_lock);
    free(last);
}

void dlr_standalone_lock_use(int fd, const void *handle)
{
    pthread_mutex_lock(&held_lock);
    for (struct held *h = held; h; h = h->next)
        if (h->fd == fd)
            h->user = handle;
    pthread_mutex_unlock(&held_lock);
}

bool dlr_standalone_lock_is_used_by(int fd, const void *handle)
{
    bool is = true;

    pthread_mutex_lock(&held_lock);
    for (struct held *h = held; h; h = h->next)
        if (h->fd == fd)
            is = h->user == handle;
    pthread_mutex_unlock(&held_lock);
    return is;
}

static struct flock whole_file(void)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

/* What the holder of fd's lock has said last, here or in an earlier life, counts no
 * more.
 */
static void take_back(int fd)
{
    if (ftruncate(fd, 0) < 0)
        dlr_debug("cannot empty a lock's file: %m");
}

/* Who has it, as far as the kernel knows: a process of another node has a number of its
 * own there.
 */
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

/* As the kernel of another process sees it: what fd's file says is of one that lives.
 */
static bool is_locked(int fd)
{
    struct flock lock = whole_file();

    return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* What the file system says to a program that asks for a lock, where it has none. */
static bool has_no_locks(int error)
{
    return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL;
}

static void warn_no_lock(const char *what, int rank, int error)
{
    static atomic_bool told;

    if (!atomic_exchange(&told, true))
        dlr_warn("the checkpoint directory's %s (rank %d: %s): "
                 "nothing tells whether another program saves there, and what is not "
                 "of this one is not removed",
                 what, rank, strerror(error));
}

/* Where nothing can be written that is told with the first file. */
static void warn_not_opened(int dirfd, int rank, int error)
{
    if (faccessat(dirfd, ".", W_OK, 0) == 0)
        warn_no_lock("lock cannot be opened", rank, error);
}

/* Waits for who has it. -1 in *ret_fd: there are no locks. */
static int lock_own(int dirfd, int rank, int64_t until, int *ret_fd,
                    struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = -1;
    char name[LOCK_ROOM];
    int rc;

    *ret_fd = -1;
    dlr_format(name, sizeof(name), ".lock-%d", rank);
    fd = openat(dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        warn_not_opened(dirfd, rank, errno);
        return 0;
    }
    for (;;) {
        struct flock lock = whole_file();

        /* Of the process: a child that a dead program leaves does not hold it. */
        if (fcntl(fd, F_SETLK, &lock) == 0)
            break;
        if (errno != EAGAIN && errno != EACCES) {
            if (has_no_locks(errno))
                warn_no_lock("file system has no locks", rank, errno);
            return 0;
        }
        if (dlr_now_ms() >= until)
            return refuse(fd, rank, err);
        poll(NULL, 0, LOOK_MS);
    }
    take_back(fd);
    rc = keep(fd, err);
    if (rc == 0)
        *ret_fd = dlr_steal_fd(&fd);
    return rc;
}

/* What the last one that had the lock of rank has said of its start, and whether it has
 * the lock now; false: it has given it back, or is this process.
 */
static bool read_start(int dirfd, int rank, struct dlr_standalone_start *ret,
                       bool *ret_locked)
{
    char name[LOCK_ROOM], text[DLR_STANDALONE_START_MAX] = "";
    DLR_AUTO_CLOSE int fd = -1;
    int mine;

    dlr_format(name, sizeof(name), ".lock-%d", rank);
    mine = share(dirfd, name); /* never opened twice */
    if (mine >= 0) {
        dlr_standalone_unlock(mine);
        return false;
    }
    fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    *ret_locked = is_locked(fd);
    return pread(fd, text, sizeof(text) - 1, START_AT) > 0 &&
           dlr_standalone_start_parse(text, ret) == 0;
}

/* Whether rank of a start that is known to be another one than own saves there now. */
static bool is_anothers(int dirfd, int rank, const struct dlr_standalone_start *own)
{
    struct dlr_standalone_start its;
    bool locked;

    return read_start(dirfd, rank, &its, &locked) && locked &&
           dlr_standalone_start_differs(own, &its);
}

/* Rank 0 looks at all, the others at rank 0: no version is without its file. -1: there
 * is none.
 */
static int find_another(int dirfd, int rank, const struct dlr_standalone_start *own)
{
    DLR_AUTO_CLOSE int fd = -1;
    DLR_AUTO_CLOSEDIR DIR *dir = NULL;

    if (rank > 0)
        return is_anothers(dirfd, 0, own) ? 0 : -1;
    fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return -1;
    dlr_steal_fd(&fd);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        int other;

        if (sscanf(entry->d_name, ".lock-%9d", &other) == 1 && other > 0 &&
            is_anothers(dirfd, other, own))
            return other;
    }
    return -1;
}

/* Each says who it is before it looks at the others: of two that come at once one sees
 * the other.
 */
static int meet(int dirfd, int rank, int world, int fd, int64_t until,
                struct dlr_err *err)
{
    struct dlr_standalone_start own;
    char text[DLR_STANDALONE_START_MAX];
    int other;

    dlr_standalone_start_get(world, &own);
    dlr_standalone_start_text(&own, text);
    if (pwrite(fd, text, strlen(text), START_AT) < 0 || fsync(fd) < 0)
        return dlr_fail(err, -errno, "cannot write to '.lock-%d': %m", rank);
    while ((other = find_another(dirfd, rank, &own)) >= 0) {
        if (dlr_now_ms() >= until)
            return dlr_fail(err, -EBUSY,
                            "another program saves in this directory as rank %d, and "
                            "files of both would be mixed: give each its own",
                            other);
        poll(NULL, 0, LOOK_MS);
    }
    return 0;
}

int dlr_standalone_lock(int dirfd, int rank, int world, unsigned limit_ms, int *ret_fd,
                        struct dlr_err *err)
{
    const int64_t until = dlr_now_ms() + limit_ms;
    char name[LOCK_ROOM];
    int rc, fd;

    dlr_format(name, sizeof(name), ".lock-%d", rank);
    fd = share(dirfd, name);
    if (fd < 0) {
        rc = lock_own(dirfd, rank, until, &fd, err);
        if (rc == 0 && fd >= 0)
            rc = meet(dirfd, rank, world, fd, until, err);
        if (rc < 0) {
            dlr_standalone_unlock(fd);
            return rc;
        }
    }
    *ret_fd = fd;
    return 0;
}

bool dlr_standalone_was_killed(int dirfd, int rank)
{
    struct dlr_standalone_start its;
    bool locked;

    return read_start(dirfd, rank, &its, &locked) && !locked;
}

void dlr_standalone_line_say(int fd, uint64_t step, uint64_t line)
{
    char text[WORD_MAX];

    dlr_format(text, sizeof(text), WORD_OUT, step, line);
    if (fd >= 0 && (pwrite(fd, text, strlen(text), 0) < 0 || fsync(fd) < 0))
        dlr_debug("cannot say which line goes on: %m");
}

bool dlr_standalone_line_said(int dirfd, int rank, uint64_t *ret_step,
                              uint64_t *ret_line)
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
    dlr_standalone_unlock(own);
    if (sscanf(text, WORD_IN, &step, &line) != 2)
        return false;
    dlr_format(again, sizeof(again), WORD_OUT, step, line);
    if (!dlr_streq(text, again))
        return false;
    *ret_step = step;
    *ret_line = line;
    return true;
}

int dlr_standalone_line_new(uint64_t *ret, struct dlr_err *err)
{
    if (getrandom(ret, sizeof(*ret), 0) != sizeof(*ret))
        return dlr_fail(err, -EIO, "no random number is to be had");
    return 0;
}

uint64_t dlr_standalone_line_after(uint64_t line, uint64_t step)
{
    char text[TEXT_MAX];

    dlr_format(text, sizeof(text), "%016" PRIx64 ".%" PRIu64, line, step);
    return dlr_slot_key(text);
}
