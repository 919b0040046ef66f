/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faults/daemon_points.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/local/message.h"
#include "mpi_launcher/keeper/takeover_state.h"
#include "mpi_launcher/process/work_queue.h"

#define MAX_ORDERS 8

static struct {
    pid_t pid; /* whose these are: a forked child has its own, or none */
    char path[PATH_MAX - 300], name[128];
    unsigned life, point;
    unsigned ends[MAX_ORDERS], n; /* the points of this life at which it ends */
} self;

/* --- orders ----------------------------------------------------------------------- */

/* A byte more than there were. */
static unsigned next_life(void)
{
    char path[PATH_MAX];
    DLR_AUTO_CLOSE int fd = -1;

    snprintf(path, sizeof(path), "%s.%s", self.path, self.name);
    *strchr(path + strlen(self.path), ' ') = '.';
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, ".", 1) != 1)
        return 0;
    return (unsigned)lseek(fd, 0, SEEK_CUR);
}

static void read_orders(void)
{
    DLR_AUTO_FCLOSE FILE *f = fopen(self.path, "re");
    char program[32], host[64], name[128];
    unsigned life, point;

    self.n = 0;
    while (f && fscanf(f, "%31s %63s %u %u", program, host, &life, &point) == 4) {
        snprintf(name, sizeof(name), "%s %s", program, host);
        if (dlr_streq(name, self.name) && life == self.life && self.n < MAX_ORDERS)
            self.ends[self.n++] = point;
    }
}

/* False in a process that was not started with orders, and in its children. */
static bool takes_part(void)
{
    const char *path = getenv(DAEMON_POINTS_ENV);
    char host[64] = "";

    if (self.pid)
        return self.pid == getpid();
    if (!path)
        return false;
    gethostname(host, sizeof(host) - 1);
    snprintf(self.path, sizeof(self.path), "%s", path);
    snprintf(self.name, sizeof(self.name), "%s %s", program_invocation_short_name,
             host);
    self.pid = getpid();
    self.life = next_life();
    read_orders();
    return true;
}

static bool is_end(unsigned point)
{
    for (unsigned i = 0; i < self.n; i++)
        if (self.ends[i] == point)
            return true;
    return false;
}

static void come_to(const char *kind, const char *what, int size)
{
    char path[PATH_MAX], line[512];
    DLR_AUTO_CLOSE int fd = -1;
    bool end;
    int n;

    if (!takes_part())
        return;
    end = is_end(++self.point);
    snprintf(path, sizeof(path), "%s.log", self.path);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    n = snprintf(line, sizeof(line), "%s %u %u %s%s %.*s\n", self.name, self.life,
                 self.point, end ? "killed: " : "", kind, size, what);
    if (fd >= 0)
        (void)!write(fd, line, n < (int)sizeof(line) ? n : (int)sizeof(line) - 1);
    if (end)
        kill(self.pid, SIGKILL);
}

/* --- messages to other nodes ------------------------------------------------------ */

/* The text of a JSON message behind key, "t" or "event". */
static void say_text(const char *kind, const char *key, const char *text, size_t size)
{
    char mark[16];
    const char *at, *end;

    if (size == 0 || text[0] != '{')
        return;
    snprintf(mark, sizeof(mark), "\"%s\":\"", key);
    at = memmem(text, size, mark, strlen(mark));
    at = at ? at + strlen(mark) : text;
    end = memchr(at, '"', text + size - at);
    come_to(kind, at, end ? (int)(end - at) : 0);
}

int __real_zmq_send(void *sock, const void *data, size_t size, int flags);
int __wrap_zmq_send(void *sock, const void *data, size_t size, int flags);
int __wrap_zmq_send(void *sock, const void *data, size_t size, int flags)
{
    if (!(flags & ZMQ_SNDMORE))
        say_text("sends", "t", data, size);
    return __real_zmq_send(sock, data, size, flags);
}

int __real_zmq_msg_send(zmq_msg_t *msg, void *sock, int flags);
int __wrap_zmq_msg_send(zmq_msg_t *msg, void *sock, int flags);
int __wrap_zmq_msg_send(zmq_msg_t *msg, void *sock, int flags)
{
    say_text("sends", "t", zmq_msg_data(msg), zmq_msg_size(msg));
    return __real_zmq_msg_send(msg, sock, flags);
}

int __real_zmq_msg_recv(zmq_msg_t *msg, void *sock, int flags);
int __wrap_zmq_msg_recv(zmq_msg_t *msg, void *sock, int flags);
int __wrap_zmq_msg_recv(zmq_msg_t *msg, void *sock, int flags)
{
    int rc = __real_zmq_msg_recv(msg, sock, flags);
    int saved = errno;

    if (rc >= 0)
        say_text("has", "t", zmq_msg_data(msg), zmq_msg_size(msg));
    errno = saved;
    return rc;
}

/* --- what is written -------------------------------------------------------------- */

int __real_dlr_work_queue_put(struct dlr_work_queue *q, dlr_offload_fn fn,
                              const char *path, const char *text);
int __wrap_dlr_work_queue_put(struct dlr_work_queue *q, dlr_offload_fn fn,
                              const char *path, const char *text);
int __wrap_dlr_work_queue_put(struct dlr_work_queue *q, dlr_offload_fn fn,
                              const char *path, const char *text)
{
    int rc = __real_dlr_work_queue_put(q, fn, path, text);
    const char *name = strrchr(path, '/');

    if (strstr(text, "\"event\":\""))
        say_text("wrote", "event", text, strlen(text));
    else if (name)
        come_to("wrote", name + 1, INT_MAX);
    return rc;
}

int __real_dlr_takeover_state_save(int fd, const json_t *state, struct dlr_err *err);
int __wrap_dlr_takeover_state_save(int fd, const json_t *state, struct dlr_err *err);
int __wrap_dlr_takeover_state_save(int fd, const json_t *state, struct dlr_err *err)
{
    int rc = __real_dlr_takeover_state_save(fd, state, err);

    come_to("wrote", "take-over state", INT_MAX);
    return rc;
}

/* --- messages to processes of the node -------------------------------------------- */

static void say_type(const char *kind, unsigned type)
{
    char text[32];

    snprintf(text, sizeof(text), "local %u", type);
    come_to(kind, text, INT_MAX);
}

int __real_dlr_local_send(int fd, const struct dlr_local_msg *msg, const int *fds,
                          unsigned nfds);
int __wrap_dlr_local_send(int fd, const struct dlr_local_msg *msg, const int *fds,
                          unsigned nfds);
int __wrap_dlr_local_send(int fd, const struct dlr_local_msg *msg, const int *fds,
                          unsigned nfds)
{
    say_type("sends", msg->type);
    return __real_dlr_local_send(fd, msg, fds, nfds);
}

int __real_dlr_local_recv(int fd, struct dlr_local_msg *ret_msg,
                          int ret_fds[DLR_LOCAL_FDS], unsigned *ret_nfds);
int __wrap_dlr_local_recv(int fd, struct dlr_local_msg *ret_msg,
                          int ret_fds[DLR_LOCAL_FDS], unsigned *ret_nfds);
int __wrap_dlr_local_recv(int fd, struct dlr_local_msg *ret_msg,
                          int ret_fds[DLR_LOCAL_FDS], unsigned *ret_nfds)
{
    int rc = __real_dlr_local_recv(fd, ret_msg, ret_fds, ret_nfds);

    if (rc == 1)
        say_type("has", ret_msg->type);
    return rc;
}
