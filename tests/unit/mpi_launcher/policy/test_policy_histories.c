/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of every history of a run, whatever happens in whatever order: random
 * ones are played to the engine beside a world that knows where processes run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/policy/policy.h"

#define NODES 4
#define HISTORIES 120000
#define EVENTS 80
#define HOUR_MS 3600000
#define BEGUN_MAX                                                                      \
    150 /* in an hour without progress: 100, and what has its own budget */
#define LIMIT_MAX_MS 600000

struct world {
    struct dlr_policy *p;
    struct dlr_policy_conf conf;
    uint64_t random;
    unsigned seed, step;
    int64_t now;
    uint32_t round;
    int64_t runs[NODES]; /* the round whose processes are there, -1: none */
    unsigned char member[NODES];
    unsigned finished;
    int code;
    unsigned begun; /* since begun_ms, or the last progress */
    int64_t begun_ms;
    bool unwritten, rigid, fast;
};

static unsigned draw(struct world *w, unsigned n)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(w->random >> 33) % n;
}

#define HOLDS(w, condition, what)                                                      \
    do {                                                                               \
        if (!(condition))                                                              \
            fail_msg("history %u, event %u: %s", (w)->seed, (w)->step, what);          \
    } while (0)

/* --- what the engine asks for ----------------------------------------------------- */

static void goes_on(struct world *w)
{
    HOLDS(w, !w->finished, "something is asked for after the end");
}

static void begins(struct world *w)
{
    goes_on(w);
    if (w->now - w->begun_ms >= HOUR_MS) {
        w->begun_ms = w->now;
        w->begun = 0;
    }
    w->begun++;
    HOLDS(w, w->begun <= BEGUN_MAX, "a loop without an end");
}

static void start_agents(void *arg)
{
    begins(arg);
}
static int resize(void *arg, unsigned nplaces)
{
    goes_on(arg);
    return ((struct world *)arg)->rigid ? -EINVAL : 0;
}
static void rendezvous(void *arg, bool with_mpi)
{
    struct world *w = arg;

    begins(w);
    for (unsigned i = 0; i < NODES; i++)
        HOLDS(w, w->runs[i] < 0 || dlr_policy_is_lost(w->p, i),
              "a rendezvous begins beside a round that runs");
}
static void prepare(void *arg, uint32_t round)
{
    goes_on(arg);
    ((struct world *)arg)->round = round;
}
static void launch(void *arg, uint32_t round)
{
    struct world *w = arg;

    goes_on(w);
    HOLDS(w, round == w->round, "another round is launched than was prepared");
    for (unsigned i = 0; i < NODES; i++)
        if (w->member[i])
            w->runs[i] = round;
}
static void asked(void *arg)
{
    goes_on(arg);
}
static void end_round(void *arg, uint32_t round, enum dlr_cause cause, const char *why)
{
    goes_on(arg);
    HOLDS((struct world *)arg, why && cause != DLR_CAUSE_NONE, "an end has no reason");
}
static void with_reason(void *arg, const char *why)
{
    goes_on(arg);
    HOLDS((struct world *)arg, why && why[0], "it has no reason");
}
static void requeue(void *arg, const char *why)
{
    begins(arg);
    with_reason(arg, why);
}
static void late(void *arg, unsigned n)
{
    goes_on(arg);
    HOLDS((struct world *)arg, n, "nobody is waited for");
}
static void finish(void *arg, int code, const char *why)
{
    struct world *w = arg;

    goes_on(w);
    HOLDS(w, code == 0 || why, "a failure has no reason");
    w->code = code;
    w->finished++;
}
static bool unwritten(void *arg)
{
    return ((struct world *)arg)->unwritten;
}

static const struct dlr_policy_ops ops = {start_agents, resize,  rendezvous, asked,
                                          prepare,      launch,  end_round,  end_round,
                                          asked,        requeue, late,       finish,
                                          with_reason,  asked,   unwritten};

/* --- what happens ----------------------------------------------------------------- */

