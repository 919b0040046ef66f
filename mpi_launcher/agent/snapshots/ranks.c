/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/agent.h"
#include "mpi_launcher/agent/snapshots/budget.h"

struct dlr_agent_rank *dlr_agent_rank(struct dlr_agent *a, int32_t rank, bool make)
{
    struct dlr_agent_rank **more, *r;

    for (unsigned i = 0; i < a->nranks; i++)
        if (a->ranks[i]->rank == rank)
            return a->ranks[i];
    if (!make)
        return NULL;
    more = realloc(a->ranks, (a->nranks + 1) * sizeof(*more));
    if (!more)
        return NULL;
    a->ranks = more;
    r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->rank = rank;
    r->page_fd = -1;
    for (unsigned k = 0; k < DLR_STORE_SLOTS_MAX; k++)
        r->slot_fds[k] = -1;
    a->ranks[a->nranks++] = r;
    return r;
}

static void close_slots(struct dlr_agent_rank *r)
{
    for (unsigned k = 0; k < DLR_STORE_SLOTS_MAX; k++) {
        r->slots[k] = dlr_slot_unmap(r->slots[k]);
        if (r->slot_fds[k] >= 0)
            close(r->slot_fds[k]);
        r->slot_fds[k] = -1;
    }
}

static void close_page(struct dlr_agent_rank *r)
{
    if (r->page)
        munmap(r->page, DLR_PAGE_SIZE);
    if (r->page_fd >= 0)
        close(r->page_fd);
    r->page = NULL;
    r->page_fd = -1;
}

static void free_rank(struct dlr_agent_rank *r)
{
    close_slots(r);
    close_page(r);
    free(r);
}

void dlr_agent_ranks_stop(struct dlr_agent *a)
{
    for (unsigned i = 0; i < a->nranks; i++)
        free_rank(a->ranks[i]);
    free(a->ranks);
    a->ranks = NULL;
    a->nranks = 0;
}

