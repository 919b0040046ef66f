/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/tasks/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/ranks.h"
#include "mpi_launcher/agent/tasks/tasks_state.h"
#include "mpi_launcher/process/process_id.h"
#include "mpi_launcher/wire/looks.h"
#include "watch/read.h"

struct page {
    int32_t rank;
    pid_t pid;                     /* of the component that asked first; 0: not seen */
    uint64_t start;                /* when that process began */
    int page_fd, ring_fd;          /* ring_fd -1: it has none */
    unsigned page_kept, ring_kept; /* base/kept.h */
    struct dlr_watch_page *page;
};

struct dlr_agent_watch {
    struct dlr_agent_base *base;
    const struct dlr_agent_round *round;
    struct page *pages;
    unsigned n, rings;
    int64_t round_ns; /* when the round came */
};

struct dlr_agent_watch *dlr_agent_watch_new(struct dlr_agent_base *base,
                                            const struct dlr_agent_round *round)
{
    struct dlr_agent_watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return NULL;
    watch->base = base;
    watch->round = round;
    return watch;
}

static void drop(struct dlr_agent_watch *watch, struct page *p)
{
    struct dlr_kept *kept = dlr_agent_kept(watch->base);

    dlr_agent_changed(watch->base);
    dlr_kept_del(kept, &p->page_kept);
    munmap(p->page, DLR_WATCH_BYTES);
    close(p->page_fd);
    if (p->ring_fd >= 0) {
        dlr_kept_del(kept, &p->ring_kept);
        close(p->ring_fd);
        watch->rings--;
    }
    *p = watch->pages[--watch->n];
}

void dlr_agent_watch_round(struct dlr_agent_watch *watch)
{
    while (watch->n > 0)
        drop(watch, &watch->pages[watch->n - 1]);
    free(watch->pages);
    watch->pages = NULL;
    watch->round_ns = dlr_now_ns();
}

struct dlr_agent_watch *dlr_agent_watch_free(struct dlr_agent_watch *watch)
{
    if (watch)
        dlr_agent_watch_round(watch);
    free(watch);
    return NULL;
}

/* Memory without a name, all of it there: whoever writes it is never killed for want of
 * it, and it is charged to us. *ret_at, of head bytes, is ours too.
 */
static int make_memory(const char *name, size_t bytes, size_t head, void **ret_at)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -errno;
    if (posix_fallocate(fd, 0, (off_t)bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        close(fd);
        return -ENOMEM;
    }
    *ret_at = mmap(NULL, head, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*ret_at != MAP_FAILED)
        return fd;
    close(fd);
    return -ENOMEM;
}

static void make_ring(struct dlr_agent_watch *watch, struct page *p)
{
    void *at;

    if (p->ring_fd >= 0 || watch->rings >= DLR_AGENT_WATCH_RINGS)
        return;
    p->ring_fd = make_memory("dlrover-ring", DLR_RING_BYTES(DLR_RING_RECORDS),
                             DLR_RING_HEAD, &at);
    if (p->ring_fd < 0)
        return;
    dlr_watch_ring_init(at, DLR_RING_RECORDS);
    munmap(at, DLR_RING_HEAD);
    p->ring_kept = dlr_kept_add(dlr_agent_kept(watch->base), p->ring_fd);
    watch->rings++;
}

static struct page *find(const struct dlr_agent_watch *watch, int32_t rank)
{
    for (unsigned i = 0; i < watch->n; i++)
        if (watch->pages[i].rank == rank)
            return &watch->pages[i];
    return NULL;
}

static bool has_room(struct dlr_agent_watch *watch)
{
    struct page *more = NULL;

    if (watch->n < DLR_AGENT_WATCH_PAGES)
        more = realloc(watch->pages, (watch->n + 1) * sizeof(*more));
    if (more)
        watch->pages = more;
    return more;
}

static struct page *make(struct dlr_agent_watch *watch, int32_t rank, pid_t pid)
{
    struct page page = {.rank = rank, .pid = pid, .ring_fd = -1};
    char state;
    void *at;

    if (!has_room(watch))
        return NULL;
    page.page_fd = make_memory("dlrover-watch", DLR_WATCH_BYTES, DLR_WATCH_BYTES, &at);
    if (page.page_fd < 0)
        return NULL;
    page.page = at;
    dlr_watch_page_init(page.page, rank, watch->round->round, (uint32_t)pid, 0,
                        (uint64_t)dlr_now_ns());
    if (dlr_procid_state(pid, &page.start, &state) < 0)
        page.pid = 0;
    page.page_kept = dlr_kept_add(dlr_agent_kept(watch->base), page.page_fd);
    watch->pages[watch->n] = page;
    return &watch->pages[watch->n++];
}

/* Whether the process that pid was when the page was made is there still. */
static bool lives(const struct page *p, char *ret_state)
{
    uint64_t start;

    return p->pid > 0 && dlr_procid_state(p->pid, &start, ret_state) == 0 &&
           start == p->start && *ret_state != 'Z' && *ret_state != 'X';
}

