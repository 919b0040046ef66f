/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/base/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/local/message.h"
#include "mpi_launcher/agent/base/base_state.h"

/* Of the messages from the child to its parent. */
#define KEEP ((enum dlr_local_type)1)     /* arg[0] = id; fd */
#define KEEP_NOT ((enum dlr_local_type)2) /* arg[0] = id */

#define TELL_MS 200 /* for the parent to take one */

#define AT_ONCE_MAX 4096 /* bytes of a note: some 8 ranks */
#define PAUSE_BYTES 1024 /* of a note for each ms of pause: ten times what they take */
#define NOTE_PAUSE_MAX_MS 50

/* One writer at a time: the child that lives. */
struct notes {
    _Atomic uint32_t busy; /* the child is in the middle of something */
    _Atomic uint32_t lost; /* something could not be kept: never again whole */
    _Atomic int64_t lease_ns, died_ns;
    uint32_t newest_id;
    size_t round_bytes, note_bytes; /* 0: there is none */
};

struct held {
    unsigned id;
    int fd;
};

struct dlr_kept {
    /* shared with all children; the texts are files, since they are seldom read and
     * would be locked in memory with all that is mapped
     */
    struct notes *notes;
    int round_fd, note_fd;
    int inbox, outbox; /* the parent's end; the child's */
    bool was_busy;     /* the former child */
    struct held *held;
    unsigned n;
};