/* Maps the slot files of the rank that are there. Their number. */
static int open_slots(struct dlr_agent *a, struct dlr_agent_rank *r)
{
    int n = 0;

    close_slots(r);
    for (unsigned k = 0; k < DLR_STORE_SLOTS_MAX; k++) {
        struct dlr_err err;
        char name[64];

        dlr_store_name(r->rank, k, name, sizeof(name));
        r->slot_fds[k] = openat(a->self.dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (r->slot_fds[k] < 0)
            continue;
        if (dlr_slot_map(r->slot_fds[k], true, &r->slots[k], &err) < 0) {
            dlr_warn("%s: ignoring '%s': %s", a->self.node, name, err.text);
            close(r->slot_fds[k]);
            r->slot_fds[k] = -1;
            continue;
        }
        n++;
    }
    return n;
}

int dlr_agent_rank_holding(const struct dlr_agent_rank *r, struct dlr_version version)
{
    for (unsigned k = 0; k < DLR_STORE_SLOTS_MAX; k++) {
        struct dlr_slot_info info;
        enum dlr_slot_state state;

        if (!r->slots[k] || r->corrupt[k] || !dlr_slot_has_head(r->slots[k]))
            continue;
        state = dlr_slot_state(r->slots[k]);
        if ((state == DLR_SLOT_SEALED || state == DLR_SLOT_COMMITTED) &&
            dlr_slot_info(r->slots[k], &info) == 0 && info.rank == r->rank &&
            dlr_version_eq(info.version, version))
            return (int)k;
    }
    return -1;
}

/* A worker that died while it wrote leaves its slot OPEN; nobody else will end it. */
static void bury_open_slots(struct dlr_agent_rank *r)
{
    for (unsigned k = 0; k < DLR_STORE_SLOTS_MAX; k++)
        if (r->slots[k] && dlr_slot_has_head(r->slots[k]) &&
            dlr_slot_state(r->slots[k]) == DLR_SLOT_OPEN)
            dlr_slot_set_state(r->slots[k], DLR_SLOT_DEAD);
}

/* Who reads them still is of the round that ends, and takes nothing for whole that is not. */
static void bury_corrupt_slots(struct dlr_agent_rank *r)
{
    for (unsigned k = 0; k < DLR_STORE_SLOTS_MAX; k++)
        if (r->slots[k] && r->corrupt[k] && dlr_slot_has_head(r->slots[k]))
            dlr_slot_set_state(r->slots[k], DLR_SLOT_DEAD);
}

static bool is_mine(const struct dlr_agent *a, int32_t rank)
{
    const struct dlr_agent_node *me = dlr_agent_round_node(&a->round, a->self.node);

    for (unsigned i = 0; me && i < me->nranks; i++)
        if (me->ranks[i] == rank)
            return true;
    return false;
}

/* The ranks that the round has here, and what they begin from. */
static void own_ranks(struct dlr_agent *a)
{
    const struct dlr_agent_node *me = dlr_agent_round_node(&a->round, a->self.node);

    a->has_committed = a->round.has_restore;
    a->committed = a->round.restore;
    for (unsigned i = 0; me && i < me->nranks; i++) {
        struct dlr_agent_rank *r = dlr_agent_rank(a, me->ranks[i], true);

        if (r)
            r->own = true;
    }
}

void dlr_agent_ranks_round(struct dlr_agent *a)
{
    for (unsigned i = 0; i < a->nranks; i++) {
        bury_corrupt_slots(a->ranks[i]);
        if (a->ranks[i]->own)
            bury_open_slots(a->ranks[i]);
    }
    dlr_agent_ranks_stop(a);
    own_ranks(a);
}

static void list_mates(const struct dlr_agent *a, struct dlr_page *page)
{
    const struct dlr_agent_node *me = dlr_agent_round_node(&a->round, a->self.node);

    page->nmates = 0;
    if (!me || me->nranks > DLR_PAGE_MATES)
        return;
    memcpy(page->mates, me->ranks, me->nranks * sizeof(page->mates[0]));
    page->nmates = me->nranks;
}

/* A worker that is there goes on: nothing was saved since it was welcomed. One that has laid out its
 * state already shares it with ranks that may be elsewhere now: then their parts' hashes differ, and the
 * version is aborted.
 */
void dlr_agent_ranks_turn(struct dlr_agent *a)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < a->nranks; i++) {
        struct dlr_agent_rank *r = a->ranks[i];

        if (r->own && r->worker && is_mine(a, r->rank)) {
            list_mates(a, r->page);
            a->ranks[kept++] = r;
            continue;
        }
        bury_corrupt_slots(r);
        if (r->own)
            bury_open_slots(r);
        free_rank(r);
    }
    a->nranks = kept;
    own_ranks(a);
}

bool dlr_agent_ranks_serves(const struct dlr_agent *a, const struct dlr_agent_conn *c)
{
    for (unsigned i = 0; i < a->nranks; i++)
        if (a->ranks[i]->worker == c)
            return true;
    return false;
}

/* Each worker gets a page of its own: one of an earlier round may still have the old one. It
 * has no name in the memory directory, so that a rank can work when that is full.
 */