static const struct page *other_of(const struct dlr_agent_watch *watch, pid_t pid,
                                   int32_t rank)
{
    char state;

    for (unsigned i = 0; i < watch->n; i++)
        if (watch->pages[i].pid == pid && watch->pages[i].rank != rank &&
            lives(&watch->pages[i], &state))
            return &watch->pages[i];
    return NULL;
}

static void refuse(const struct dlr_agent_conn *c, const struct dlr_local_msg *msg,
                   int error, const char *why)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, DLR_LOCAL_REFUSED);
    m.round = msg->round;
    m.rank = msg->rank;
    m.arg[1] = (uint64_t)error;
    dlr_local_text(&m, "%s", why);
    dlr_agent_local_send(c, &m, NULL, 0);
}

void dlr_agent_watch_open(struct dlr_agent_watch *watch, const struct dlr_agent_conn *c,
                          const struct dlr_local_msg *msg)
{
    struct page *p = find(watch, msg->rank);
    struct dlr_local_msg m;
    char state;

    if (msg->rank < 0 || msg->arg[0] > 1) {
        refuse(c, msg, EINVAL, "there is no such rank or component");
        return;
    }
    if (other_of(watch, c->pid, msg->rank)) {
        refuse(c, msg, EEXIST, "this process has the watch page of another rank");
        return;
    }
    if (p && !lives(p, &state)) { /* its process left lines behind that are not true */
        drop(watch, p);
        p = NULL;
    }
    p = p ? p : make(watch, msg->rank, c->pid);
    if (!p) {
        refuse(c, msg, ENOMEM, "no room for the watch page");
        return;
    }
    if (msg->arg[0] == 1)
        make_ring(watch, p);
    dlr_local_init(&m, DLR_LOCAL_WATCHED);
    m.round = msg->round;
    m.rank = msg->rank;
    dlr_agent_local_send(c, &m, (int[]){p->page_fd, p->ring_fd},
                         msg->arg[0] == 1 && p->ring_fd >= 0 ? 2 : 1);
}

/* --- for the next agent ----------------------------------------------------------- */

#define NOTE "{s:i, s:i, s:I, s:i, s:i}"
#define NOTE_MEMBERS(rank, pid, start, page, ring)                                     \
    "rank", rank, "pid", pid, "start", start, "page", page, "ring", ring

json_t *dlr_agent_watch_note(const struct dlr_agent_watch *watch, const char **ret_why)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < watch->n; i++) {
        const struct page *p = &watch->pages[i];

        if (!p->page_kept || (p->ring_fd >= 0 && !p->ring_kept)) {
            *ret_why = "not all watch pages could be kept";
            json_decref(list);
            return NULL;
        }
        json_array_append_new(
            list, json_pack(NOTE, NOTE_MEMBERS((int)p->rank, (int)p->pid,
                                               (json_int_t)p->start, (int)p->page_kept,
                                               (int)p->ring_kept)));
    }
    *ret_why = "out of memory";
    return json_pack("{s:I, s:o}", "round_ns", (json_int_t)watch->round_ns, "pages",
                     list);
}

static int adopt_page(struct dlr_agent_watch *watch, const json_t *note)
{
    struct dlr_kept *kept = dlr_agent_kept(watch->base);
    int rank, pid, page_kept, ring_kept;
    struct page p = {.ring_fd = -1};
    json_int_t start;

    if (json_unpack((json_t *)note, NOTE,
                    NOTE_MEMBERS(&rank, &pid, &start, &page_kept, &ring_kept)) < 0)
        return -EBADMSG;
    if (!has_room(watch))
        return -ENOMEM;
    p.rank = rank;
    p.pid = pid;
    p.start = (uint64_t)start;
    p.page_kept = (unsigned)page_kept;
    p.ring_kept = (unsigned)ring_kept;
    p.page_fd = dlr_kept_claim(kept, p.page_kept);
    p.ring_fd = ring_kept ? dlr_kept_claim(kept, p.ring_kept) : -1;
    if (p.page_fd < 0 || (ring_kept && p.ring_fd < 0))
        return -EBADMSG;
    p.page =
        mmap(NULL, DLR_WATCH_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p.page_fd, 0);
    if (p.page == MAP_FAILED)
        return -errno;
    watch->rings += p.ring_fd >= 0;
    watch->pages[watch->n++] = p;
    return 0;
}

int dlr_agent_watch_adopt(struct dlr_agent_watch *watch, const json_t *note)
{
    const json_t *item;
    json_t *pages;
    json_int_t round_ns;
    size_t i;
    int rc = 0;

    if (json_unpack((json_t *)note, "{s:I, s:o}", "round_ns", &round_ns, "pages",
                    &pages) < 0)
        return -EBADMSG;
    watch->round_ns = round_ns;
    json_array_foreach(pages, i, item)
    {
        rc = rc < 0 ? rc : adopt_page(watch, item);
    }
    return rc;
}

/* --- what they say ---------------------------------------------------------------- */

