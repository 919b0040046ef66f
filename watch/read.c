/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/read.h"

#include <string.h>

#include "common/base/str.h"

#define TRIES 3
#define RANKS_MAX (1u << 24)
#define CALLS_MAX 4096u /* numbers of calls and of types */
#define TID_MAX (1u << 22)
#define BYTES_MAX (UINT64_C(1) << 50)
#define COUNT_MAX (UINT64_C(1) << 56)
#define AHEAD_NS UINT64_C(60000000000) /* written while the page is being read */

static_assert(DLR_LOOK_NAME == DLR_WATCH_NAME, "one name");

enum line { FREE, TAKEN, TORN, GARBAGE };

void dlr_watch_page_init(struct dlr_watch_page *page, int32_t rank, uint32_t round,
                         uint32_t pid, uint32_t records, uint64_t now_ns)
{
    page->magic = DLR_WATCH_MAGIC;
    page->size = DLR_WATCH_BYTES;
    page->rank = rank;
    page->round = round;
    page->pid = pid;
    page->ring_records = records;
    page->made_ns = now_ns;
    DLR_WATCH_PUT(page->step, DLR_WATCH_NEVER);
}

void dlr_watch_ring_init(struct dlr_watch_ring *ring, uint32_t records)
{
    ring->magic = DLR_RING_MAGIC;
    ring->records = records;
}

/* The version before reading; false: it is being written. */
static bool reading(const _Atomic uint32_t *version, uint32_t *ret_was)
{
    *ret_was = atomic_load_explicit(version, memory_order_acquire);
    return !(*ret_was & 1);
}

/* What was read since is of one moment. */
static bool has_read(const _Atomic uint32_t *version, uint32_t was)
{
    atomic_thread_fence(memory_order_acquire);
    return DLR_WATCH_GET(*version) == was;
}

/* A time of the page; one of just now is not later than the look. */
static bool a_time(uint64_t *ns, uint64_t now_ns)
{
    if (*ns > now_ns + AHEAD_NS)
        return false;
    if (*ns > now_ns)
        *ns = now_ns;
    return true;
}

static void later(uint64_t *ns, uint64_t other_ns)
{
    if (other_ns > *ns)
        *ns = other_ns;
}

static void count(struct dlr_look *look, enum line line)
{
    look->torn += line == TORN;
    look->garbage += line == GARBAGE;
}

struct steps {
    uint64_t step, step_ns, steps_ns;
};

static bool copy_steps(const struct dlr_watch_page *page, struct steps *ret)
{
    for (unsigned i = 0; i < TRIES; i++) {
        uint32_t was;

        if (!reading(&page->steps_version, &was))
            continue;
        ret->step = DLR_WATCH_GET(page->step);
        ret->step_ns = DLR_WATCH_GET(page->step_ns);
        ret->steps_ns = DLR_WATCH_GET(page->steps_ns);
        if (has_read(&page->steps_version, was))
            return true;
    }
    return false;
}

static void read_steps(const struct dlr_watch_page *page, uint64_t now_ns,
                       struct dlr_look *look)
{
    const uint64_t total = DLR_WATCH_GET(page->total);
    struct steps is;

    look->step = DLR_WATCH_NEVER;
    if (total <= COUNT_MAX)
        look->total = total;
    else
        count(look, GARBAGE);
    if (!copy_steps(page, &is)) {
        count(look, TORN);
    } else if (is.step != DLR_WATCH_NEVER) {
        if (is.step > COUNT_MAX || !a_time(&is.step_ns, now_ns) || is.step_ns == 0 ||
            !a_time(&is.steps_ns, now_ns)) {
            count(look, GARBAGE);
            return;
        }
        look->step = is.step;
        look->step_ns = is.step_ns;
        look->steps_ns = is.steps_ns;
        later(&look->moved_ns, is.step_ns);
    }
}

