/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ckpt/slot/meta.h"
#include "ckpt/slot/slot.h"
#include "common/base/cleanup.h"
#include "common/base/file.h"

#define TOUCH_THREADS 8                /* at most */
#define TOUCH_MIN (UINT64_C(64) << 20) /* bytes a thread is worth */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* The file that blocks are read from when somebody asks for them. */
struct dlr_slot_file {
    int fd;
    uint64_t off;          /* of the data */
    char *data;            /* where it goes */
    uint32_t first;        /* no block before it is there */
    unsigned char there[]; /* per block */
};

struct dlr_slot {
    struct dlr_slot_page *page; /* the mapping */
    uint64_t bytes;
    int fd;                     /* -1: the caller's, or file's */
    struct dlr_slot_file *file; /* of a slot made by dlr_slot_over_file(), else NULL */
};

void *dlr_slot_base(const struct dlr_slot *slot)
{
    return slot->page;
}

int dlr_slot_allow(struct dlr_slot *slot, uint64_t off, uint64_t bytes, bool write)
{
    uint64_t from = off / DLR_SLOT_PAGE * DLR_SLOT_PAGE;
    uint64_t to = dlr_align_up(off + bytes, DLR_SLOT_PAGE);

    if (from < DLR_SLOT_PAGE)
        from = DLR_SLOT_PAGE;
    if (to > slot->bytes)
        to = slot->bytes;
    if (from < to && mprotect((char *)slot->page + from, to - from,
                              write ? PROT_READ | PROT_WRITE : PROT_READ) < 0)
        return -errno;
    return 0;
}

int dlr_slot_fd(const struct dlr_slot *slot)
{
    return slot->fd;
}

uint64_t dlr_slot_bytes(const struct dlr_slot *slot)
{
    return slot->bytes;
}

enum dlr_slot_state dlr_slot_state(const struct dlr_slot *slot)
{
    uint32_t state = atomic_load_explicit(&slot->page->state, memory_order_acquire);

    return state > DLR_SLOT_COPYING ? DLR_SLOT_DEAD : (enum dlr_slot_state)state;
}