enum happening {
    UP,
    DEAD,
    AGENTS_GONE,
    HOLD,
    REPLAN,
    PLANNED,
    GIVE_UP,
    PREPARED,
    STARTED,
    LATE,
    TASK,
    RESTORE_FAILED,
    RESTORE_REFUSED,
    LEASE,
    WATCH,
    STEPD,
    STEP_ENDED,
    CLEAN,
    SIGNALLED,
    SIGTERM_TOLD,
    FATE,
    PERSISTED,
    WITH_JOB,
    CANCEL,
    REQUEUE_FAILED,
    AWAY,
    BACK,
    COMMITTED,
    LIMIT,
    HAPPENINGS,
    STOP = HAPPENINGS, /* a task, by its code */
    KILLED,
};

static void node_happens(struct world *w, enum happening what, unsigned node)
{
    if (what == UP) {
        if (dlr_policy_is_lost(w->p, node))
            w->runs[node] = -1; /* its lease had ended */
        dlr_policy_node_up(w->p, node, w->now);
    } else if (what == DEAD) {
        w->runs[node] = -1;
        dlr_policy_node_dead(w->p, node, "silent", w->now);
    } else if (dlr_policy_phase(w->p) == DLR_PHASE_END &&
               dlr_policy_is_alive(w->p, node)) {
        w->runs[node] = -1;
        dlr_policy_clean(w->p, node, dlr_policy_round(w->p), w->now);
    }
}

static void start_happens(struct world *w, enum happening what)
{
    static const int rcs[] = {0, 0, 0, 0, 0, 0, -EIO, -ENOSPC};

    switch (what) {
    case AGENTS_GONE:
        dlr_policy_agents_gone(w->p, w->now);
        break;
    case HOLD:
        dlr_policy_hold(w->p, w->now, 700);
        break;
    case REPLAN:
        dlr_policy_replan(w->p, w->now);
        break;
    case PLANNED:
        if (dlr_policy_phase(w->p) == DLR_PHASE_RENDEZVOUS)
            for (unsigned i = 0; i < NODES; i++)
                w->member[i] = dlr_policy_is_alive(w->p, i);
        dlr_policy_planned(w->p, rcs[draw(w, w->fast ? 6 : 8)], w->member, "no plan",
                           w->now);
        break;
    case GIVE_UP:
        dlr_policy_give_up(w->p, "no good");
        break;
    default:
        dlr_policy_prepared(w->p, draw(w, 8) ? 0 : -EIO, "a copy is bad", w->now);
        break;
    }
}

static void step_happens(struct world *w, enum happening what, uint32_t round)
{
    static const int statuses[] = {0, 1 << 8, 1 << 8, 93 << 8, SIGKILL, SIGTERM};

    switch (what) {
    case STARTED:
        dlr_policy_started(w->p, round);
        break;
    case LATE:
        dlr_policy_launch_late(w->p, round, "tasks are late", w->now);
        break;
    case TASK:
        dlr_policy_worker_exit(w->p, round, (int)draw(w, NODES), statuses[draw(w, 6)],
                               w->now);
        break;
    case RESTORE_FAILED:
        dlr_policy_restore_failed(w->p, round, "a copy is bad", w->now);
        break;
    case RESTORE_REFUSED:
        dlr_policy_restore_refused(w->p, round, "another model", w->now);
        break;
    case LEASE:
        dlr_policy_lease_expired(w->p, round, "a lease ended", w->now);
        break;
    case WATCH:
        dlr_policy_watch_lost(w->p, round, "an agent is gone", w->now);
        break;
    case STEPD:
        dlr_policy_step_lost(w->p, round, "a slurmstepd is gone", w->now);
        break;
    default:
        if (draw(w, 4) == 0)
            dlr_policy_step_ended_early(w->p, round, w->now);
        else
            dlr_policy_step_ended(w->p, round, draw(w, 2) ? 0 : 1, w->now);
        break;
    }
}