void dlr_agent_watch_steps(const struct dlr_agent_watch *watch, uint64_t *ret_min,
                           uint64_t *ret_max)
{
    *ret_min = *ret_max = UINT64_MAX;
    for (unsigned i = 0; i < watch->n; i++) {
        struct dlr_look look;

        dlr_watch_read_steps(watch->pages[i].page, watch->pages[i].rank,
                             watch->round->round, (uint64_t)dlr_now_ns(), &look);
        if (look.step == UINT64_MAX)
            continue;
        if (*ret_min == UINT64_MAX || look.step < *ret_min)
            *ret_min = look.step;
        if (*ret_max == UINT64_MAX || look.step > *ret_max)
            *ret_max = look.step;
    }
}

void dlr_agent_tasks_steps(const struct dlr_agent_tasks *tasks, uint64_t *ret_min,
                           uint64_t *ret_max)
{
    dlr_agent_watch_steps(tasks->watch, ret_min, ret_max);
}

static enum dlr_look_state look_state(char state)
{
    switch (state) {
    case 'T':
        return DLR_LOOK_STOPPED;
    case 't':
        return DLR_LOOK_TRACED;
    case 'D':
        return DLR_LOOK_DISK;
    case 'Z':
    case 'X':
        return DLR_LOOK_DEAD;
    default:
        return DLR_LOOK_ALIVE;
    }
}

/* Of a rank whose component is not known, or has gone: its task. */
static void look_task(const struct dlr_agent_tasks *tasks, struct dlr_look *look)
{
    const struct dlr_agent_task *t = zlistx_first(tasks->all);
    uint64_t start;
    char state;

    while (t && (t->rank != look->rank || t->serves != look->round))
        t = zlistx_next(tasks->all);
    if (!t)
        return;
    if (dlr_procid_state(t->pid, &start, &state) < 0 || t->pidfd < 0)
        state = 'X';
    look->state = look_state(state);
    look->pid = state == 'X' ? 0 : t->pid;
}

/* What its checkpoint says, which has a page of its own (ckpt/base/page.h). */
static void look_checkpoint(const struct dlr_agent_tasks *tasks, struct dlr_look *look)
{
    const uint64_t now_ns = (uint64_t)dlr_now_ns();
    uint64_t step, ns;
    bool restoring;

    if (!dlr_agent_ranks_told(tasks->snapshots, look->rank, &step, &ns, &restoring))
        return;
    if (step <= INT64_MAX && ns > look->step_ns && ns <= now_ns) {
        look->step = step;
        look->step_ns = ns;
        if (ns > look->moved_ns)
            look->moved_ns = ns;
    }
    if (restoring && !look->phase_ns) {
        look->phase_ns = (uint64_t)tasks->watch->round_ns;
        memcpy(look->phase, "restore", sizeof("restore"));
    }
    if (look->data == DLR_LOOK_NONE)
        look->data = DLR_LOOK_STEPS;
}

static void look_at(const struct dlr_agent_tasks *tasks, int32_t rank,
                    struct dlr_look *ret)
{
    const struct page *p = find(tasks->watch, rank);
    const uint32_t round = tasks->round->round;
    char state;

    *ret = (struct dlr_look){.rank = rank, .round = round, .step = UINT64_MAX};
    if (p)
        dlr_watch_read(p->page, rank, round, (uint64_t)dlr_now_ns(), ret);
    look_checkpoint(tasks, ret);
    if (p && lives(p, &state)) {
        ret->pid = p->pid;
        ret->state = look_state(state);
    } else {
        look_task(tasks, ret);
    }
}

int dlr_agent_tasks_look(const struct dlr_agent_tasks *tasks,
                         struct dlr_look **ret_looks, unsigned *ret_n)
{
    const struct dlr_agent_node *me =
        dlr_agent_round_node(tasks->round, tasks->self->node);
    const unsigned own = me ? me->nranks : 0;
    struct dlr_look *looks = calloc(own + tasks->watch->n + 1, sizeof(*looks));
    unsigned n = own;

    if (!looks)
        return -ENOMEM;
    for (unsigned i = 0; i < own; i++)
        look_at(tasks, me->ranks[i], &looks[i]);
    for (unsigned i = 0; i < tasks->watch->n; i++) {
        unsigned k = 0;

        while (k < own && me->ranks[k] != tasks->watch->pages[i].rank)
            k++;
        if (k == own)
            look_at(tasks, tasks->watch->pages[i].rank, &looks[n++]);
    }
    if (n == 0) {
        free(looks);
        looks = NULL;
    }
    *ret_looks = looks;
    *ret_n = n;
    return 0;
}

void dlr_agent_tasks_tell_looks(struct dlr_agent_tasks *tasks, uint64_t id)
{
    DLR_AUTO_FREE struct dlr_look *looks = NULL;
    unsigned n = 0;
    json_t *msg;

    if (dlr_agent_tasks_look(tasks, &looks, &n) < 0)
        return;
    msg = dlr_msg_new("looked");
    if (msg) {
        json_object_set_new(msg, "round", json_integer(tasks->round->round));
        json_object_set_new(msg, "id", json_integer((json_int_t)id));
        json_object_set_new(msg, "now_ns", json_integer(dlr_now_ns()));
        json_object_set_new(msg, "rows", dlr_looks_pack(looks, n));
    }
    dlr_agent_send_supervisor(tasks->base, msg);
}
