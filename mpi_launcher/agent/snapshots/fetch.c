/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the version to restore that workers here want and this node does not have.
 * The supervisor knows who has them; they come into a slot of their own, which is gone
 * when nobody is to read it any more: at go, and with the round's end. What was made of
 * parity stays until a commit, unless the round's own slots need its room.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/kept.h"
#include "mpi_launcher/agent/base/reactor.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/parts.h"

static void forget(struct dlr_agent_snapshots *s, struct dlr_agent_fetch *b)
{
    struct dlr_agent_fetch **at = &s->fetches;

    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    dlr_agent_timer_end(s->base, &b->timer);
    free(b->waiting);
    free(b);
}

/* rc < 0: why; else path, or "" when it lies here. */
static void answer(struct dlr_agent_snapshots *s, struct dlr_agent_fetch *b, int rc,
                   const char *text)
{
    for (unsigned i = 0; i < b->n; i++)
        dlr_agent_peek_answer(s, b->waiting[i], b->rank, rc, text);
    b->n = 0;
    dlr_agent_timer_end(s->base, &b->timer);
    if (rc < 0 && !b->made)
        forget(s, b);
}

static int on_late(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_fetch *b = arg;

    b->timer = -1;
    answer(b->s, b, -ETIMEDOUT,
           "its copy did not come in time (--dlrover-set=transfer-timeout)");
    return 0;
}

static void ask(struct dlr_agent_snapshots *s, const struct dlr_agent_fetch *b)
{
    dlr_agent_send_supervisor(
        s->base, json_pack("{s:i, s:s, s:I, s:i}", "v", DLR_MSG_VERSION, "t", "fetch",
                           "round", (json_int_t)s->round->round, "rank", b->rank));
}

static struct dlr_agent_fetch *add(struct dlr_agent_snapshots *s, int32_t rank)
{
    struct dlr_agent_fetch *b = dlr_agent_fetch_find(s, rank);

    if (!b && (b = calloc(1, sizeof(*b)))) {
        *b = (struct dlr_agent_fetch){
            .next = s->fetches, .s = s, .rank = rank, .timer = -1};
        s->fetches = b;
        dlr_agent_changed(s->base);
    }
    return b;
}

void dlr_agent_fetch(struct dlr_agent_snapshots *s, struct dlr_agent_conn *c,
                     int32_t rank)
{
    struct dlr_agent_fetch *b = add(s, rank);
    struct dlr_agent_conn **more;

    more = b ? realloc(b->waiting, (b->n + 1) * sizeof(*more)) : NULL;
    if (!more) {
        dlr_agent_peek_answer(s, c, rank, -ENOMEM, "no memory");
        return;
    }
    b->waiting = more;
    b->waiting[b->n++] = c;
    if (b->n > 1)
        return; /* it was asked for */
    dlr_agent_timer(s->base, &b->timer, s->self->job.transfer_timeout_ms, on_late, b);
    ask(s, b);
}

void dlr_agent_fetch_gone(struct dlr_agent_snapshots *s, const struct dlr_agent_conn *c)
{
    for (struct dlr_agent_fetch *b = s->fetches; b; b = b->next)
        for (unsigned i = 0; i < b->n; i++)
            if (b->waiting[i] == c)
                b->waiting[i--] = b->waiting[--b->n];
}

void dlr_agent_fetch_resend(struct dlr_agent_snapshots *s)
{
    for (struct dlr_agent_fetch *b = s->fetches; b; b = b->next)
        if (b->n)
            ask(s, b);
}

json_t *dlr_agent_fetch_ranks(const struct dlr_agent_snapshots *s)
{
    json_t *list = json_array();

    for (const struct dlr_agent_fetch *b = s->fetches; b; b = b->next)
        if (b->coming)
            json_array_append_new(list, json_integer(b->rank));
    return list;
}

/* Nobody waits for it any more, nor reads it. */
static void end(struct dlr_agent_snapshots *s, struct dlr_agent_fetch *b,
                const char *why)
{
    b->made = false;
    if (b->n)
        answer(s, b, -ECANCELED, why);
    else
        forget(s, b);
}

void dlr_agent_fetch_end(struct dlr_agent_snapshots *s, const char *why)
{
    bool any = s->fetches != NULL;

    while (s->fetches)
        end(s, s->fetches, why);
    if (any)
        dlr_agent_data_config(s->data);
}