void dlr_slot_set_state(struct dlr_slot *slot, enum dlr_slot_state state)
{
    /* Before: what was written is visible to who sees the state. After: nobody sees
     * what is written next with the old state.
     */
    atomic_thread_fence(memory_order_seq_cst);
    atomic_store_explicit(&slot->page->state, (uint32_t)state, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
}

bool dlr_slot_take(struct dlr_slot *slot)
{
    uint32_t was = DLR_SLOT_FREE;

    if (atomic_compare_exchange_strong(&slot->page->state, &was, DLR_SLOT_OPEN))
        return true;
    return was == DLR_SLOT_DEAD &&
           atomic_compare_exchange_strong(&slot->page->state, &was, DLR_SLOT_OPEN);
}

static void free_file(struct dlr_slot_file *file)
{
    if (file)
        close(file->fd);
    free(file);
}

bool dlr_slot_take_for_copy(struct dlr_slot *slot, enum dlr_slot_state was)
{
    uint32_t state = was;

    return atomic_compare_exchange_strong(&slot->page->state, &state, DLR_SLOT_COPYING);
}

struct dlr_slot *dlr_slot_unmap(struct dlr_slot *slot)
{
    if (slot) {
        munmap(slot->page, slot->bytes);
        dlr_cleanup_close(&slot->fd);
        free_file(slot->file);
        free(slot);
    }
    return NULL;
}

/* Memory of this process's own; of what is read piece by piece most is never there at
 * once.
 */
#define OWN (MAP_PRIVATE | MAP_ANONYMOUS)
#define OWN_IN_PIECES (OWN | MAP_NORESERVE)

static int map(int fd, uint64_t bytes, int prot, int flags, struct dlr_slot **ret,
               struct dlr_err *err)
{
    struct dlr_slot *slot = calloc(1, sizeof(*slot));

    if (!slot)
        return dlr_fail(err, -ENOMEM, "no memory");
    slot->page = mmap(NULL, bytes, prot, flags, fd, 0);
    if (slot->page == MAP_FAILED) {
        int code = -errno;

        free(slot);
        return dlr_fail(err, code, "cannot map a slot of %" PRIu64 " bytes: %s", bytes,
                        strerror(-code));
    }
    slot->bytes = bytes;
    slot->fd = -1;
    *ret = slot;
    return 0;
}

static void format(struct dlr_slot *slot)
{
    slot->page->magic = 0;
    slot->page->version = DLR_META_VERSION;
    slot->page->bytes = slot->bytes;
    dlr_slot_set_state(slot, DLR_SLOT_FREE);
    slot->page->magic = DLR_SLOT_MAGIC;
}

int dlr_slot_anonymous(uint64_t size, struct dlr_slot **ret, struct dlr_err *err)
{
    int rc = map(-1, size, PROT_READ | PROT_WRITE, OWN, ret, err);

    if (rc < 0)
        return rc;
    /* Else a child would keep what it was, and each page be copied when it is written
     * next. Where that is refused it costs memory only.
     */
    madvise((*ret)->page, size, MADV_DONTFORK);
    format(*ret);
    return 0;
}

/* 0 with the file's size when fd is a slot file that is all there. */
static int check_file(int fd, uint64_t *ret_bytes, struct dlr_err *err)
{
    struct dlr_slot_page page;
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) < 0)
        return dlr_fail(err, -errno, "cannot look at a slot file: %m");
    if (!S_ISREG(st.st_mode))
        return dlr_fail(err, -EBADMSG, "not a regular file");
    n = pread(fd, &page, sizeof(page), 0);
    if (n < 0)
        return dlr_fail(err, -errno, "cannot read a slot file: %m");
    if (n < (ssize_t)sizeof(page) || page.magic != DLR_SLOT_MAGIC)
        return dlr_fail(err, -EBADMSG, "not a slot file");
    if (page.version != DLR_META_VERSION)
        return dlr_fail(err, -EBADMSG, "unknown slot version %" PRIu32, page.version);
    if (page.bytes < 2 * DLR_SLOT_PAGE || page.bytes > DLR_SLOT_DATA_MAX ||
        page.bytes > (uint64_t)st.st_size)
        return dlr_fail(err, -EBADMSG,
                        "a slot of %" PRIu64 " bytes in a file of %" PRIu64, page.bytes,
                        (uint64_t)st.st_size);
    *ret_bytes = page.bytes;
    return 0;
}

int dlr_slot_map(int fd, bool writable, struct dlr_slot **ret, struct dlr_err *err)
{
    uint64_t bytes;
    int rc = check_file(fd, &bytes, err);

    if (rc < 0)
        return rc;
    return map(fd, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
               ret, err);
}

static int new_file(int fd, uint64_t off, uint32_t nblocks, struct dlr_slot_file **ret,
                    struct dlr_err *err)
{
    struct dlr_slot_file *file = calloc(1, sizeof(*file) + nblocks);
    int rc;

    if (!file)
        return dlr_fail(err, -ENOMEM, "no memory");
    file->off = off;
    file->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (file->fd < 0) {
        rc = -errno;
        free(file);
        return dlr_fail(err, rc, "cannot keep it open: %s", strerror(-rc));
    }
    *ret = file;
    return 0;
}

int dlr_slot_over_file(const struct dlr_meta_head *head, int fd, uint64_t off,
                       struct dlr_slot **ret, struct dlr_err *err)
{
    struct dlr_slot_file *file = NULL;
    int rc = new_file(fd, off, head->nblocks, &file, err);