static int make_page(struct dlr_agent *a, struct dlr_agent_rank *r)
{
    int rc;

    close_page(r);
    r->page_fd = memfd_create("dlrover-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (r->page_fd < 0)
        return -errno;
    rc = posix_fallocate(r->page_fd, 0, DLR_PAGE_SIZE);
    if (rc > 0)
        return -rc;
    fcntl(r->page_fd, F_ADD_SEALS,
          F_SEAL_SHRINK | F_SEAL_SEAL); /* the program has it */
    r->page =
        mmap(NULL, DLR_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, r->page_fd, 0);
    if (r->page == MAP_FAILED) {
        r->page = NULL;
        return -errno;
    }
    r->cost = (struct dlr_page_cost){0};
    r->page_ns = dlr_now_ns();
    r->page_bad = false;
    r->page->magic = DLR_PAGE_MAGIC;
    r->page->size = DLR_PAGE_SIZE;
    r->page->rank = r->rank;
    r->page->round = a->round.round;
    r->page->begun_step = DLR_PAGE_NEVER;
    dlr_page_clear_orders(r->page);
    list_mates(a, r->page);
    r->page->committed_step = DLR_PAGE_NEVER;
    dlr_agent_lease_show(a, r->page);
    return 0;
}

static void say_restored(struct dlr_agent *a, struct dlr_agent_rank *r, const char *why)
{
    dlr_agent_say(
        a->base,
        json_pack("{s:i, s:s, s:I, s:i, s:I, s:I, s:i, s:b, s:i, s:s}", "v",
                  DLR_MSG_VERSION, "t", "restored", "round", (json_int_t)a->round.round,
                  "rank", r->rank, "vround", (json_int_t)a->round.restore.round, "step",
                  (json_int_t)a->round.restore.step, "rc", r->restored_rc, "differs",
                  r->differs, "corrupt", (int)r->corrupt_of, "why", why));
}

/* The worker gets no welcome then: a rank that began from nothing beside ranks that did not
 * would be wrong, silently.
 */
static void refuse(struct dlr_agent *a, struct dlr_agent_rank *r, int rc,
                   const char *why)
{
    r->restored = true;
    r->restored_rc = -rc;
    say_restored(a, r, why);
}

void dlr_agent_ranks_hello(struct dlr_agent *a, struct dlr_agent_conn *c)
{
    struct dlr_agent_rank *r = dlr_agent_rank(a, c->rank, false);
    int fds[1 + DLR_STORE_SLOTS_MAX], holding = -1, rc;
    struct dlr_local_msg m;
    unsigned n = 0;

    if (!r || !r->own || r->worker)
        return;
    rc = make_page(a, r);
    if (rc < 0) {
        refuse(a, r, rc, "no room for the progress page");
        return;
    }
    r->worker = c;
    r->opened = true;
    dlr_agent_helpers_advise(a, c->pid, r);
    dlr_local_init(&m, DLR_LOCAL_WELCOME);
    m.round = a->round.round;
    m.rank = r->rank;
    dlr_local_text(&m, "%s", a->self.conf.key);
    fds[n++] = r->page_fd;
    m.arg[3] = a->round.made_by;
    if (a->round.has_restore && a->round.made_by) {
        m.arg[0] = 1;
        m.arg[1] = a->round.restore.round;
        m.step = a->round.restore.step;
    } else if (a->round.has_restore) {
        open_slots(a, r);
        holding = dlr_agent_rank_holding(r, a->round.restore);
        if (holding < 0) {
            refuse(a, r, -ENOENT, "the version to restore is not on this node");
            return;
        }
        m.arg[0] = 1;
        m.arg[1] = a->round.restore.round;
        m.step = a->round.restore.step;
        for (int k = 0; k < DLR_STORE_SLOTS_MAX; k++) {
            if (k == holding)
                m.arg[2] = n - 1;
            if (r->slot_fds[k] >= 0)
                fds[n++] = r->slot_fds[k];
        }
    }
    dlr_agent_local_send(c, &m, fds, n);
}

void dlr_agent_ranks_gone(struct dlr_agent *a, struct dlr_agent_conn *c)
{
    struct dlr_agent_rank *r = dlr_agent_rank(a, c->rank, false);

    if (r && r->worker == c)
        r->worker = NULL;
}

static void say_no_slots(struct dlr_agent *a, const struct dlr_agent_rank *r,
                         const char *why)
{
    dlr_agent_rebuild_reserved(a, r->rank, -ENOSPC, why);
    dlr_agent_say(a->base,
                  json_pack("{s:i, s:s, s:I, s:i, s:s}", "v", DLR_MSG_VERSION, "t",
                            "no_slots", "round", (json_int_t)a->round.round, "rank",
                            r->rank, "why", why));
}

static void tell_slots(struct dlr_agent *a, struct dlr_agent_rank *r, const char *why)
{
    struct dlr_local_msg m;
    int fds[DLR_STORE_SLOTS_MAX];
    unsigned n = 0;

    dlr_local_init(&m, DLR_LOCAL_SLOTS);
    m.round = a->round.round;
    m.rank = r->rank;
    /* One that was left from smaller states is none. */
    for (unsigned k = 0; !why && k < DLR_STORE_SLOTS_MAX; k++)
        if (r->slot_fds[k] >= 0 && dlr_slot_bytes(r->slots[k]) >= r->bytes)
            fds[n++] = r->slot_fds[k];
    m.arg[0] = n;
    if (n == 0)
        dlr_local_text(&m, "%s", why ? why : "the slots have gone");
    if (r->worker)
        dlr_agent_local_send(r->worker, &m, fds, n);
}

static void say_ready(struct dlr_agent *a, const struct dlr_agent_rank *r)
{
    struct dlr_budget budget;
    unsigned n;
    uint64_t taken = dlr_agent_room_taken(a, -1, &n), limit;

    dlr_budget_look("", &budget);
    limit = dlr_opt_share(a->self.job.ckpt_mem, budget.node);
    dlr_agent_rebuild_reserved(a, r->rank, 0, "");
    dlr_agent_say(a->base, json_pack("{s:i, s:s, s:I, s:i, s:I, s:I, s:I, s:I, s:b}",
                                     "v", DLR_MSG_VERSION, "t", "ready", "round",
                                     (json_int_t)a->round.round, "rank", r->rank,
                                     "bytes", (json_int_t)r->bytes, "taken",
                                     (json_int_t)(taken & INT64_MAX), "least",
                                     (json_int_t)(dlr_agent_room_least(a) & INT64_MAX),
                                     "limit", (json_int_t)(limit & INT64_MAX), "tight",
                                     dlr_agent_is_tight(a, r)));
}

static void ask_slots(struct dlr_agent *a, const struct dlr_agent_rank *r)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, DLR_LOCAL_D_RESERVE);
    m.round = a->round.round;
    m.rank = r->rank;
    m.arg[0] = r->bytes;
    m.arg[1] = dlr_agent_slots_of(a, r);
    dlr_agent_data_send(a->data, &m);
}