/* Of those that were made here, or of the others; false: there was none. */
static bool end_some(struct dlr_agent_snapshots *s, bool made, const char *why)
{
    bool any = false;

    for (struct dlr_agent_fetch *b = s->fetches, *next; b; b = next) {
        next = b->next;
        if (b->made != made)
            continue;
        end(s, b, why);
        any = true;
    }
    if (any)
        dlr_agent_data_config(s->data);
    return any;
}

void dlr_agent_fetch_go(struct dlr_agent_snapshots *s, const char *why)
{
    s->go_known = true;
    s->go_round = s->round->round;
    end_some(s, false, why);
}

bool dlr_agent_fetch_give_way(struct dlr_agent_snapshots *s, int rc, const char *why)
{
    return (rc == -EDQUOT || rc == -ENOSPC || rc == -ENOMEM) && s->go_known &&
           s->go_round == s->round->round && end_some(s, true, why);
}

/* --- as the supervisor says ------------------------------------------------------- */

static void say_room(struct dlr_agent_snapshots *s, int32_t rank, int rc,
                     const char *why)
{
    dlr_agent_send_supervisor(s->base, json_pack("{s:i, s:s, s:I, s:i, s:i, s:s}", "v",
                                                 DLR_MSG_VERSION, "t", "room", "round",
                                                 (json_int_t)s->round->round, "rank",
                                                 rank, "rc", -rc, "why", why));
}

/* What is made here has nobody who waits for it and would be told that there is no
 * room.
 */
static void no_room(struct dlr_agent_snapshots *s, int32_t rank, int rc,
                    const char *why)
{
    struct dlr_agent_fetch *b = dlr_agent_fetch_find(s, rank);

    if (b && b->made && !b->n)
        forget(s, b);
    say_room(s, rank, rc, why);
}

void dlr_agent_fetch_reserve(struct dlr_agent_snapshots *s, int32_t rank,
                             uint64_t bytes, bool make)
{
    struct dlr_agent_fetch *b = make ? add(s, rank) : dlr_agent_fetch_find(s, rank);
    struct dlr_local_msg m;
    struct dlr_err err;

    if (!b || (!b->n && !make)) {
        say_room(s, rank, -ECANCELED, "nobody wants it any more");
        return;
    }
    b->made = b->made || make;
    if (!dlr_agent_data_runs(s->data)) {
        no_room(s, rank, -EIO, "no data process on this node");
        return;
    }
    if ((make ? dlr_space_beside(s, rank, bytes, &err)
              : dlr_space_check(s, rank, 1, bytes, &err)) < 0) {
        no_room(s, rank, err.code, err.text);
        return;
    }
    b->coming = true;
    dlr_agent_data_config(s->data); /* and from now on it is taken */
    dlr_local_init(&m, DLR_LOCAL_D_RESERVE);
    m.round = s->round->round;
    m.rank = rank;
    m.arg[0] = bytes;
    m.arg[1] = 1;
    m.arg[2] = DLR_STORE_FETCHED;
    dlr_agent_data_send(s->data, &m);
}

void dlr_agent_fetch_fail(struct dlr_agent_snapshots *s, const char *why)
{
    for (struct dlr_agent_fetch *b = s->fetches, *next; b; b = next) {
        next = b->next;
        if (b->coming && (b->n || (b->made && !b->room)))
            no_room(s, b->rank, -EIO, why);
    }
}

void dlr_agent_fetch_reserved(struct dlr_agent_snapshots *s, int32_t rank, int rc,
                              const char *why)
{
    struct dlr_agent_fetch *b = dlr_agent_fetch_find(s, rank);

    if (!b)
        return;
    b->room = rc == 0;
    if (rc < 0)
        no_room(s, rank, rc, why);
    else
        say_room(s, rank, 0, "");
}

int dlr_agent_fetched(struct dlr_agent_snapshots *s, const json_t *msg)
{
    const char *why = "", *path = "";
    struct dlr_agent_fetch *b;
    uint64_t round, rank, rc;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        !dlr_agent_round_is(s->round, round) ||
        dlr_msg_uint(msg, "rank", INT32_MAX, &rank) < 0 ||
        dlr_msg_uint(msg, "rc", INT32_MAX, &rc) < 0)
        return -EBADMSG;
    dlr_msg_str(msg, "why", &why);
    dlr_msg_str(msg, "path", &path);
    b = dlr_agent_fetch_find(s, (int32_t)rank);
    if (b && strlen(path) < DLR_LOCAL_TEXT)
        answer(s, b, -(int)rc, rc ? why : path);
    return 0;
}
