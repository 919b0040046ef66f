/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/client/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/local/agent_socket.h"
#include "common/local/program_rank.h"
#include "interpose/calls/calls.h"
#include "watch/comms.h"
#include "watch/look.h"
#include "watch/map.h"
#include "watch/write.h"

#define WATCH_OPEN_MS 5000 /* the agent may take to answer */
#define NS_PER_SECOND UINT64_C(1000000000)

struct dlr_watch {
    struct dlr_watch_map map;
    bool tells_calls; /* and nobody else did when it began to */
    unsigned nwaits;
    int waits[DLR_WATCH_WAITS]; /* lines of the page */
};

static uint64_t now(void)
{
    return (uint64_t)dlr_now_ns();
}

static void close_all(const int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        close(fds[i]);
}

/* Asks the agent for the page. */
static int ask(struct dlr_watch *w, unsigned round, int rank, struct dlr_err *err)
{
    const int64_t deadline_ms = dlr_now_ms() + WATCH_OPEN_MS;
    int fds[DLR_LOCAL_FDS], rc;
    DLR_AUTO_FREE struct dlr_local_msg *msg = malloc(sizeof(*msg));
    DLR_AUTO_CLOSE int sock = -1;
    unsigned n = 0;

    if (!msg)
        return dlr_fail(err, -ENOMEM, "out of memory");
    rc = dlr_agent_socket_connect(WATCH_OPEN_MS, &sock, err);
    if (rc < 0)
        return rc;
    dlr_local_init(msg, DLR_LOCAL_WATCH);
    msg->round = round;
    msg->rank = rank;
    rc = dlr_local_send(sock, msg, NULL, 0);
    rc = rc < 0 ? rc : dlr_agent_socket_answer(sock, deadline_ms, msg, fds, &n);
    if (rc <= 0)
        return dlr_fail(err, rc < 0 ? rc : -ECONNRESET, "the agent does not answer");
    if (msg->type == DLR_LOCAL_WATCHED && n > 0)
        rc = dlr_watch_map_open(&w->map, fds[0], -1, err);
    else
        rc = dlr_fail(err, -ENOTSUP, "the agent gives no page: %s", msg->text);
    close_all(fds, n);
    return rc;
}

int dlr_watch_open(struct dlr_watch **ret_w)
{
    const char *socket = getenv("DLROVER_AGENT_SOCKET"),
               *round = getenv("DLROVER_ROUND");
    DLR_AUTO_FREE struct dlr_watch *w = calloc(1, sizeof(*w));
    int rank, world, rc = 0;
    struct dlr_err err;
    unsigned number;

    if (!w)
        return -ENOMEM;
    if (socket && *socket && round && dlr_parse_uint(round, UINT32_MAX, &number) == 0) {
        rc = dlr_program_rank(&rank, &world, &err);
        if (rc == -EINVAL)
            return rc;
        rc = rc < 0 ? rc : ask(w, number, rank, &err);
        if (rc < 0)
            dlr_debug("not watched: %s", err.text);
    }
    if (w->map.page) {
        dlr_watch_put_flag(w->map.page, DLR_WATCH_FINISHED, false);
        dlr_watch_put_flag(w->map.page, DLR_WATCH_SEEN_STEPS, true);
    }
    *ret_w = DLR_STEAL(w);
    return 0;
}

int dlr_watch_active(const struct dlr_watch *w)
{
    return w->map.page != NULL;
}

void dlr_watch_step(struct dlr_watch *w, uint64_t step)
{
    if (!w->map.page)
        return;
    dlr_watch_put_step(w->map.page, step, now());
    if (DLR_WATCH_GET(w->map.page->flags) & DLR_WATCH_FINISHED)
        dlr_watch_put_flag(w->map.page, DLR_WATCH_FINISHED, false);
}

void dlr_watch_total(struct dlr_watch *w, uint64_t total)
{
    if (w->map.page)
        dlr_watch_put_total(w->map.page, total);
}