    if (rc == 0)
        rc = map(-1, head->data_off + dlr_align_up(head->data_bytes, DLR_SLOT_PAGE),
                 PROT_READ | PROT_WRITE, OWN_IN_PIECES, ret, err);
    if (rc < 0) {
        free_file(file);
        return rc;
    }
    file->data = (char *)(*ret)->page + head->data_off;
    (*ret)->file = file;
    return 0;
}

int dlr_slot_fetch(const struct dlr_slot *slot, uint32_t i, void *data, size_t bytes)
{
    struct dlr_slot_file *file = slot->file;
    int rc;

    if (!file || file->there[i])
        return 0;
    rc = dlr_read_at(file->fd, data, bytes, file->off + (uint64_t)i * DLR_SLOT_BLOCK);
    if (rc < 0)
        return rc;
    file->there[i] = 1;
    if (i < file->first)
        file->first = i;
    return 0;
}

void dlr_slot_pass(const struct dlr_slot *slot, uint32_t i)
{
    struct dlr_slot_file *file = slot->file;

    for (; file && file->first < i; file->first++) {
        if (!file->there[file->first])
            continue;
        madvise(file->data + (uint64_t)file->first * DLR_SLOT_BLOCK, DLR_SLOT_BLOCK,
                MADV_DONTNEED);
        file->there[file->first] = 0;
    }
}

bool dlr_slot_is_read(const struct dlr_slot *slot)
{
    return slot->file != NULL;
}

int dlr_slot_renew(struct dlr_slot *slot, int fd, uint64_t off, uint64_t bytes)
{
    uint64_t from = off / DLR_SLOT_PAGE * DLR_SLOT_PAGE;
    uint64_t to = dlr_align_up(off + bytes, DLR_SLOT_PAGE);

    if (to > slot->bytes)
        to = slot->bytes;
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
                  (off_t)(to - from)) < 0 ||
        fallocate(fd, 0, (off_t)from, (off_t)(to - from)) < 0)
        return -errno;
    if (from == 0)
        format(slot);
    return 0;
}

bool dlr_slot_has_page(const struct dlr_slot *slot, unsigned i)
{
    char byte;
    const struct iovec to = {&byte, 1},
                       from = {(char *)dlr_slot_base(slot) + i * DLR_SLOT_PAGE, 1};

    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1 ||
           (errno != EFAULT && errno != EHWPOISON);
}

bool dlr_slot_has_head(const struct dlr_slot *slot)
{
    return dlr_slot_has_page(slot, 0) && dlr_slot_has_page(slot, 1);
}

struct touch {
    pthread_t thread;
    char *from;
    uint64_t bytes;
    int rc;
};

static void *touch_run(void *arg)
{
    struct touch *t = arg;

    if (madvise(t->from, t->bytes, MADV_POPULATE_WRITE) == 0)
        return NULL;
    t->rc = -errno;
    if (t->rc != -EINVAL) /* an older kernel does not know the advice */
        return NULL;
    t->rc = 0;
    for (uint64_t i = 0; i < t->bytes; i += DLR_SLOT_PAGE)
        __atomic_fetch_or(&t->from[i], 0, __ATOMIC_RELAXED);
    return NULL;
}

int dlr_slot_touch(struct dlr_slot *slot, unsigned threads)
{
    struct touch part[TOUCH_THREADS] = {0};
    uint64_t n = slot->bytes / TOUCH_MIN + 1, step;
    int rc;

    if (n > TOUCH_THREADS)
        n = TOUCH_THREADS;
    if (n > threads)
        n = threads;
    step = dlr_align_up(slot->bytes / n, DLR_SLOT_PAGE);
    for (uint64_t i = 0; i < n; i++) {
        part[i].from = (char *)slot->page + i * step;
        part[i].bytes = i + 1 < n ? step : slot->bytes - i * step;
        if (i > 0 && pthread_create(&part[i].thread, NULL, touch_run, &part[i]) != 0) {
            part[i].thread = 0;
            touch_run(&part[i]);
        }
    }
    touch_run(&part[0]);
    rc = part[0].rc;
    for (uint64_t i = 1; i < n; i++) {
        if (part[i].thread)
            pthread_join(part[i].thread, NULL);
        rc = part[i].rc < 0 ? part[i].rc : rc;
    }
    return rc;
}