static void outside_happens(struct world *w, enum happening what)
{
    switch (what) {
    case SIGNALLED:
        dlr_policy_signal(w->p, draw(w, 2) ? SIGTERM : SIGINT, w->now);
        break;
    case SIGTERM_TOLD:
        dlr_policy_sigterm(w->p, draw(w, 2), 2000, w->now);
        break;
    case FATE:
        dlr_policy_fate(w->p, draw(w, 3) ? DLR_FATE_RUNS : draw(w, 3), w->now);
        break;
    case PERSISTED:
        dlr_policy_persisted(w->p, w->now);
        break;
    case WITH_JOB:
        dlr_policy_requeue_with_job(w->p, w->now);
        break;
    case CANCEL:
        dlr_policy_requeue_cancel(w->p, w->now);
        break;
    case REQUEUE_FAILED:
        dlr_policy_requeue_failed(w->p, "no");
        break;
    case AWAY:
        dlr_policy_controller_away(w->p, "no answer", w->now);
        break;
    case BACK:
        dlr_policy_controller_back(w->p, w->now);
        break;
    default:
        w->begun = 0;
        dlr_policy_committed(w->p, draw(w, 1000000));
        break;
    }
}

static void tick(struct world *w)
{
    if (dlr_policy_deadline_ms(w->p) == INT64_MAX)
        return;
    if (dlr_policy_deadline_ms(w->p) > w->now)
        w->now = dlr_policy_deadline_ms(w->p);
    dlr_policy_tick(w->p, w->now);
}

static void happens(struct world *w, enum happening what)
{
    uint32_t round = dlr_policy_round(w->p) - (draw(w, 12) == 0);

    if (what == UP || what == DEAD || what == CLEAN)
        node_happens(w, what, draw(w, NODES));
    else if (what >= STARTED && what <= STEP_ENDED)
        step_happens(w, what, round);
    else if (what == LIMIT)
        tick(w);
    else if (what <= PREPARED)
        start_happens(w, what);
    else
        outside_happens(w, what);
    dlr_policy_tick(w->p, w->now);
}

/* What brings a run on, so that histories get far. */
static enum happening expected(struct world *w)
{
    switch (dlr_policy_phase(w->p)) {
    case DLR_PHASE_AGENTS:
        return UP;
    case DLR_PHASE_RENDEZVOUS:
        return PLANNED;
    case DLR_PHASE_PREPARE:
        return PREPARED;
    case DLR_PHASE_RUN:
        return w->fast || draw(w, 3) ? STARTED : STEP_ENDED;
    case DLR_PHASE_END:
        return CLEAN;
    case DLR_PHASE_PERSIST:
        return PERSISTED;
    case DLR_PHASE_WAIT:
        return BACK;
    default:
        return LIMIT;
    }
}

/* --- a history -------------------------------------------------------------------- */

static void begin(struct world *w, unsigned seed)
{
    struct dlr_err err;

    *w = (struct world){
        .random = seed, .seed = seed, .now = 1000, .runs = {-1, -1, -1, -1}};
    w->random += draw(w, 1000);
    w->conf = (struct dlr_policy_conf){.nnodes = NODES,
                                       .nplaces = 1 + draw(w, NODES),
                                       .group = draw(w, 3),
                                       .min_places = draw(w, 3),
                                       .max_restarts = draw(w, 4),
                                       .rendezvous_tries = draw(w, 3),
                                       .tolerant = draw(w, 6) == 0,
                                       .batch = draw(w, 2),
                                       .agent_timeout_ms = 1000,
                                       .rendezvous_timeout_ms = 1000,
                                       .transfer_timeout_ms = 1000,
                                       .end_timeout_ms = 1000,
                                       .persist_timeout_ms = 1000,
                                       .requeue_timeout_ms = 1000,
                                       .controller_timeout_ms = 5000,
                                       .limit_ms = draw(w, 4) ? 0 : 20000,
                                       .start_timeout_ms = draw(w, 3) ? 0 : 20000,
                                       .suspect_ms = 500};
    w->conf.on_exit[1] = draw(w, 3);
    w->conf.on_exit[93] = DLR_ON_STOP;
    w->conf.on_node = draw(w, 4) ? DLR_ON_RESTART : draw(w, 3);
    w->unwritten = draw(w, 2);
    w->rigid = draw(w, 5) == 0;
    assert_int_equal(dlr_policy_new(&w->conf, &ops, w, &w->p, &err), 0);
    if (draw(w, 3)) {
        dlr_policy_start(w->p, w->now);
        return;
    }
    dlr_policy_resume(w->p, 3, draw(w, 2), w->now);
    for (unsigned i = 0; i < NODES; i++)
        w->runs[i] = (w->member[i] = draw(w, 3) != 0) ? 2 : -1;
    if (draw(w, 2)) {
        dlr_policy_adopt(w->p, w->member, w->now - 100, w->now);
    } else {
        dlr_policy_take_over(w->p, "the former supervisor died");
        dlr_policy_start(w->p, w->now);
    }
}

