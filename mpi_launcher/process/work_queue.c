/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/process/work_queue.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/str.h"

#define SOCKET_BYTES (1 << 20) /* what is in the socket is done even if we are killed */

/* Of the same program: the address of a function means the same on both sides. */
struct order {
    dlr_offload_fn fn;
    size_t memory; /* that comes with it: bytes, or 0 and a line follows, */
    size_t path_size, text_size; /* with their NULs */
};

struct dlr_work_item {
    struct dlr_work_item *next;
    size_t size;
    char bytes[]; /* an order and its line */
};

struct dlr_offload {
    void *memory;
    size_t size;
    int memory_fd;
    struct dlr_work_queue own; /* of dlr_offload_start() */
};

/* --- in the process apart --------------------------------------------------------- */

static bool do_in_memory(const struct order *order, const int *fds, int owner)
{
    void *memory =
        mmap(NULL, order->memory, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    int given[DLR_FORK_SERVER_FDS] = {fds[1], -1};
    struct dlr_err answer = {0};
    ssize_t sent;

    if (memory == MAP_FAILED)
        return false;
    answer.code = order->fn(memory, &given[0]);
    sent = dlr_fork_server_send(owner, &answer, sizeof(answer), given);
    if (given[0] >= 0)
        close(given[0]);
    close(fds[0]);
    munmap(memory, order->memory);
    return sent == sizeof(answer);
}

/* Nothing half: who is killed may have said part of a line. An owner who does not
 * listen is not waited for.
 */
static bool do_line(const struct order *order, bool first, int *fd, int owner)
{
    size_t size = order->path_size + order->text_size;
    DLR_AUTO_FREE char *path = malloc(size);
    struct dlr_work_line line = {.path = path, .size = order->text_size - 1};

    if (!path || dlr_read_all(owner, path, size) < 0)
        return false;
    line.text = path + order->path_size;
    line.err.code = order->fn ? order->fn(&line, fd) : 0;
    if (first || line.err.code < 0)
        dlr_fork_server_send(owner, &line.err, sizeof(line.err), (int[]){-1, -1});
    return true;
}

static void work(int owner)
{
    int fds[DLR_FORK_SERVER_FDS], fd = -1;
    bool first = true, more = true;
    struct order order;

    while (more && dlr_fork_server_recv(owner, &order, sizeof(order), fds,
                                        MSG_WAITALL) == sizeof(order)) {
        if (!order.memory && first)
            fd = fds[0];
        more = order.memory ? do_in_memory(&order, fds, owner)
                            : do_line(&order, first, &fd, owner);
        first = false;
    }
}

/* --- the process, from outside ---------------------------------------------------- */

static int start_process(struct dlr_work_queue *q)
{
    int bytes = SOCKET_BYTES, fds[DLR_FORK_SERVER_FDS] = {q->first_fd, -1};
    int rc = dlr_fork_server_start(q->fork_server, work, q->name, q->outlives, &q->fd);

    if (rc < 0)
        return rc;
    q->starts++;
    q->sent = q->heard = 0;
    q->begun = false;
    setsockopt(q->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    if (!q->first || dlr_fork_server_send(q->fd, q->first->bytes, q->first->size,
                                          fds) == (ssize_t)q->first->size)
        return 0;
    close(dlr_steal_fd(&q->fd));
    return -EIO;
}

static void start_again(struct dlr_work_queue *q)
{
    close(dlr_steal_fd(&q->fd));
    if (((q->max_starts && q->starts >= q->max_starts) || start_process(q) < 0) &&
        q->lost)
        q->lost(q->arg);
}

/* 1: q->answer is whole, *ret_fd the caller's. 0: not yet. Below: it has ended. */
static int take_answer(struct dlr_work_queue *q, int *ret_fd)
{
    int fds[DLR_FORK_SERVER_FDS];
    ssize_t n = dlr_fork_server_recv(q->fd, (char *)&q->answer + q->heard,
                                     sizeof(q->answer) - q->heard, fds, MSG_DONTWAIT);

    *ret_fd = fds[0];
    if (n <= 0)
        return n == -EAGAIN ? 0 : -EIO;
    q->heard = (q->heard + (size_t)n) % sizeof(q->answer);
    return q->heard == 0;
}

static void await(const struct dlr_work_queue *q, int64_t until_ms)
{
    struct pollfd process = {.fd = q->fd, .events = POLLIN | (q->head ? POLLOUT : 0)};
    int64_t left = until_ms - dlr_now_ms();

    poll(&process, 1, left > 0 ? (int)left : 0);
}

/* --- lines ------------------------------------------------------------------------ */

static struct dlr_work_item *make_item(dlr_offload_fn fn, const char *path,
                                       const char *text)
{
    struct order order = {
        .fn = fn, .path_size = strlen(path) + 1, .text_size = strlen(text) + 2};
    size_t size = sizeof(order) + order.path_size + order.text_size;
    struct dlr_work_item *item = malloc(sizeof(*item) + size);

    if (!item)
        return NULL;
    item->next = NULL;
    item->size = size;
    memcpy(item->bytes, &order, sizeof(order));
    memcpy(item->bytes + sizeof(order), path, order.path_size);
    dlr_format(item->bytes + sizeof(order) + order.path_size, order.text_size, "%s\n",
               text);
    return item;
}

/* False when the process has ended. */
static bool hear(struct dlr_work_queue *q)
{
    int n, fd;

    while ((n = take_answer(q, &fd)) > 0) {
        bool first = !q->begun;

        if (fd >= 0)
            close(fd);
        q->begun = true;
        if (q->told)
            q->told(q->arg, first, &q->answer);
    }
    return n == 0;
}

static void remove_head(struct dlr_work_queue *q)
{
    struct dlr_work_item *item = q->head;

    q->sent = 0;
    q->head = item->next;
    q->waiting--;
    free(item);
}

static void give(struct dlr_work_queue *q)
{
    while (q->head) {
        ssize_t n = dlr_fork_server_send(q->fd, q->head->bytes + q->sent,
                                         q->head->size - q->sent, (int[]){-1, -1});

        if (n < 0)
            return;
        q->sent += (size_t)n;
        if (q->sent == q->head->size)
            remove_head(q);
    }
}

void dlr_work_queue_tick(struct dlr_work_queue *q)
{
    if (q->fd < 0)
        return;
    if (!hear(q))
        start_again(q);
    give(q);
}

int dlr_work_queue_open(struct dlr_work_queue *q, dlr_offload_fn fn, const char *path,
                        int fd, int64_t limit_ms)
{
    int64_t until_ms = dlr_now_ms() + limit_ms;
    int rc;

    q->first_fd = fd;
    q->first = make_item(fn, path, "");
    rc = q->first ? start_process(q) : -ENOMEM;
    while (rc == 0 && !q->begun && dlr_now_ms() <= until_ms) {
        await(q, until_ms);
        rc = hear(q) ? 0 : -EIO;
    }
    return rc == 0 && q->begun ? q->answer.code : rc;
}

int dlr_work_queue_put(struct dlr_work_queue *q, dlr_offload_fn fn, const char *path,
                       const char *text)
{
    struct dlr_work_item *item;

    if (q->waiting >= q->room)
        dlr_work_queue_tick(q);
    item = q->fd >= 0 && q->waiting < q->room ? make_item(fn, path, text) : NULL;
    if (item) {
        *(q->head ? &q->last->next : &q->head) = item;
        q->last = item;
        q->waiting++;
        dlr_work_queue_tick(q);
    }
    return q->fd < 0 ? -EPIPE : item ? 0 : -ENOBUFS;
}

static bool is_over(struct dlr_work_queue *q)
{
    if (!hear(q)) {
        if (!q->head)
            return true;
        start_again(q);
    }
    give(q);
    if (!q->head)
        shutdown(q->fd, SHUT_WR);
    return q->fd < 0;
}

void dlr_work_queue_close(struct dlr_work_queue *q, int64_t timeout_ms)
{
    int64_t until_ms = dlr_now_ms() + timeout_ms;

    while (q->fd >= 0 && !is_over(q) && dlr_now_ms() < until_ms)
        await(q, until_ms);
    while (q->head)
        remove_head(q);
    free(DLR_STEAL(q->first));
    if (q->fd >= 0)
        close(dlr_steal_fd(&q->fd));
}

/* --- calls ------------------------------------------------------------------------ */

struct dlr_offload *dlr_offload_new(size_t size)
{
    struct dlr_offload *a = calloc(1, sizeof(*a));

    if (!a)
        return NULL;
    a->size = size;
    a->own.fd = -1;
    a->memory = MAP_FAILED;
    a->memory_fd = memfd_create("dlrover-aside", MFD_CLOEXEC);
    if (a->memory_fd >= 0 && ftruncate(a->memory_fd, (off_t)size) == 0)
        a->memory =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, a->memory_fd, 0);
    return a->memory == MAP_FAILED ? dlr_offload_free(a) : a;
}

void *dlr_offload_arg(struct dlr_offload *a)
{
    return a->memory;
}

struct dlr_offload *dlr_offload_free(struct dlr_offload *a)
{
    if (!a)
        return NULL;
    if (a->memory != MAP_FAILED)
        munmap(a->memory, a->size);
    if (a->memory_fd >= 0)
        close(a->memory_fd);
    dlr_work_queue_close(&a->own, 0);
    free(a);
    return NULL;
}

static int order_call(struct dlr_work_queue *q, const struct dlr_offload *a,
                      dlr_offload_fn fn, int fd)
{
    struct order order = {.fn = fn, .memory = a->size};
    ssize_t n =
        dlr_fork_server_send(q->fd, &order, sizeof(order), (int[]){a->memory_fd, fd});

    q->busy = n > 0;
    return n < 0 ? (int)n : 0;
}

/* fd is taken over. */
static int start_call(struct dlr_work_queue *q, const struct dlr_offload *a,
                      dlr_offload_fn fn, int fd)
{
    DLR_AUTO_CLOSE int given = fd;
    int rc = q->fd < 0 ? -EPIPE : order_call(q, a, fn, given);

    if (rc == 0)
        return 0;
    if (q->fd >= 0)
        close(dlr_steal_fd(&q->fd)); /* somebody has killed it */
    rc = start_process(q);
    return rc < 0 ? rc : order_call(q, a, fn, given);
}

static int end_call(struct dlr_work_queue *q, int *ret_rc, int *ret_fd)
{
    int n = take_answer(q, ret_fd);

    if (n == 0)
        return -EAGAIN;
    q->busy = false;
    *ret_rc = n < 0 ? -EIO : q->answer.code;
    if (n < 0)
        close(dlr_steal_fd(&q->fd));
    return 0;
}

/* A call that nobody waited for has ended: what is locked with its descriptor is free. */
static bool end_late(struct dlr_work_queue *q)
{
    DLR_AUTO_CLOSE int late = -1;
    int rc;

    return end_call(q, &rc, &late) == 0;
}

int dlr_work_queue_call(struct dlr_work_queue *q, struct dlr_offload **a,
                        dlr_offload_fn fn, int fd, int64_t limit_ms, int *ret_fd)
{
    DLR_AUTO_CLOSE int given = fd;
    int rc;

    *ret_fd = -1;
    if (q->busy && !end_late(q))
        return -EBUSY;
    rc = start_call(q, *a, fn, dlr_steal_fd(&given));
    if (rc < 0)
        return rc;
    await(q, dlr_now_ms() + limit_ms);
    if (end_call(q, &rc, ret_fd) == 0)
        return rc;
    *a = dlr_offload_free(*a);
    return -ETIMEDOUT;
}

int dlr_offload_start(struct dlr_offload *a, struct dlr_fork_server *fork_server,
                      dlr_offload_fn fn, int fd)
{
    a->own = (struct dlr_work_queue){
        .fork_server = fork_server, .name = "dlrover-file", .fd = -1};
    return start_call(&a->own, a, fn, fd);
}

int dlr_offload_fd(const struct dlr_offload *a)
{
    return a->own.fd;
}

int dlr_offload_end(struct dlr_offload *a, int *ret_rc, int *ret_fd)
{
    int rc = end_call(&a->own, ret_rc, ret_fd);

    if (rc == 0)
        dlr_work_queue_close(&a->own, 0); /* and with this the process ends */
    return rc;
}