static int open_all(struct dlr_kept *k)
{
    int pair[2];

    k->notes = mmap(NULL, sizeof(*k->notes), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (k->notes == MAP_FAILED) {
        k->notes = NULL;
        return -errno;
    }
    k->round_fd = memfd_create("dlrover-round", MFD_CLOEXEC);
    k->note_fd = memfd_create("dlrover-note", MFD_CLOEXEC);
    if (k->round_fd < 0 || k->note_fd < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    k->inbox = pair[0];
    k->outbox = pair[1];
    return 0;
}

int dlr_kept_new(struct dlr_kept **ret, struct dlr_err *err)
{
    struct dlr_kept *k = calloc(1, sizeof(*k));
    int rc;

    if (!k)
        return dlr_fail(err, -ENOMEM, "out of memory");
    k->inbox = k->outbox = k->round_fd = k->note_fd = -1;
    rc = open_all(k);
    if (rc < 0) {
        dlr_kept_free(k);
        return dlr_fail(err, rc, "nothing is kept for the next agent: %s",
                        strerror(-rc));
    }
    *ret = k;
    return 0;
}

struct dlr_kept *dlr_kept_free(struct dlr_kept *k)
{
    const int fds[] = {k ? k->inbox : -1, k ? k->outbox : -1, k ? k->round_fd : -1,
                       k ? k->note_fd : -1};

    if (!k)
        return NULL;
    for (unsigned i = 0; i < k->n; i++)
        close(k->held[i].fd);
    free(k->held);
    for (unsigned i = 0; i < sizeof(fds) / sizeof(*fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (k->notes)
        munmap(k->notes, sizeof(*k->notes));
    free(k);
    return NULL;
}

/* --- the parent ------------------------------------------------------------------- */

int dlr_kept_inbox(const struct dlr_kept *k)
{
    return k->inbox;
}

static int hold(struct dlr_kept *k, unsigned id, int fd)
{
    struct held *more = realloc(k->held, (k->n + 1) * sizeof(*more));

    if (!more)
        return -ENOMEM;
    k->held = more;
    more[k->n++] = (struct held){.id = id, .fd = fd};
    return 0;
}

static int release(struct dlr_kept *k, unsigned id)
{
    for (unsigned i = 0; i < k->n; i++)
        if (k->held[i].id == id) {
            int fd = k->held[i].fd;

            k->held[i] = k->held[--k->n];
            return fd;
        }
    return -1;
}

static void take(struct dlr_kept *k, const struct dlr_local_msg *m, const int *fds,
                 unsigned nfds)
{
    if (m->type == KEEP && nfds == 1 && hold(k, (unsigned)m->arg[0], fds[0]) == 0)
        return;
    for (unsigned i = 0; i < nfds; i++)
        close(fds[i]);
    if (m->type == KEEP_NOT) {
        int fd = release(k, (unsigned)m->arg[0]);

        if (fd >= 0)
            close(fd);
    } else {
        k->notes->lost = 1;
    }
}

void dlr_kept_take(struct dlr_kept *k)
{
    static struct dlr_local_msg m; /* large */
    int fds[DLR_LOCAL_FDS], rc;
    unsigned nfds = 0;

    while ((rc = dlr_local_recv(k->inbox, &m, fds, &nfds)) > 0)
        take(k, &m, fds, nfds);
    if (rc != -EAGAIN)
        k->notes->lost = 1;
}

void dlr_kept_died(struct dlr_kept *k)
{
    dlr_kept_take(k);
    k->notes->died_ns = dlr_now_ns();
}

/* --- the child -------------------------------------------------------------------- */

void dlr_kept_begin(struct dlr_kept *k)
{
    if (!k)
        return;
    close(k->inbox);
    k->inbox = -1;
    k->was_busy = k->notes->busy;
    k->notes->busy = 1;
}

static char *read_text(int fd, size_t bytes)
{
    char *text = calloc(1, bytes + 1);

    if (text && pread(fd, text, bytes, 0) != (ssize_t)bytes) {
        free(text);
        return NULL;
    }
    return text;
}

int dlr_kept_former(const struct dlr_kept *k, struct dlr_kept_note *ret,
                    struct dlr_err *err)
{
    const struct notes *notes = k ? k->notes : NULL;

    if (!notes || !notes->died_ns)
        return -ENOENT;
    if (!notes->round_bytes && !notes->lost)
        return -ENODATA;
    if (k->was_busy)
        return dlr_fail(err, -EIO, "it died in the middle of something");
    if (notes->lost || !notes->note_bytes)
        return dlr_fail(err, -EIO, "it could not note all that there was");
    *ret = (struct dlr_kept_note){.round = read_text(k->round_fd, notes->round_bytes),
                                  .note = read_text(k->note_fd, notes->note_bytes),
                                  .lease_ns = notes->lease_ns,
                                  .died_ns = notes->died_ns};
    if (ret->round && ret->note)
        return 0;
    dlr_kept_note_done(ret);
    return dlr_fail(err, -EIO, "its notes cannot be read");
}

void dlr_kept_note_done(struct dlr_kept_note *note)
{
    free(note->round);
    free(note->note);
    *note = (struct dlr_kept_note){0};
}

/* Once something was lost nothing is waited for any more. */
static int send_in_time(struct dlr_kept *k, const struct dlr_local_msg *m,
                        const int *fd)
{
    struct pollfd room = {.fd = k->outbox, .events = POLLOUT};
    const int64_t end_ms = dlr_now_ns() / 1000000 + TELL_MS;
    int rc = dlr_local_send(k->outbox, m, fd, fd ? 1 : 0);

    while (rc == -EAGAIN && !k->notes->lost) {
        const int64_t left_ms = end_ms - dlr_now_ns() / 1000000;

        if (left_ms <= 0 || (poll(&room, 1, (int)left_ms) < 0 && errno != EINTR))
            break;
        rc = dlr_local_send(k->outbox, m, fd, fd ? 1 : 0);
    }
    return rc;
}

static bool tell(struct dlr_kept *k, enum dlr_local_type type, unsigned id,
                 const int *fd)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, type);
    m.arg[0] = id;
    if (send_in_time(k, &m, fd) == 0)
        return true;
    k->notes->lost = 1; /* the parent is stopped, perhaps */
    return false;
}

int dlr_kept_claim(struct dlr_kept *k, unsigned id)
{
    return k ? release(k, id) : -1;
}

void dlr_kept_settle(struct dlr_kept *k)
{
    while (k && k->n > 0) {
        struct held h = k->held[--k->n];

        shutdown(h.fd, SHUT_RDWR); /* the parent's is the same, and closed later */
        close(h.fd);
        tell(k, KEEP_NOT, h.id, NULL);
    }
}

void dlr_kept_forget(struct dlr_kept *k)
{
    if (!k)
        return;
    k->notes->round_bytes = k->notes->note_bytes = 0;
    k->notes->lease_ns = 0;
}

unsigned dlr_kept_add(struct dlr_kept *k, int fd)
{
    unsigned id;

    if (!k)
        return 0;
    id = ++k->notes->newest_id;
    return tell(k, KEEP, id, &fd) ? id : 0;
}

void dlr_kept_del(struct dlr_kept *k, unsigned *id)
{
    if (k && *id)
        tell(k, KEEP_NOT, *id, NULL);
    *id = 0;
}

/* NULL: there is nothing to note. */
static void put(struct dlr_kept *k, int fd, const char *text, size_t *ret_bytes)
{
    size_t n = text ? strlen(text) : 0;

    *ret_bytes = 0;
    if (n > 0 && pwrite(fd, text, n, 0) != (ssize_t)n)
        k->notes->lost = 1;
    else
        *ret_bytes = n;
}

void dlr_kept_put_round(struct dlr_kept *k, const char *text)
{
    if (k)
        put(k, k->round_fd, text, &k->notes->round_bytes);
}

void dlr_kept_put_note(struct dlr_kept *k, const char *text)
{
    if (k)
        put(k, k->note_fd, text, &k->notes->note_bytes);
}

int64_t dlr_kept_pause_ms(const struct dlr_kept *k)
{
    const size_t bytes = k ? k->notes->note_bytes : 0;
    const int64_t ms = (int64_t)(bytes / PAUSE_BYTES);

    if (bytes <= AT_ONCE_MAX)
        return 0;
    return ms < NOTE_PAUSE_MAX_MS ? ms : NOTE_PAUSE_MAX_MS;
}

void dlr_kept_put_lease(struct dlr_kept *k, int64_t until_ns)
{
    if (k)
        k->notes->lease_ns = until_ns;
}

void dlr_kept_enter(struct dlr_kept *k)
{
    if (k)
        k->notes->busy = 1;
}

void dlr_kept_leave(struct dlr_kept *k)
{
    if (k)
        k->notes->busy = 0;
}

/* --- of the agent's engines ---------------------------------------------------------- */

void dlr_agent_base_keep(struct dlr_agent_base *base, struct dlr_kept *kept)
{
    base->kept = kept;
}

struct dlr_kept *dlr_agent_kept(const struct dlr_agent_base *base)
{
    return base ? base->kept : NULL;
}

void dlr_agent_changed(struct dlr_agent_base *base)
{
    if (base)
        base->changed = true;
}
