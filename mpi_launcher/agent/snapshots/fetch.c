/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the version to restore that workers here want and this node does not have. The
 * supervisor knows who has them; they come into a slot of their own, which is gone when nobody
 * is to read it any more: at go, and with the round's end. What was made of parity stays until a
 * commit, unless the round's own slots need its room.
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
#include "mpi_launcher/agent/agent.h"

struct dlr_agent_bring {
    struct dlr_agent_bring *next;
    struct dlr_agent *agent;
    int32_t rank;
    struct dlr_agent_conn **waiting; /* [n], answered once it is here or will not be */
    unsigned n;
    int timer;   /* -1: off */
    bool coming; /* it has a slot, or is there */
    bool made;   /* here, of parity: others have none, so it stays until a commit */
    bool room;   /* its slot is there */
};

static struct dlr_agent_bring *find(const struct dlr_agent *a, int32_t rank)
{
    struct dlr_agent_bring *b = a->brings;

    while (b && b->rank != rank)
        b = b->next;
    return b;
}

static void forget(struct dlr_agent *a, struct dlr_agent_bring *b)
{
    struct dlr_agent_bring **at = &a->brings;

    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    dlr_agent_timer_end(a->base, &b->timer);
    free(b->waiting);
    free(b);
}

/* rc < 0: why; else path, or "" when it lies here. */
static void answer(struct dlr_agent *a, struct dlr_agent_bring *b, int rc,
                   const char *text)
{
    for (unsigned i = 0; i < b->n; i++)
        dlr_agent_peek_answer(a, b->waiting[i], b->rank, rc, text);
    b->n = 0;
    dlr_agent_timer_end(a->base, &b->timer);
    if (rc < 0 && !b->made)
        forget(a, b);
}

static int on_late(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_bring *b = arg;

    b->timer = -1;
    answer(b->agent, b, -ETIMEDOUT,
           "its copy did not come in time (--dlrover-set=transfer-timeout)");
    return 0;
}

static void ask(struct dlr_agent *a, const struct dlr_agent_bring *b)
{
    dlr_agent_say(a->base,
                  json_pack("{s:i, s:s, s:I, s:i}", "v", DLR_MSG_VERSION, "t", "bring",
                            "round", (json_int_t)a->round.round, "rank", b->rank));
}

static struct dlr_agent_bring *add(struct dlr_agent *a, int32_t rank)
{
    struct dlr_agent_bring *b = find(a, rank);

    if (!b && (b = calloc(1, sizeof(*b)))) {
        *b = (struct dlr_agent_bring){
            .next = a->brings, .agent = a, .rank = rank, .timer = -1};
        a->brings = b;
    }
    return b;
}

void dlr_agent_bring(struct dlr_agent *a, struct dlr_agent_conn *c, int32_t rank)
{
    struct dlr_agent_bring *b = add(a, rank);
    struct dlr_agent_conn **more;

    more = b ? realloc(b->waiting, (b->n + 1) * sizeof(*more)) : NULL;
    if (!more) {
        dlr_agent_peek_answer(a, c, rank, -ENOMEM, "no memory");
        return;
    }
    b->waiting = more;
    b->waiting[b->n++] = c;
    if (b->n > 1)
        return; /* it was asked for */
    dlr_agent_timer(a->base, &b->timer, a->self.job.transfer_timeout_ms, on_late, b);
    ask(a, b);
}

void dlr_agent_bring_gone(struct dlr_agent *a, const struct dlr_agent_conn *c)
{
    for (struct dlr_agent_bring *b = a->brings; b; b = b->next)
        for (unsigned i = 0; i < b->n; i++)
            if (b->waiting[i] == c)
                b->waiting[i--] = b->waiting[--b->n];
}

void dlr_agent_bring_retell(struct dlr_agent *a)
{
    for (struct dlr_agent_bring *b = a->brings; b; b = b->next)
        if (b->n)
            ask(a, b);
}

json_t *dlr_agent_bring_ranks(const struct dlr_agent *a)
{
    json_t *list = json_array();

    for (const struct dlr_agent_bring *b = a->brings; b; b = b->next)
        if (b->coming)
            json_array_append_new(list, json_integer(b->rank));
    return list;
}

static bool is_used(const struct dlr_agent *a, int32_t rank)
{
    for (unsigned i = 0; i < a->nranks; i++)
        if (a->ranks[i]->rank == rank)
            return true;
    for (unsigned i = 0; i < a->round.naccept; i++)
        if (a->round.accept[i] == rank)
            return true;
    return false;
}

/* A brought one that was given up is still there at times: the data process removes it before it makes
 * what it is asked for later.
 */