/* Opens or creates a file of our own. *ret_old is its size before. */
static int open_own(int dirfd, const char *name, int *ret_fd, uint64_t *ret_old,
                    struct dlr_err *err)
{
    int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    DLR_AUTO_CLOSE int fd = openat(dirfd, name, flags, 0600);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return dlr_fail(err, -errno, "cannot open '%s': %m", name);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return dlr_fail(err, -EEXIST, "'%s' is there and is no file of ours", name);
    *ret_old = (uint64_t)st.st_size;
    *ret_fd = dlr_steal_fd(&fd);
    return 0;
}

/* Makes every page of the mapping exist: a write to one that does not is a SIGBUS when
 * there is no room for it. posix_fallocate() comes first, since it tells before it has
 * filled the node that the file system is too small; it does not clear the pages, the
 * threads do.
 */
static int reserve(struct dlr_slot *slot, int fd, struct dlr_err *err)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int rc = -posix_fallocate(fd, 0, (off_t)slot->bytes);

    if (rc == 0)
        rc = dlr_slot_touch(slot, cpus > 0 ? (unsigned)cpus : 1);
    if (rc == -EFAULT) /* how a fault tells that there is no page */
        rc = -ENOSPC;
    return rc < 0 ? dlr_fail(err, rc, "cannot reserve %" PRIu64 " bytes: %s",
                             slot->bytes, strerror(-rc))
                  : 0;
}

/* A tmpfs gives huge pages to what lies within a file's end, which posix_fallocate()
 * moves last.
 */
static int set_end(int fd, uint64_t size)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    return (uint64_t)st.st_size < size && ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
}

/* Makes the file a slot of at least size bytes; a slot that is there keeps its
 * contents.
 */
static int fill_slot(int fd, uint64_t size, struct dlr_slot **ret, struct dlr_err *err)
{
    uint64_t old = 0;
    bool adopted = check_file(fd, &old, NULL) == 0;
    struct dlr_slot *slot;
    int rc;

    if (old > size)
        size = old;
    rc = set_end(fd, size);
    if (rc < 0)
        return dlr_fail(err, rc, "cannot make a file of %" PRIu64 " bytes: %s", size,
                        strerror(-rc));
    rc = map(fd, size, PROT_READ | PROT_WRITE, MAP_SHARED, &slot, err);
    if (rc < 0)
        return rc;
    rc = reserve(slot, fd, err);
    if (rc < 0) {
        dlr_slot_unmap(slot);
        return rc;
    }
    if (adopted)
        slot->page->bytes = size;
    else
        format(slot);
    *ret = slot;
    return 0;
}

int dlr_slot_create(int dirfd, const char *name, uint64_t size, struct dlr_slot **ret,
                    struct dlr_err *err)
{
    DLR_AUTO_CLOSE int fd = -1;
    struct dlr_err why;
    uint64_t old = 0;
    int rc;

    if (size < 2 * DLR_SLOT_PAGE || size > DLR_SLOT_DATA_MAX || size % DLR_SLOT_PAGE)
        return dlr_fail(err, -EINVAL, "a slot cannot have %" PRIu64 " bytes", size);
    rc = open_own(dirfd, name, &fd, &old, err);
    if (rc < 0)
        return rc;
    rc = fill_slot(fd, size, ret, &why);
    if (rc < 0) {
        /* What was there stays as it was; what was not leaves nothing. */
        if (old == 0 || ftruncate(fd, (off_t)old) < 0)
            unlinkat(dirfd, name, 0);
        return dlr_fail(err, rc, "slot '%s': %s", name, why.text);
    }
    (*ret)->fd = dlr_steal_fd(&fd);
    return 0;
}