static void look(struct world *w)
{
    enum dlr_phase phase = dlr_policy_phase(w->p);
    int64_t deadline = dlr_policy_deadline_ms(w->p);

    HOLDS(w, (phase == DLR_PHASE_DONE) == (w->finished == 1), "the end is not told");
    if (phase != DLR_PHASE_RUN && phase != DLR_PHASE_DONE)
        HOLDS(w, deadline < w->now + LIMIT_MAX_MS, "a wait has no limit");
    HOLDS(w, dlr_policy_restarts(w->p) <= w->conf.max_restarts + 1,
          "more restarts than there are");
}

/* Nobody says anything any more. */
static void be_silent(struct world *w)
{
    for (unsigned i = 0; i < 64; i++) {
        if (dlr_policy_phase(w->p) == DLR_PHASE_DONE ||
            dlr_policy_deadline_ms(w->p) == INT64_MAX)
            return;
        tick(w);
        look(w);
    }
    HOLDS(w, false, "it goes on though nothing happens");
}

static void play(unsigned seed, unsigned events, bool fast)
{
    static const unsigned rare[] = {
        [GIVE_UP] = 40,  [RESTORE_REFUSED] = 40, [SIGNALLED] = 20, [SIGTERM_TOLD] = 10,
        [WITH_JOB] = 10, [REQUEUE_FAILED] = 20,  [HAPPENINGS] = 0};
    struct world w;
    unsigned some;

    begin(&w, seed);
    w.fast = fast;
    some = fast ? draw(&w, 1u << HAPPENINGS) & draw(&w, 1u << HAPPENINGS) : ~0u;
    if (fast)
        some &= ~(1u << COMMITTED | 1u << LIMIT);
    for (w.step = 0; w.step < events && !w.finished; w.step++) {
        unsigned what = draw(&w, HAPPENINGS);

        if (draw(&w, 2))
            what = expected(&w);
        else if (!(some >> what & 1) || (rare[what] && draw(&w, rare[what])))
            continue;
        w.now += fast           ? draw(&w, 3)
                 : draw(&w, 12) ? draw(&w, 3) * draw(&w, 100)
                                : draw(&w, 30000);
        happens(&w, what);
        look(&w);
    }
    if (!w.finished)
        be_silent(&w);
    dlr_policy_free(w.p);
}

static void every_history_has_limits_and_one_round_at_a_time(void **state)
{
    for (unsigned seed = 0; seed < HISTORIES; seed++)
        play(seed, EVENTS, false);
}

/* As much as can happen within a minute, of a few kinds, and nothing is gained by it. */
static void what_costs_nothing_has_an_end_too(void **state)
{
    for (unsigned seed = 0; seed < HISTORIES / 600; seed++)
        play(seed, 20000, true);
}

/* --- the order of two events with one time stamp ---------------------------------- */

/* A round of four nodes runs. */
static void run(struct world *w)
{
    static const unsigned char all[NODES] = {1, 1, 1, 1};
    struct dlr_err err;

    *w = (struct world){.random = 1, .now = 1000, .runs = {-1, -1, -1, -1}};
    w->conf = (struct dlr_policy_conf){.nnodes = NODES,
                                       .nplaces = NODES,
                                       .min_places = 1,
                                       .max_restarts = 3,
                                       .agent_timeout_ms = 1000,
                                       .rendezvous_timeout_ms = 1000,
                                       .transfer_timeout_ms = 1000,
                                       .end_timeout_ms = 1000,
                                       .persist_timeout_ms = 1000,
                                       .requeue_timeout_ms = 1000,
                                       .controller_timeout_ms = 5000,
                                       .suspect_ms = 500};
    w->conf.on_exit[93] = DLR_ON_STOP;
    assert_int_equal(dlr_policy_new(&w->conf, &ops, w, &w->p, &err), 0);
    dlr_policy_start(w->p, w->now);
    for (unsigned i = 0; i < NODES; i++)
        dlr_policy_node_up(w->p, i, w->now);
    dlr_policy_planned(w->p, 0, all, NULL, w->now);
    dlr_policy_prepared(w->p, 0, NULL, w->now);
    dlr_policy_started(w->p, 0);
    w->now = 60000;
}