void dlr_agent_ranks_reserve(struct dlr_agent *a, int32_t rank, uint64_t bytes,
                             bool worker)
{
    struct dlr_agent_rank *r = dlr_agent_rank(a, rank, !worker);
    struct dlr_err err;
    int rc;

    if (!r || bytes == 0)
        return;
    if (!worker && r->bytes == bytes && !r->reserving) {
        say_ready(
            a, r); /* said again to a new supervisor; a copy may be on its way there */
        return;
    }
    r->asked = r->asked || worker;
    if (!a->self.job.checkpoint) {
        dlr_agent_ranks_reserved(a, rank, -ENOTSUP, "checkpoint=off");
        return;
    }
    dlr_agent_more_slots(a, r, bytes);
    do
        rc = dlr_agent_room_check(a, rank, dlr_agent_slots_of(a, r), bytes, &err);
    while (rc < 0 && (dlr_agent_fewer_slots(a, r, rc, err.text) ||
                      dlr_agent_bring_yield(a, rc, err.text)));
    if (rc < 0) {
        dlr_agent_ranks_reserved(a, rank, err.code, err.text);
        return;
    }
    if (!dlr_agent_data_comes(a->data)) {
        dlr_agent_ranks_reserved(a, rank, -ENOTCONN, "no data process on this node");
        return;
    }
    r->reserving = true;
    r->bytes = bytes;
    if (dlr_agent_data_address(a->data)[0]) /* else it is asked when it says hello */
        ask_slots(a, r);
}

