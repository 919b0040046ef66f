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
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/snapshots/budget.h"
#include "mpi_launcher/agent/snapshots/parts.h"

struct dlr_agent_rank *dlr_agent_rank(struct dlr_agent_snapshots *s, int32_t rank,
                                      bool make)
{
    struct dlr_agent_rank **more, *r;

    for (unsigned i = 0; i < s->nranks; i++)
        if (s->ranks[i]->rank == rank)
            return s->ranks[i];
    if (!make)
        return NULL;
    more = realloc(s->ranks, (s->nranks + 1) * sizeof(*more));
    if (!more)
        return NULL;
    s->ranks = more;
    r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->rank = rank;
    r->page_fd = -1;
    for (unsigned k = 0; k < DLR_STORE_SLOTS_MAX; k++)
        r->slot_fds[k] = -1;
    s->ranks[s->nranks++] = r;
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

void dlr_agent_rank_close_page(struct dlr_agent_snapshots *s, struct dlr_agent_rank *r)
{
    dlr_kept_del(dlr_agent_kept(s->base), &r->page_kept);
    if (r->page)
        munmap(r->page, DLR_PAGE_SIZE);
    if (r->page_fd >= 0)
        close(r->page_fd);
    r->page = NULL;
    r->page_fd = -1;
}

static void free_rank(struct dlr_agent_snapshots *s, struct dlr_agent_rank *r)
{
    close_slots(r);
    dlr_agent_rank_close_page(s, r);
    free(r);
}

void dlr_agent_ranks_stop(struct dlr_agent_snapshots *s)
{
    for (unsigned i = 0; i < s->nranks; i++)
        free_rank(s, s->ranks[i]);
    free(s->ranks);
    s->ranks = NULL;
    s->nranks = 0;
}

int dlr_agent_rank_open_slots(struct dlr_agent_snapshots *s, struct dlr_agent_rank *r)
{
    int n = 0;

    close_slots(r);
    for (unsigned k = 0; k < DLR_STORE_SLOTS_MAX; k++) {
        struct dlr_err err;
        char name[64];

        dlr_store_name(r->rank, k, name, sizeof(name));
        r->slot_fds[k] = openat(s->self->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (r->slot_fds[k] < 0)
            continue;
        if (dlr_slot_map(r->slot_fds[k], true, &r->slots[k], &err) < 0) {
            dlr_warn("%s: ignoring '%s': %s", s->self->node, name, err.text);
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

void dlr_agent_rank_discard_open(struct dlr_agent_rank *r)
{
    for (unsigned k = 0; k < DLR_STORE_SLOTS_MAX; k++)
        if (r->slots[k] && dlr_slot_has_head(r->slots[k]) &&
            dlr_slot_state(r->slots[k]) == DLR_SLOT_OPEN)
            dlr_slot_set_state(r->slots[k], DLR_SLOT_DEAD);
}

/* Who reads them still is of the round that ends, and takes nothing for whole that is
 * not.
 */
static void discard_corrupt_slots(struct dlr_agent_rank *r)
{
    for (unsigned k = 0; k < DLR_STORE_SLOTS_MAX; k++)
        if (r->slots[k] && r->corrupt[k] && dlr_slot_has_head(r->slots[k]))
            dlr_slot_set_state(r->slots[k], DLR_SLOT_DEAD);
}

static bool is_mine(const struct dlr_agent_snapshots *s, int32_t rank)
{
    const struct dlr_agent_node *me = dlr_agent_round_node(s->round, s->self->node);

    for (unsigned i = 0; me && i < me->nranks; i++)
        if (me->ranks[i] == rank)
            return true;
    return false;
}

/* The ranks that the round has here, and what they begin from. */
static void own_ranks(struct dlr_agent_snapshots *s)
{
    const struct dlr_agent_node *me = dlr_agent_round_node(s->round, s->self->node);

    s->has_committed = s->round->has_restore;
    s->committed = s->round->restore;
    for (unsigned i = 0; me && i < me->nranks; i++) {
        struct dlr_agent_rank *r = dlr_agent_rank(s, me->ranks[i], true);

        if (r)
            r->own = true;
    }
}

void dlr_agent_ranks_round(struct dlr_agent_snapshots *s)
{
    for (unsigned i = 0; i < s->nranks; i++) {
        discard_corrupt_slots(s->ranks[i]);
        if (s->ranks[i]->own)
            dlr_agent_rank_discard_open(s->ranks[i]);
    }
    dlr_agent_ranks_stop(s);
    own_ranks(s);
}

void dlr_agent_rank_mates(const struct dlr_agent_snapshots *s, struct dlr_page *page)
{
    const struct dlr_agent_node *me = dlr_agent_round_node(s->round, s->self->node);

    page->nmates = 0;
    if (!me || me->nranks > DLR_PAGE_MATES)
        return;
    memcpy(page->mates, me->ranks, me->nranks * sizeof(page->mates[0]));
    page->nmates = me->nranks;
}

/* A worker that is there goes on: nothing was saved since it was welcomed. One that has
 * laid out its state already shares it with ranks that may be elsewhere now: then their
 * parts' hashes differ, and the version is aborted.
 */
void dlr_agent_ranks_turn(struct dlr_agent_snapshots *s)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < s->nranks; i++) {
        struct dlr_agent_rank *r = s->ranks[i];

        if (r->own && r->worker && is_mine(s, r->rank)) {
            dlr_agent_rank_mates(s, r->page);
            s->ranks[kept++] = r;
            continue;
        }
        discard_corrupt_slots(r);
        if (r->own)
            dlr_agent_rank_discard_open(r);
        free_rank(s, r);
    }
    s->nranks = kept;
    own_ranks(s);
}

bool dlr_agent_ranks_serves(const struct dlr_agent_snapshots *s,
                            const struct dlr_agent_conn *c)
{
    for (unsigned i = 0; i < s->nranks; i++)
        if (s->ranks[i]->worker == c)
            return true;
    return false;
}

void dlr_agent_ranks_gone(struct dlr_agent_snapshots *s, const struct dlr_agent_conn *c)
{
    struct dlr_agent_rank *r = dlr_agent_rank(s, c->rank, false);

    if (r && r->worker == c)
        r->worker = NULL;
}

void dlr_agent_ranks_steps(const struct dlr_agent_snapshots *s, uint64_t *ret_min,
                           uint64_t *ret_max)
{
    *ret_min = *ret_max = DLR_PAGE_NEVER;
    for (unsigned i = 0; i < s->nranks; i++) {
        uint64_t step =
            s->ranks[i]->page ? s->ranks[i]->page->begun_step : DLR_PAGE_NEVER;

        if (step > INT64_MAX) /* none yet, or none that there is */
            continue;
        if (*ret_min == DLR_PAGE_NEVER || step < *ret_min)
            *ret_min = step;
        if (*ret_max == DLR_PAGE_NEVER || step > *ret_max)
            *ret_max = step;
    }
}

bool dlr_agent_ranks_told(struct dlr_agent_snapshots *s, int32_t rank,
                          uint64_t *ret_step, uint64_t *ret_ns, bool *ret_restoring)
{
    const struct dlr_agent_rank *r = dlr_agent_rank(s, rank, false);

    if (!r || !r->page)
        return false;
    *ret_step = r->page->begun_step;
    *ret_ns = r->page->progress_ns;
    *ret_restoring = s->round->has_restore && !r->restored;
    return true;
}

void dlr_agent_ranks_pages(struct dlr_agent_snapshots *s,
                           void (*fn)(void *arg, struct dlr_page *page), void *arg)
{
    for (unsigned i = 0; i < s->nranks; i++)
        if (s->ranks[i]->page)
            fn(arg, s->ranks[i]->page);
}

json_t *dlr_agent_ranks_own(const struct dlr_agent_snapshots *s)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < s->nranks; i++)
        if (s->ranks[i]->own)
            json_array_append_new(list, json_integer(s->ranks[i]->rank));
    return list;
}

bool dlr_agent_ranks_expects(struct dlr_agent_snapshots *s, int32_t rank)
{
    const struct dlr_agent_rank *r = dlr_agent_rank(s, rank, false);

    return r && r->own && !r->opened;
}

int dlr_agent_ranks_left(struct dlr_agent_snapshots *s, int32_t rank)
{
    const struct dlr_agent_rank *r = dlr_agent_rank(s, rank, false);

    return r ? r->left : 0;
}

void dlr_agent_ranks_reopen(struct dlr_agent_snapshots *s, int32_t rank)
{
    struct dlr_agent_rank *r = dlr_agent_rank(s, rank, false);

    if (!r)
        return;
    r->opened = false;
    r->left = 0;
    for (unsigned i = 0; i < s->nopen; i++) /* its new page does not have them */
        dlr_agent_save_missed(s, rank, s->open[i], "its rank has opened anew");
}

void dlr_agent_ranks_leave(struct dlr_agent_snapshots *s,
                           const struct dlr_agent_conn *c)
{
    struct dlr_agent_rank *r = dlr_agent_rank(s, c->rank, false);

    if (r)
        r->left = r->restored || atomic_load(&r->page->begun_step) != DLR_PAGE_NEVER
                      ? 0
                      : c->pid;
}
