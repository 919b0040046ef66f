/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that say hello. One that is where the round has it is welcomed at once; with
 * any other, or a second time in a turn, the supervisor is told who is here, and they
 * wait until it knows all ranks of the program (mpi_launcher/plan/rank_map.h) and the
 * next turn begins.
 */
#include <errno.h>
#include <signal.h>

#include "common/base/cleanup.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/ranks.h"
#include "mpi_launcher/agent/tasks/tasks_state.h"

#define EACH_CONN(tasks, c)                                                            \
    struct dlr_agent_conn *c = zlistx_first((tasks)->conns);                           \
    c;                                                                                 \
    c = zlistx_next((tasks)->conns)

/* Any waits, or the supervisor has asked: each change is told. */
static bool is_watched(const struct dlr_agent_tasks *tasks)
{
    if (tasks->asked)
        return true;
    for (EACH_CONN(tasks, c))
        if (c->waits)
            return true;
    return false;
}

/* "ranks": who is here. */
static void say_ranks(struct dlr_agent_tasks *tasks)
{
    json_t *waiting = json_array(), *served = json_array();

    for (EACH_CONN(tasks, c)) {
        if (c->waits)
            json_array_append_new(
                waiting, json_pack("[i, I]", (int)c->rank, (json_int_t)c->world));
        else if (dlr_agent_ranks_serves(tasks->snapshots, c))
            json_array_append_new(
                served, json_pack("[i, I]", (int)c->rank, (json_int_t)c->world));
    }
    dlr_agent_send_supervisor(
        tasks->base,
        json_pack("{s:i, s:s, s:I, s:I, s:o, s:o, s:b}", "v", DLR_MSG_VERSION, "t",
                  "ranks", "round", (json_int_t)tasks->round->round, "turn",
                  (json_int_t)tasks->round->turn, "waiting", waiting, "served", served,
                  "lost", tasks->lost));
}

void dlr_agent_claims_resend(struct dlr_agent_tasks *tasks)
{
    if (is_watched(tasks))
        say_ranks(tasks);
}

static void refuse(struct dlr_agent_conn *c, int rc, const char *why)
{
    struct dlr_local_msg m;

    dlr_local_init(&m, DLR_LOCAL_REFUSED);
    m.round = c->round;
    m.rank = c->rank;
    m.arg[1] = (uint64_t)-rc;
    dlr_local_text(&m, "%s", why);
    c->waits = false;
    dlr_agent_local_send(c, &m, NULL, 0);
}

/* Who has the rank here now, or waits for it, as a process that is there. */
static const struct dlr_agent_conn *find_other(const struct dlr_agent_tasks *tasks,
                                               const struct dlr_agent_conn *than)
{
    for (EACH_CONN(tasks, c))
        if (c != than && c->kind == DLR_CONN_WORKER && c->rank == than->rank &&
            (c->waits || dlr_agent_ranks_serves(tasks->snapshots, c)))
            return c;
    return NULL;
}

/* Its end is known only when every child has closed what it inherited. */
static bool has_ended(const struct dlr_agent_conn *c)
{
    return c->pid > 0 && kill(c->pid, 0) < 0 && errno == ESRCH;
}

static bool is_expected(const struct dlr_agent_tasks *tasks,
                        const struct dlr_agent_conn *c)
{
    return dlr_agent_ranks_expects(tasks->snapshots, c->rank) && !tasks->asked &&
           (!tasks->round->world || tasks->round->world == c->world);
}

/* A process has looked, closed, and opens again: as if it had opened once. Of a former
 * start of the program it cannot be, and nothing is committed since, for that takes
 * every rank.
 */
static bool comes_back(const struct dlr_agent_tasks *tasks,
                       const struct dlr_agent_conn *c)
{
    int left = dlr_agent_ranks_left(tasks->snapshots, c->rank);

    return left > 0 && left == c->pid && !tasks->asked;
}

static void take_back(struct dlr_agent_tasks *tasks, int32_t rank)
{
    tasks->lost--;
    dlr_agent_ranks_reopen(tasks->snapshots, rank);
}

void dlr_agent_claims_hello(struct dlr_agent_tasks *tasks, struct dlr_agent_conn *c)
{
    struct dlr_agent_conn *other = (struct dlr_agent_conn *)find_other(tasks, c);
    char why[160];

    if (other && has_ended(other)) {
        dlr_agent_claims_gone(tasks, other);
    } else if (other) {
        snprintf(why, sizeof(why),
                 "rank %d has its checkpoint open in process %d of this node: one "
                 "process of a "
                 "rank opens it, once",
                 (int)c->rank, other->pid);
        refuse(c, -EEXIST, why);
        return;
    }
    if (comes_back(tasks, c))
        take_back(tasks, c->rank);
    if (is_expected(tasks, c)) {
        dlr_agent_ranks_hello(tasks->snapshots, c);
        return;
    }
    c->waits = true;
    say_ranks(tasks);
}

void dlr_agent_claims_gone(struct dlr_agent_tasks *tasks, struct dlr_agent_conn *c)
{
    bool now = dlr_agent_round_is(tasks->round, c->round);
    bool waited = now && c->waits,
         served = now && dlr_agent_ranks_serves(tasks->snapshots, c);

    c->waits = false;
    if (served) {
        tasks->lost++;
        dlr_agent_ranks_leave(tasks->snapshots, c);
    }
    dlr_agent_ranks_gone(tasks->snapshots, c);
    if (waited || (served && is_watched(tasks)))
        say_ranks(tasks);
}

void dlr_agent_claims_turn(struct dlr_agent_tasks *tasks)
{
    unsigned n = 0;
    DLR_AUTO_FREE struct dlr_agent_conn **all =
        calloc(zlistx_size(tasks->conns) + 1, sizeof(*all));

    tasks->asked = false;
    tasks->lost = 0;
    for (EACH_CONN(tasks, c))
        if (all && c->waits)
            all[n++] = c;
    for (unsigned i = 0; i < n; i++) { /* a send moves no connection, but the cursor */
        all[i]->waits = false;
        dlr_agent_claims_hello(tasks, all[i]);
    }
}

/* --- as the supervisor says ------------------------------------------------------- */

static bool is_now(const struct dlr_agent_tasks *tasks, const json_t *msg)
{
    uint64_t round, turn;

    return dlr_msg_uint(msg, "round", UINT32_MAX, &round) == 0 &&
           dlr_agent_round_is(tasks->round, round) &&
           dlr_msg_uint(msg, "turn", UINT32_MAX, &turn) == 0 &&
           turn == tasks->round->turn;
}

int dlr_agent_claims_ask(struct dlr_agent_tasks *tasks, const json_t *msg)
{
    if (!is_now(tasks, msg))
        return -EBADMSG;
    tasks->asked = true;
    say_ranks(tasks);
    return 0;
}

int dlr_agent_claims_refuse(struct dlr_agent_tasks *tasks, const json_t *msg)
{
    const char *why;

    if (!is_now(tasks, msg) || dlr_msg_str(msg, "why", &why) < 0)
        return -EBADMSG;
    for (EACH_CONN(tasks, c))
        if (c->waits)
            refuse(c, -ETIMEDOUT, why);
    return 0;
}