void dlr_agent_ranks_reserve_again(struct dlr_agent *a)
{
    for (unsigned i = 0; i < a->nranks; i++)
        if (a->ranks[i]->reserving)
            ask_slots(a, a->ranks[i]);
}

void dlr_agent_ranks_reserved(struct dlr_agent *a, int32_t rank, int rc,
                              const char *why)
{
    struct dlr_agent_rank *r = dlr_agent_rank(a, rank, false);
    bool asked;

    if (!r)
        return;
    if (rc < 0 && r->reserving &&
        (dlr_agent_fewer_slots(a, r, rc, why) || dlr_agent_bring_yield(a, rc, why))) {
        ask_slots(a, r);
        return;
    }
    asked = r->asked;
    r->reserving = r->asked = false;
    if (rc == 0 && r->own && open_slots(a, r) < (int)dlr_agent_slots_of(a, r)) {
        rc = -EIO;
        why = "the slots have gone";
    }
    if (rc == 0 && asked)
        bury_open_slots(r); /* this worker has none yet, and the last one is gone */
    if (rc < 0)
        r->bytes = 0;
    if (asked)
        tell_slots(a, r, rc < 0 ? why : NULL);
    if (rc == 0)
        say_ready(a, r);
    else if (rc != -ENOTSUP) /* checkpoint=off: nobody wants them */
        say_no_slots(a, r, why);
}

void dlr_agent_ranks_restored(struct dlr_agent *a, const struct dlr_local_msg *msg)
{
    struct dlr_agent_rank *r = dlr_agent_rank(a, msg->rank, false);

    if (!r || r->restored || !a->round.has_restore || msg->arg[1] > INT32_MAX)
        return;
    r->restored = true;
    r->restored_rc = (int)msg->arg[1];
    r->differs = msg->arg[2] == 1;
    r->corrupt_of = msg->arg[3] <= INT32_MAX ? (unsigned)msg->arg[3] : 0;
    if (r->restored_rc && r->corrupt_of)
        dlr_agent_peek_bury(a, (int32_t)(r->corrupt_of - 1));
    say_restored(a, r, msg->text);
}

void dlr_agent_ranks_go(struct dlr_agent *a)
{
    struct dlr_local_msg m;

    dlr_agent_bring_go(a, "every rank has restored");
    dlr_local_init(&m, DLR_LOCAL_GO);
    m.round = a->round.round;
    for (unsigned i = 0; i < a->nranks; i++) {
        m.rank = a->ranks[i]->rank;
        if (a->ranks[i]->worker)
            dlr_agent_local_send(a->ranks[i]->worker, &m, NULL, 0);
    }
}

void dlr_agent_ranks_retell(struct dlr_agent *a)
{
    for (unsigned i = 0; i < a->nranks; i++) {
        struct dlr_agent_rank *r = a->ranks[i];

        if (r->bytes && !r->reserving)
            say_ready(a, r);
        if (r->restored)
            say_restored(a, r, "");
    }
    dlr_agent_bad_retell(a);
    dlr_agent_save_torn_retell(a);
    dlr_agent_bring_retell(a);
}

void dlr_agent_ranks_steps(const struct dlr_agent *a, uint64_t *ret_min,
                           uint64_t *ret_max)
{
    *ret_min = *ret_max = DLR_PAGE_NEVER;
    for (unsigned i = 0; i < a->nranks; i++) {
        uint64_t step =
            a->ranks[i]->page ? a->ranks[i]->page->begun_step : DLR_PAGE_NEVER;

        if (step > INT64_MAX) /* none yet, or none that there is */
            continue;
        if (*ret_min == DLR_PAGE_NEVER || step < *ret_min)
            *ret_min = step;
        if (*ret_max == DLR_PAGE_NEVER || step > *ret_max)
            *ret_max = step;
    }
}
