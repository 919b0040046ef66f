/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the round goes on: who is asked, and who is told that it does not. */
#include "common/base/clock.h"
#include "common/json/message.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/dispatch.h"
#include "mpi_launcher/supervisor/io/io.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/watch/watch.h"

static void ask(void *arg, uint32_t round, uint64_t id)
{
    struct dlr_sup *s = arg;
    json_t *msg = dlr_msg_new("look");

    if (msg) {
        json_object_set_new(msg, "round", json_integer(round));
        json_object_set_new(msg, "id", json_integer((json_int_t)id));
    }
    dlr_sup_send_all(s->nodes, msg);
}

static void tell(void *arg, const char *event, json_t *row, const char *words)
{
    const struct dlr_sup *s = arg;

    dlr_journal_event(dlr_sup_journal(s->io), event, row);
}

static void say(void *arg, const struct dlr_sup_hang *hang)
{
    dlr_user_line(((struct dlr_sup *)arg)->io, "%s", hang->words);
}

/* Where failed tasks are let be, so is what hangs. */
static void on_stuck(void *arg, const struct dlr_sup_hang *hang)
{
    struct dlr_sup *s = arg;

    if (s->conf.hang == DLR_HANG_ACT && !s->step->tolerant && !s->deposed)
        dlr_policy_hang(s->policy, hang->round, hang->words, hang->place,
                        dlr_sup_now());
    else
        say(arg, hang);
}

static void on_changed(void *arg)
{
    dlr_sup_state_changed(arg, true);
}

const struct dlr_sup_watch_ops dlr_sup_watch_ops = {
    .ask = ask,
    .tell = tell,
    .say = say,
    .stuck = on_stuck,
    .changed = on_changed,
};

static bool is_any_asleep(const struct dlr_sup *s)
{
    for (unsigned i = 0; i < s->members->n; i++)
        if (s->members->list[i].asleep)
            return true;
    return dlr_sup_is_held();
}

void dlr_sup_watch_round(struct dlr_sup *s, int64_t now_ms)
{
    struct dlr_sup_watch_now now = {.ms = now_ms,
                                    .wall_ms = dlr_wall_ns() / 1000000,
                                    .runs =
                                        dlr_policy_phase(s->policy) == DLR_PHASE_RUN &&
                                        !dlr_sup_adopting(s->rounds) && !s->deposed};

    if (s->conf.hang == DLR_HANG_OFF)
        return;
    if (now.runs) {
        now.held = is_any_asleep(s);
        now.round = dlr_sup_running_round(s->rounds);
        now.step = dlr_members_step(s->members, now.round);
    }
    dlr_sup_watch_tick(s->watch, &now);
}