/* Bytes of the character of UTF-8 at s, of size that are left; 0: it is none. */
static size_t utf8_bytes(const unsigned char *s, size_t size)
{
    const size_t n = s[0] < 0x80   ? 1
                     : s[0] < 0xc2 ? 0
                     : s[0] < 0xe0 ? 2
                     : s[0] < 0xf0 ? 3
                     : s[0] < 0xf5 ? 4
                                   : 0;

    if (n == 0 || n > size)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

/* One harmless word: UTF-8, without control characters. */
static void clean_name(char name[DLR_LOOK_NAME])
{
    size_t size;

    name[DLR_LOOK_NAME - 1] = '\0';
    size = strlen(name);
    memset(name + size, 0, DLR_LOOK_NAME - size);
    for (size_t i = 0; i < size;) {
        const size_t n = utf8_bytes((unsigned char *)name + i, size - i);

        if (n == 0)
            name[i] = '?';
        i += n ? n : 1;
    }
    dlr_plain(name);
}

static bool copy_phase(const struct dlr_watch_phase *phase, uint64_t *since_ns,
                       uint64_t *limit_ns, uint64_t name[DLR_WATCH_NAME / 8])
{
    for (unsigned i = 0; i < TRIES; i++) {
        uint32_t was;

        if (!reading(&phase->version, &was))
            continue;
        *since_ns = DLR_WATCH_GET(phase->since_ns);
        *limit_ns = DLR_WATCH_GET(phase->limit_ns);
        for (unsigned k = 0; k < DLR_WATCH_NAME / 8; k++)
            name[k] = DLR_WATCH_GET(phase->name[k]);
        if (has_read(&phase->version, was))
            return true;
    }
    return false;
}

static void read_phase(const struct dlr_watch_page *page, uint64_t now_ns,
                       struct dlr_look *look)
{
    uint64_t since_ns, limit_ns, name[DLR_WATCH_NAME / 8];

    if (!copy_phase(&page->phase, &since_ns, &limit_ns, name)) {
        count(look, TORN);
    } else if (!a_time(&since_ns, now_ns)) {
        count(look, GARBAGE);
    } else if (since_ns > 0) {
        look->phase_ns = since_ns;
        look->phase_limit_ns = limit_ns;
        memcpy(look->phase, name, sizeof(look->phase));
        clean_name(look->phase);
        later(&look->moved_ns, since_ns);
    }
}

static bool read_head(const struct dlr_watch_page *page, int32_t rank, uint32_t round,
                      struct dlr_look *look)
{
    const uint32_t flags = DLR_WATCH_GET(page->flags);

    *look = (struct dlr_look){
        .rank = rank, .round = round, .step = DLR_WATCH_NEVER, .data = DLR_LOOK_NONE};
    if (page->magic != DLR_WATCH_MAGIC || page->size != DLR_WATCH_BYTES ||
        page->rank != rank || page->round != round) {
        look->garbage = 1;
        look->data = DLR_LOOK_TORN;
        return false;
    }
    look->paused = flags & DLR_WATCH_PAUSED;
    look->finished = flags & DLR_WATCH_FINISHED;
    look->handler = flags & DLR_WATCH_HANDLER;
    look->data = flags & DLR_WATCH_SEEN_CALLS   ? DLR_LOOK_CALLS_TOO
                 : flags & DLR_WATCH_SEEN_STEPS ? DLR_LOOK_STEPS
                                                : DLR_LOOK_NONE;
    return true;
}

static void read_totals(const struct dlr_watch_page *page, uint64_t now_ns,
                        struct dlr_look *look)
{
    uint64_t call_ns = DLR_WATCH_GET(page->call_ns);

    look->waited_ns = DLR_WATCH_GET(page->waited_ns);
    look->calls = DLR_WATCH_GET(page->calls);
    look->bytes = DLR_WATCH_GET(page->bytes);
    look->lost = DLR_WATCH_GET(page->lost);
    if (!a_time(&call_ns, now_ns))
        count(look, GARBAGE);
    else
        later(&look->moved_ns, call_ns);
}

static bool copy_comm(const struct dlr_watch_comm *from, struct dlr_look_comm *ret)
{
    for (unsigned i = 0; i < TRIES; i++) {
        uint32_t was;

        if (!reading(&from->version, &was))
            continue;
        ret->id = DLR_WATCH_GET(from->id);
        ret->parent = DLR_WATCH_GET(from->parent);
        ret->size = DLR_WATCH_GET(from->size);
        ret->my_rank = DLR_WATCH_GET(from->my_rank);
        ret->op = DLR_WATCH_GET(from->op);
        ret->type = DLR_WATCH_GET(from->type);
        ret->root = DLR_WATCH_GET(from->root);
        ret->lost = DLR_WATCH_GET(from->lost);
        ret->entered = DLR_WATCH_GET(from->entered);
        ret->left = DLR_WATCH_GET(from->left);
        ret->bytes = DLR_WATCH_GET(from->bytes);
        ret->entered_ns = DLR_WATCH_GET(from->entered_ns);
        ret->left_ns = DLR_WATCH_GET(from->left_ns);
        if (has_read(&from->version, was))
            return true;
    }
    return false;
}

static enum line read_comm(const struct dlr_watch_comm *from, uint64_t now_ns,
                           struct dlr_look_comm *ret)
{
    if (!copy_comm(from, ret))
        return TORN;
    if (ret->id == 0)
        return FREE;
    if (ret->size == 0 || ret->size > RANKS_MAX || ret->my_rank >= ret->size ||
        ret->op >= CALLS_MAX || ret->parent == ret->id ||
        (ret->root >= ret->size && ret->root != DLR_WATCH_NO_ROOT))
        return GARBAGE;
    if (ret->entered > COUNT_MAX || ret->left > ret->entered ||
        ret->bytes > BYTES_MAX || !a_time(&ret->entered_ns, now_ns) ||
        !a_time(&ret->left_ns, now_ns))
        return GARBAGE;
    return TAKEN;
}

static bool inside(const struct dlr_look_comm *comm)
{
    return comm->entered > comm->left;
}

static uint64_t comm_moved_ns(const struct dlr_look_comm *comm)
{
    return comm->entered_ns > comm->left_ns ? comm->entered_ns : comm->left_ns;
}

static bool goes_before(const struct dlr_look_comm *a, const struct dlr_look_comm *b)
{
    if (inside(a) != inside(b))
        return inside(a);
    return comm_moved_ns(a) > comm_moved_ns(b);
}

/* Keeps the first DLR_LOOK_COMMS by goes_before(). */
static void keep_comm(struct dlr_look *look, const struct dlr_look_comm *comm)
{
    unsigned at = look->ncomms;

    while (at > 0 && goes_before(comm, &look->comms[at - 1]))
        at--;
    if (look->ncomms == DLR_LOOK_COMMS) {
        const struct dlr_look_comm *out =
            at == DLR_LOOK_COMMS ? comm : &look->comms[DLR_LOOK_COMMS - 1];

        look->more_comms += inside(out);
    } else {
        look->ncomms++;
    }
    if (at == DLR_LOOK_COMMS)
        return;
    memmove(&look->comms[at + 1], &look->comms[at],
            (look->ncomms - at - 1) * sizeof(*comm));
    look->comms[at] = *comm;
}

static bool known(const struct dlr_look *look, uint64_t id)
{
    for (unsigned i = 0; i < look->ncomms; i++)
        if (look->comms[i].id == id)
            return true;
    return false;
}

static void read_comms(const struct dlr_watch_page *page, uint64_t now_ns,
                       struct dlr_look *look)
{
    for (unsigned i = 0; i < DLR_WATCH_COMMS; i++) {
        struct dlr_look_comm comm;
        enum line line = read_comm(&page->comms[i], now_ns, &comm);

        if (line == TAKEN && known(look, comm.id))
            line = GARBAGE;
        count(look, line);
        if (line != TAKEN)
            continue;
        later(&look->moved_ns, comm_moved_ns(&comm));
        keep_comm(look, &comm);
    }
}

static bool copy_call(const struct dlr_watch_call *from, struct dlr_look_call *ret)
{
    for (unsigned i = 0; i < TRIES; i++) {
        uint32_t was;

        if (!reading(&from->version, &was))
            continue;
        ret->tid = DLR_WATCH_GET(from->tid);
        ret->call = DLR_WATCH_GET(from->call);
        ret->peer = DLR_WATCH_GET(from->peer);
        ret->tag = DLR_WATCH_GET(from->tag);
        ret->comm = DLR_WATCH_GET(from->comm);
        ret->bytes = DLR_WATCH_GET(from->bytes);
        ret->entered_ns = DLR_WATCH_GET(from->entered_ns);
        if (has_read(&from->version, was))
            return true;
    }
    return false;
}

static enum line read_call(const struct dlr_watch_call *from, uint64_t now_ns,
                           struct dlr_look_call *ret)
{
    if (!copy_call(from, ret))
        return TORN;
    if (ret->tid == 0)
        return FREE;
    if (ret->tid > TID_MAX || ret->call >= CALLS_MAX || ret->peer < DLR_LOOK_NOBODY ||
        ret->peer >= (int32_t)RANKS_MAX || ret->bytes > BYTES_MAX ||
        !a_time(&ret->entered_ns, now_ns))
        return GARBAGE;
    return TAKEN;
}

static void read_calls(const struct dlr_watch_page *page, uint64_t now_ns,
                       struct dlr_look *look)
{
    for (unsigned i = 0; i < DLR_WATCH_CALLS; i++) {
        struct dlr_look_call call;
        const enum line line = read_call(&page->calls_in[i], now_ns, &call);

        count(look, line);
        if (line != TAKEN)
            continue;
        later(&look->moved_ns, call.entered_ns);
        if (look->ncalls < DLR_LOOK_CALLS)
            look->in[look->ncalls++] = call;
        else
            look->more_calls++;
    }
}

void dlr_watch_read_steps(const struct dlr_watch_page *page, int32_t rank,
                          uint32_t round, uint64_t now_ns, struct dlr_look *ret)
{
    if (!read_head(page, rank, round, ret))
        return;
    read_steps(page, now_ns, ret);
    read_phase(page, now_ns, ret);
    if (ret->torn + ret->garbage > 0)
        ret->data = DLR_LOOK_TORN;
}

void dlr_watch_read(const struct dlr_watch_page *page, int32_t rank, uint32_t round,
                    uint64_t now_ns, struct dlr_look *ret)
{
    if (!read_head(page, rank, round, ret))
        return;
    read_steps(page, now_ns, ret);
    read_phase(page, now_ns, ret);
    read_totals(page, now_ns, ret);
    read_comms(page, now_ns, ret);
    read_calls(page, now_ns, ret);
    if (ret->torn + ret->garbage > 0)
        ret->data = DLR_LOOK_TORN;
}

bool dlr_ring_read(const struct dlr_watch_ring *ring, uint32_t records, uint64_t number,
                   struct dlr_ring_entry *ret)
{
    const struct dlr_ring_record *from = &ring->record[number & (records - 1)];
    const uint16_t lap = atomic_load_explicit(&from->lap, memory_order_acquire);
    uint64_t took_ns = DLR_WATCH_GET(from->took);

    if (DLR_WATCH_GET(from->flags) & DLR_RING_MICRO)
        took_ns *= 1000;
    *ret = (struct dlr_ring_entry){.began_ns = DLR_WATCH_GET(from->began_ns),
                                   .took_ns = took_ns,
                                   .bytes = DLR_WATCH_GET(from->bytes),
                                   .seq = DLR_WATCH_GET(from->seq),
                                   .op = DLR_WATCH_GET(from->op),
                                   .comm = DLR_WATCH_GET(from->comm),
                                   .kind = DLR_WATCH_GET(from->kind)};
    atomic_thread_fence(memory_order_acquire);
    return number < DLR_WATCH_GET(ring->next) && lap != 0 &&
           lap == (uint16_t)(1 + number / records) && DLR_WATCH_GET(from->lap) == lap &&
           (ret->comm < DLR_WATCH_COMMS || ret->comm == DLR_RING_NO_COMM);
}
