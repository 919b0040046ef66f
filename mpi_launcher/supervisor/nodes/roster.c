/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/nodes/roster.h"

#include <stdlib.h>

enum state {
    GONE,
    WAITS,  /* for the whole list */
    ON_WAY, /* it was sent */
    HAS_IT, /* and has come */
};

struct member {
    enum state state;
    bool changed;     /* since the last changes were sent */
    size_t bytes;     /* of the list that is on its way there */
    int64_t until_ms; /* and is waited for */
};

struct dlr_roster {
    struct dlr_roster_ops ops;
    void *arg;
    unsigned n, here, waits, on_way;
    unsigned next;      /* whose turn it is to get the whole list */
    size_t whole_bytes; /* 0: it must be made */
    size_t out_bytes;   /* unconfirmed */
    unsigned *changed;  /* [nchanged] */
    unsigned nchanged;
    bool touched;
    int64_t first_ms, last_ms; /* of the changes that nobody was told yet */
    struct member members[];
};

struct dlr_roster *dlr_roster_new(unsigned n, const struct dlr_roster_ops *ops,
                                  void *arg)
{
    struct dlr_roster *r = calloc(1, sizeof(*r) + n * sizeof(*r->members));

    if (!r)
        return NULL;
    r->changed = calloc(n ? n : 1, sizeof(*r->changed));
    if (!r->changed)
        return dlr_roster_free(r);
    r->ops = *ops;
    r->arg = arg;
    r->n = n;
    return r;
}

struct dlr_roster *dlr_roster_free(struct dlr_roster *r)
{
    if (r)
        free(r->changed);
    free(r);
    return NULL;
}

static void set_state(struct dlr_roster *r, unsigned node, enum state state)
{
    struct member *m = &r->members[node];

    if (m->state == ON_WAY)
        r->out_bytes -= m->bytes;
    r->on_way -= m->state == ON_WAY;
    r->waits -= m->state == WAITS;
    r->here -= m->state != GONE;
    m->state = state;
    r->on_way += state == ON_WAY;
    r->waits += state == WAITS;
    r->here += state != GONE;
}

static bool is_dirty(const struct dlr_roster *r)
{
    return r->nchanged || r->touched;
}

static void note(struct dlr_roster *r, int64_t now_ms)
{
    if (!is_dirty(r))
        r->first_ms = now_ms;
    r->last_ms = now_ms;
}

static void change(struct dlr_roster *r, unsigned node, enum state state,
                   int64_t now_ms)
{
    note(r, now_ms);
    if (!r->members[node].changed)
        r->changed[r->nchanged++] = node;
    r->members[node].changed = true;
    set_state(r, node, state);
}

void dlr_roster_came(struct dlr_roster *r, unsigned node, int64_t now_ms)
{
    change(r, node, WAITS, now_ms);
}

void dlr_roster_went(struct dlr_roster *r, unsigned node, int64_t now_ms)
{
    if (r->members[node].state != GONE)
        change(r, node, GONE, now_ms);
}

void dlr_roster_touch(struct dlr_roster *r, int64_t now_ms)
{
    note(r, now_ms);
    r->touched = true;
}

/* Those that wait get the whole list, a window of it at a time. */
static void pump(struct dlr_roster *r, int64_t now_ms)
{
    for (unsigned looked = 0; r->waits && looked < r->n; looked++) {
        struct member *m = &r->members[r->next];

        if (m->state == WAITS) {
            if (!r->whole_bytes)
                r->whole_bytes = r->ops.make_whole(r->arg);
            if (!r->whole_bytes ||
                (r->on_way && r->out_bytes + r->whole_bytes > DLR_ROSTER_WINDOW))
                return;
            if (r->ops.send_whole(r->arg, r->next)) {
                set_state(r, r->next, ON_WAY);
                m->bytes = r->whole_bytes;
                r->out_bytes += m->bytes;
                m->until_ms = now_ms + DLR_ROSTER_CONFIRM_MS;
            }
        }
        r->next = (r->next + 1) % r->n;
    }
}

/* A list that was never confirmed was sent all the same: its connection delivers it or
 * ends.
 */
static void expire(struct dlr_roster *r, int64_t now_ms)
{
    for (unsigned i = 0; r->on_way && i < r->n; i++)
        if (r->members[i].state == ON_WAY && now_ms >= r->members[i].until_ms)
            set_state(r, i, HAS_IT);
}

static void tell_changes(struct dlr_roster *r)
{
    bool any = r->here > r->waits;

    if (any && !r->ops.make_changes(r->arg, r->changed, r->nchanged))
        any = false; /* no memory: the whole list says it as well, once there is some */
    for (unsigned i = 0; r->here > r->waits && i < r->n; i++)
        if ((r->members[i].state == ON_WAY || r->members[i].state == HAS_IT) &&
            (!any || !r->ops.send_changes(r->arg, i)))
            set_state(r, i, WAITS);
    for (unsigned i = 0; i < r->nchanged; i++)
        r->members[r->changed[i]].changed = false;
    r->nchanged = 0;
    r->touched = false;
    r->whole_bytes = 0;
}

bool dlr_roster_flush(struct dlr_roster *r, int64_t now_ms)
{
    bool dirty = is_dirty(r);

    if (dirty)
        tell_changes(r);
    pump(r, now_ms);
    return dirty;
}

bool dlr_roster_tick(struct dlr_roster *r, int64_t now_ms)
{
    expire(r, now_ms);
    if (!is_dirty(r) || r->here == r->n || now_ms - r->last_ms >= DLR_ROSTER_QUIET_MS ||
        now_ms - r->first_ms >= DLR_ROSTER_LATE_MS)
        return dlr_roster_flush(r, now_ms);
    if (r->whole_bytes)
        pump(r, now_ms); /* what has changed since comes after it */
    return false;
}

void dlr_roster_confirm(struct dlr_roster *r, unsigned node)
{
    if (r->members[node].state == ON_WAY)
        set_state(r, node, HAS_IT);
}