static void one_happens(struct world *w, enum happening what)
{
    switch (what) {
    case DEAD:
        dlr_policy_node_dead(w->p, 1, "silent", w->now);
        break;
    case TASK:
        dlr_policy_worker_exit(w->p, 0, 2, 7 << 8, w->now);
        break;
    case STOP:
        dlr_policy_worker_exit(w->p, 0, 3, 93 << 8, w->now);
        break;
    case KILLED:
        dlr_policy_worker_exit(w->p, 0, 1, SIGKILL, w->now);
        break;
    case STEP_ENDED:
        dlr_policy_step_ended(w->p, 0, 7, w->now);
        break;
    case SIGNALLED:
        dlr_policy_signal(w->p, SIGINT, w->now);
        break;
    case SIGTERM_TOLD:
        dlr_policy_sigterm(w->p, false, 2000, w->now);
        break;
    case RESTORE_FAILED:
    case LEASE:
    case WATCH:
    case STEPD:
        step_happens(w, what, 0);
        break;
    default:
        outside_happens(w, what);
        break;
    }
}

/* What was decided, when all has gone away, as text. */
static void decide(enum happening first, enum happening second, char *buf, size_t size)
{
    struct world w;
    const char *failed;

    run(&w);
    one_happens(&w, first);
    one_happens(&w, second);
    one_happens(&w, STEP_ENDED);
    if (dlr_policy_phase(w.p) == DLR_PHASE_RUN)
        tick(&w); /* slurmctld says nothing, nor does anybody else */
    for (unsigned i = 0; i < NODES; i++)
        if (dlr_policy_is_alive(w.p, i))
            dlr_policy_clean(w.p, i, 0, w.now);
    failed =
        dlr_policy_phase(w.p) == DLR_PHASE_RENDEZVOUS ? dlr_policy_failure(w.p) : NULL;
    snprintf(buf, size, "phase %d, code %d, restarts %u, because of %s",
             (int)dlr_policy_phase(w.p), w.code, dlr_policy_restarts(w.p),
             failed ? failed : "something else");
    dlr_policy_free(w.p);
}

static void the_order_of_two_at_one_time_decides_nothing(void **state)
{
    static const enum happening all[] = {DEAD,         TASK,  RESTORE_FAILED, LEASE,
                                         WATCH,        STEPD, STEP_ENDED,     SIGNALLED,
                                         SIGTERM_TOLD, AWAY,  WITH_JOB,       STOP};
    unsigned n = sizeof(all) / sizeof(*all), wrong = 0;

    for (unsigned a = 0; a < n; a++)
        for (unsigned b = a + 1; b < n; b++) {
            char one[200], other[200];

            decide(all[a], all[b], one, sizeof(one));
            decide(all[b], all[a], other, sizeof(other));
            if (!dlr_streq(one, other)) {
                print_message("%u and %u: '%s' or '%s'\n", all[a], all[b], one, other);
                wrong++;
            }
        }
    assert_int_equal(wrong, 0);
}

/* Peers fail by what it leaves behind, or Slurm has killed them. */
static void a_task_that_says_stop_is_heard_among_any_others(void **state)
{
    static const enum happening others[] = {TASK, KILLED, STEP_ENDED};

    for (unsigned i = 0; i < sizeof(others) / sizeof(*others); i++)
        for (unsigned at = 0; at < 2; at++) {
            char text[200];

            decide(at ? STOP : others[i], at ? others[i] : STOP, text, sizeof(text));
            assert_string_equal(
                text, "phase 8, code 93, restarts 0, because of something else");
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_history_has_limits_and_one_round_at_a_time),
        cmocka_unit_test(what_costs_nothing_has_an_end_too),
        cmocka_unit_test(the_order_of_two_at_one_time_decides_nothing),
        cmocka_unit_test(a_task_that_says_stop_is_heard_among_any_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
