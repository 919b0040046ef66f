/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the round goes on: who is asked, and who is told that it does not. */
#include "common/base/clock.h"
#include "common/base/str.h"
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
#include "mpi_launcher/supervisor/watch/stacks.h"
#include "mpi_launcher/supervisor/watch/watch.h"

#define STACK_FILES 8

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

/* The stacks first: after the end there are none. */
static void say(void *arg, const struct dlr_sup_hang *hang)
{
    struct dlr_sup *s = arg;

    s->stacks_end = false;
    dlr_sup_stacks_begin(s->stacks, hang, s->plan, dlr_sup_now());
}

/* Where failed tasks are let be, so is what hangs. */
static void on_stuck(void *arg, const struct dlr_sup_hang *hang)
{
    struct dlr_sup *s = arg;

    s->stacks_end = s->conf.hang == DLR_HANG_ACT && !s->step->tolerant && !s->deposed;
    dlr_sup_stacks_begin(s->stacks, hang, s->plan, dlr_sup_now());
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

/* --- their stacks ----------------------------------------------------------------- */

static void ask_stacks(void *arg, const char *name, uint32_t round, uint64_t id,
                       const char *ranks)
{
    struct dlr_sup *s = arg;
    const int node = dlr_members_find(s->members, name);
    json_t *msg = dlr_msg_new("take_stacks");

    if (msg) {
        json_object_set_new(msg, "round", json_integer(round));
        json_object_set_new(msg, "id", json_integer((json_int_t)id));
        json_object_set_new(msg, "ranks", json_string(ranks));
    }
    if (node >= 0)
        dlr_sup_send(s->nodes, (unsigned)node, msg);
    else
        json_decref(msg);
}

/* Into the run's directory by the journal's process, which may wait for a file server;
 * STACK_FILES of them are kept.
 */
static void keep(struct dlr_sup *s, const struct dlr_sup_stacks_found *found)
{
    char path[DLR_RUN_PATH + 32];

    dlr_format(path, sizeof(path), "%s/hang-%u.log", s->info.dir,
               found->hang.round % STACK_FILES);
    dlr_journal_replace(dlr_sup_journal(s->io), path, found->text);
    dlr_journal_note(dlr_sup_journal(s->io), "stacks", "s:I,s:s,s:s,s:i", "round",
                     (json_int_t)found->hang.round, "ranks", found->ranks, "file", path,
                     "silent", (int)found->silent);
    dlr_user_line(s->io, "stacks of ranks %s: %s", found->ranks, path);
}

static void on_stacks(void *arg, const struct dlr_sup_stacks_found *found)
{
    struct dlr_sup *s = arg;
    const struct dlr_sup_hang *hang = &found->hang;

    if (found->text)
        keep(s, found);
    if (s->stacks_end)
        dlr_policy_hang(s->policy, hang->round, hang->words, hang->place,
                        dlr_sup_now());
    else
        dlr_user_line(s->io, "%s", hang->words);
}

const struct dlr_sup_stacks_ops dlr_sup_stacks_ops = {
    .ask = ask_stacks,
    .done = on_stacks,
};

void dlr_sup_on_stacks(struct dlr_sup *s, unsigned node, const json_t *msg)
{
    dlr_sup_stacks_take(s->stacks, s->members->list[node].node.name, msg);
}

/* ---------------------------------------------------------------------------------- */

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
    dlr_sup_stacks_tick(s->stacks, now.runs, now.round, now_ms);
    if (!dlr_sup_stacks_busy(s->stacks)) /* it would see their threads held */
        dlr_sup_watch_tick(s->watch, &now);
}