uint64_t dlr_agent_bring_others(const struct dlr_agent *a, int32_t but)
{
    int fd = openat(a->self.dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DLR_AUTO_CLOSEDIR DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    uint64_t bytes = 0;

    if (!d && fd >= 0)
        close(fd);
    while (d && (entry = readdir(d))) {
        struct stat st;
        int32_t rank;
        unsigned k;

        if (sscanf(entry->d_name, "r%d.s%u", &rank, &k) == 2 &&
            (k == DLR_STORE_BROUGHT ? rank != but && find(a, rank)
                                    : !is_used(a, rank)) &&
            fstatat(a->self.dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            bytes += (uint64_t)st.st_size;
    }
    return bytes;
}

/* Nobody waits for it any more, nor reads it. */
static void end(struct dlr_agent *a, struct dlr_agent_bring *b, const char *why)
{
    b->made = false;
    if (b->n)
        answer(a, b, -ECANCELED, why);
    else
        forget(a, b);
}

void dlr_agent_bring_end(struct dlr_agent *a, const char *why)
{
    bool any = a->brings != NULL;

    while (a->brings)
        end(a, a->brings, why);
    if (any)
        dlr_agent_data_config(a->data);
}

/* Of those that were made here, or of the others; false: there was none. */
static bool end_some(struct dlr_agent *a, bool made, const char *why)
{
    bool any = false;

    for (struct dlr_agent_bring *b = a->brings, *next; b; b = next) {
        next = b->next;
        if (b->made != made)
            continue;
        end(a, b, why);
        any = true;
    }
    if (any)
        dlr_agent_data_config(a->data);
    return any;
}

void dlr_agent_bring_go(struct dlr_agent *a, const char *why)
{
    a->went = UINT64_C(1) + a->round.round;
    end_some(a, false, why);
}

bool dlr_agent_bring_yield(struct dlr_agent *a, int rc, const char *why)
{
    return (rc == -EDQUOT || rc == -ENOSPC || rc == -ENOMEM) &&
           a->went == UINT64_C(1) + a->round.round && end_some(a, true, why);
}

/* --- as the supervisor says --------------------------------------------------------------- */

static void say_room(struct dlr_agent *a, int32_t rank, int rc, const char *why)
{
    dlr_agent_say(a->base,
                  json_pack("{s:i, s:s, s:I, s:i, s:i, s:s}", "v", DLR_MSG_VERSION, "t",
                            "room", "round", (json_int_t)a->round.round, "rank", rank,
                            "rc", -rc, "why", why));
}

/* What is made here has nobody who waits for it and would be told that there is no room. */
static void no_room(struct dlr_agent *a, int32_t rank, int rc, const char *why)
{
    struct dlr_agent_bring *b = find(a, rank);

    if (b && b->made && !b->n)
        forget(a, b);
    say_room(a, rank, rc, why);
}

void dlr_agent_bring_reserve(struct dlr_agent *a, int32_t rank, uint64_t bytes,
                             bool make)
{
    struct dlr_agent_bring *b = make ? add(a, rank) : find(a, rank);
    struct dlr_local_msg m;
    struct dlr_err err;

    if (!b || (!b->n && !make)) {
        say_room(a, rank, -ECANCELED, "nobody wants it any more");
        return;
    }
    b->made = b->made || make;
    if (!dlr_agent_data_runs(a->data)) {
        no_room(a, rank, -EIO, "no data process on this node");
        return;
    }
    if ((make ? dlr_agent_room_beside(a, rank, bytes, &err)
              : dlr_agent_room_check(a, rank, 1, bytes, &err)) < 0) {
        no_room(a, rank, err.code, err.text);
        return;
    }
    b->coming = true;
    dlr_agent_data_config(a->data); /* and from now on it is taken */
    dlr_local_init(&m, DLR_LOCAL_D_RESERVE);
    m.round = a->round.round;
    m.rank = rank;
    m.arg[0] = bytes;
    m.arg[1] = 1;
    m.arg[2] = DLR_STORE_BROUGHT;
    dlr_agent_data_send(a->data, &m);
}

void dlr_agent_bring_fail(struct dlr_agent *a, const char *why)
{
    for (struct dlr_agent_bring *b = a->brings, *next; b; b = next) {
        next = b->next;
        if (b->coming && (b->n || (b->made && !b->room)))
            no_room(a, b->rank, -EIO, why);
    }
}

void dlr_agent_bring_reserved(struct dlr_agent *a, int32_t rank, int rc,
                              const char *why)
{
    struct dlr_agent_bring *b = find(a, rank);

    if (!b)
        return;
    b->room = rc == 0;
    if (rc < 0)
        no_room(a, rank, rc, why);
    else
        say_room(a, rank, 0, "");
}

int dlr_agent_brought(struct dlr_agent *a, const json_t *msg)
{
    const char *why = "", *path = "";
    struct dlr_agent_bring *b;
    uint64_t round, rank, rc;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        !dlr_agent_round_is(&a->round, round) ||
        dlr_msg_uint(msg, "rank", INT32_MAX, &rank) < 0 ||
        dlr_msg_uint(msg, "rc", INT32_MAX, &rc) < 0)
        return -EBADMSG;
    dlr_msg_str(msg, "why", &why);
    dlr_msg_str(msg, "path", &path);
    b = find(a, (int32_t)rank);
    if (b && strlen(path) < DLR_LOCAL_TEXT)
        answer(a, b, -(int)rc, rc ? why : path);
    return 0;
}
