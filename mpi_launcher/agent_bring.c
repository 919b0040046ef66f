/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the version to restore that workers here want and this node does not have. The
 * supervisor knows who has them; they come into a slot of their own, which is gone when nobody
 * is to read it any more: at go, and with the round's end.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/log.h"
#include "common/msg.h"
#include "common/str.h"
#include "mpi_launcher/agent.h"

struct dlr_agent_bring {
    struct dlr_agent_bring *next;
    struct dlr_agent *agent;
    int32_t rank;
    struct dlr_agent_conn **waiting; /* [n], answered once it is here or will not be */
    unsigned n;
    int timer;   /* -1: off */
    bool coming; /* it has a slot, or is there */
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
    dlr_agent_timer_end(a, &b->timer);
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
    dlr_agent_timer_end(a, &b->timer);
    if (rc < 0)
        forget(a, b);
}

static int on_late(zloop_t *loop, int timer, void *arg)
{
    struct dlr_agent_bring *b = arg;

    b->timer = -1;
    answer(b->agent, b, -ETIMEDOUT,
           "its copy did not come in time (--dlrover-transfer-timeout)");
    return 0;
}

static void ask(struct dlr_agent *a, const struct dlr_agent_bring *b)
{
    dlr_agent_say(a,
                  json_pack("{s:i, s:s, s:I, s:i}", "v", DLR_MSG_VERSION, "t", "bring",
                            "round", (json_int_t)a->round.round, "rank", b->rank));
}

void dlr_agent_bring(struct dlr_agent *a, struct dlr_agent_conn *c, int32_t rank)
{
    struct dlr_agent_bring *b = find(a, rank);
    struct dlr_agent_conn **more;

    if (!b && (b = calloc(1, sizeof(*b)))) {
        *b = (struct dlr_agent_bring){
            .next = a->brings, .agent = a, .rank = rank, .timer = -1};
        a->brings = b;
    }
    more = b ? realloc(b->waiting, (b->n + 1) * sizeof(*more)) : NULL;
    if (!more) {
        dlr_agent_peek_answer(a, c, rank, -ENOMEM, "no memory");
        return;
    }
    b->waiting = more;
    b->waiting[b->n++] = c;
    if (b->n > 1)
        return; /* it was asked for */
    dlr_agent_timer(a, &b->timer, a->job.transfer_timeout_ms, on_late, b);
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

uint64_t dlr_agent_bring_others(const struct dlr_agent *a, int32_t but)
{
    int fd = openat(a->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
            (k == DLR_STORE_BROUGHT ? rank != but : !is_used(a, rank)) &&
            fstatat(a->dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            bytes += (uint64_t)st.st_size;
    }
    return bytes;
}

void dlr_agent_bring_end(struct dlr_agent *a, const char *why)
{
    bool any = a->brings != NULL;

    while (a->brings) {
        if (a->brings->n)
            answer(a, a->brings, -ECANCELED, why);
        else
            forget(a, a->brings);
    }
    if (any)
        dlr_agent_data_config(a);
}

/* --- as the supervisor says --------------------------------------------------------------- */

static void say_room(struct dlr_agent *a, int32_t rank, int rc, const char *why)
{
    dlr_agent_say(a, json_pack("{s:i, s:s, s:I, s:i, s:i, s:s}", "v", DLR_MSG_VERSION,
                               "t", "room", "round", (json_int_t)a->round.round, "rank",
                               rank, "rc", -rc, "why", why));
}

void dlr_agent_bring_reserve(struct dlr_agent *a, int32_t rank, uint64_t bytes)
{
    struct dlr_agent_bring *b = find(a, rank);
    struct dlr_local_msg m;
    struct dlr_err err;

    if (!b || !b->n) {
        say_room(a, rank, -ECANCELED, "nobody wants it any more");
        return;
    }
    if (a->data.fd < 0) {
        say_room(a, rank, -EIO, "no data process on this node");
        return;
    }
    if (dlr_agent_room_check(a, rank, 1, bytes, &err) < 0) {
        say_room(a, rank, err.code, err.text);
        return;
    }
    b->coming = true;
    dlr_agent_data_config(a); /* and from now on it is taken */
    dlr_local_init(&m, DLR_LOCAL_D_RESERVE);
    m.round = a->round.round;
    m.rank = rank;
    m.arg[0] = bytes;
    m.arg[1] = 1;
    m.arg[2] = DLR_STORE_BROUGHT;
    dlr_agent_data_send(a, &m);
}

void dlr_agent_bring_fail(struct dlr_agent *a, const char *why)
{
    for (struct dlr_agent_bring *b = a->brings; b; b = b->next)
        if (b->coming && b->n)
            say_room(a, b->rank, -EIO, why);
}

void dlr_agent_bring_reserved(struct dlr_agent *a, int32_t rank, int rc,
                              const char *why)
{
    if (find(a, rank))
        say_room(a, rank, rc, rc < 0 ? why : "");
}

int dlr_agent_brought(struct dlr_agent *a, const json_t *msg)
{
    const char *why = "", *path = "";
    struct dlr_agent_bring *b;
    uint64_t round, rank, rc;

    if (dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 ||
        !dlr_agent_round_is(a, round) ||
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