void dlr_watch_phase(struct dlr_watch *w, const char *name, unsigned limit_s)
{
    if (w->map.page)
        dlr_watch_put_phase(w->map.page, name, limit_s * NS_PER_SECOND, now());
}

void dlr_watch_pause(struct dlr_watch *w)
{
    if (w->map.page)
        dlr_watch_put_flag(w->map.page, DLR_WATCH_PAUSED, true);
}

void dlr_watch_resume(struct dlr_watch *w)
{
    if (w->map.page)
        dlr_watch_put_flag(w->map.page, DLR_WATCH_PAUSED, false);
}

uint32_t dlr_watch_call_number(const char *name)
{
    return dlr_torch_call_number(name);
}

int dlr_watch_rank(const struct dlr_watch *w)
{
    return w->map.page ? w->map.page->rank : -1;
}

static void begin_calls(struct dlr_watch *w)
{
    struct dlr_watch_page *page = w->map.page;

    if (w->tells_calls || DLR_WATCH_GET(page->flags) & DLR_WATCH_SEEN_CALLS)
        return;
    dlr_watch_put_flag(page, DLR_WATCH_SEEN_CALLS, true);
    w->tells_calls = true;
}

int dlr_watch_put_group(struct dlr_watch *w, const struct dlr_watch_group *group)
{
    const struct dlr_watch_member member = {.id = group->id,
                                            .size = group->size,
                                            .my_rank = group->my_rank,
                                            .lost = group->lost,
                                            .entered = group->entered,
                                            .left = group->left};
    const struct dlr_watch_state state = {.op = group->call,
                                          .type = group->item,
                                          .root = group->root,
                                          .lost = group->lost,
                                          .entered = group->entered,
                                          .left = group->left,
                                          .bytes = group->bytes};
    struct dlr_watch_page *page = w->map.page;
    int line;

    if (!page || group->id <= DLR_LOOK_WORLD)
        return page ? -EINVAL : 0;
    begin_calls(w);
    line = dlr_watch_comm_open(page, &member, now());
    return dlr_watch_comm_put(page, line, group->id, &state, now()) ? 0 : -ENOSPC;
}

void dlr_watch_del_group(struct dlr_watch *w, uint64_t id)
{
    struct dlr_watch_page *page = w->map.page;

    for (int i = 0; page && id > DLR_LOOK_WORLD && i < DLR_WATCH_COMMS; i++)
        dlr_watch_comm_close(page, i, id);
}

void dlr_watch_put_waits(struct dlr_watch *w, const struct dlr_watch_wait *waits,
                         unsigned n)
{
    struct dlr_watch_page *page = w->map.page;

    if (!page)
        return;
    for (unsigned i = 0; i < w->nwaits; i++)
        dlr_watch_clear(page, w->waits[i], now());
    w->nwaits = 0;
    for (unsigned i = 0; i < n && i < DLR_WATCH_WAITS; i++) {
        begin_calls(w);
        w->waits[w->nwaits++] = dlr_watch_block(
            page, waits[i].tid, waits[i].call, waits[i].group, waits[i].peer,
            waits[i].tag, waits[i].bytes, waits[i].since_ns);
    }
}

/* A rank whose calls are told has left with MPI_Finalize: until then others wait for it. */
void dlr_watch_close(struct dlr_watch *w)
{
    if (!w)
        return;
    dlr_watch_put_waits(w, NULL, 0);
    if (w->map.page && w->tells_calls)
        dlr_watch_put_flag(w->map.page, DLR_WATCH_SEEN_CALLS, false);
    if (w->map.page && !(DLR_WATCH_GET(w->map.page->flags) & DLR_WATCH_SEEN_CALLS))
        dlr_watch_put_flag(w->map.page, DLR_WATCH_FINISHED, true);
    dlr_watch_map_close(&w->map);
    free(w);
}
