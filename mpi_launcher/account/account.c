/* SPDX-License-Identifier: Apache-2.0 */
/* One pointer moves through time: what lies before given_ms has its cause, what lies
 * between it and now_ms waits for the line that tells it. While steps go on that is the
 * next line with a step, or the one that ends the round.
 */
#include "mpi_launcher/account/account.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/journal/event_fields.h"
#include "mpi_launcher/journal/reader.h"
#include "mpi_launcher/journal/text.h"

/* Steps that have not come for this long, or for three times their own length, have
 * stopped, as in the view of a run.
 */
#define STALL_MS 10000
#define STALL_STEPS 3
#define FIRST_STALL_MS 60000 /* while the length of a step is not known */
#define STEP_MAX 1000000000000000ll

struct dlr_account {
    int64_t part[DLR_ACCOUNT_CAUSES];
    struct dlr_account_span *spans;
    size_t nspans;
    bool begun, over, suspended;
    int64_t from_ms, given_ms, now_ms;
    int64_t round;
    enum dlr_account_cause
        cause; /* of the time until the next line, unless steps go on */
    enum dlr_account_cause former; /* before slurmctld was away */
    bool restore;                  /* this round begins from a version */
    int64_t dropped;               /* lines, so far */

    bool stepping;
    int64_t step, best; /* newest step of the round; newest of all rounds */
    double step_ms;     /* how long one takes, 0: unknown */
    int64_t commits;    /* -1: unknown */
    double cost_ms;     /* of a save */
    int64_t silent_ms;  /* since then a node was silent, 0: none */
    int64_t lost_ms;    /* then somebody took the supervisor's place, 0: nobody */
};

/* --- giving time to causes -------------------------------------------------------- */

static void add_span(struct dlr_account *a, enum dlr_account_cause cause, int64_t to_ms)
{
    struct dlr_account_span *last = a->nspans ? &a->spans[a->nspans - 1] : NULL, *more;

    if (last && last->cause == cause && last->round == a->round) {
        last->to_ms = to_ms;
        return;
    }
    if ((a->nspans & (a->nspans - 1)) == 0) { /* full at each power of two */
        more = realloc(a->spans, (a->nspans ? 2 * a->nspans : 1) * sizeof(*more));
        if (!more)
            return;
        a->spans = more;
    }
    a->spans[a->nspans++] = (struct dlr_account_span){
        .from_ms = a->given_ms, .to_ms = to_ms, .cause = cause, .round = a->round};
}

/* Up to to_ms, at most to now; never back. */
static void give(struct dlr_account *a, enum dlr_account_cause cause, int64_t to_ms)
{
    if (to_ms > a->now_ms)
        to_ms = a->now_ms;
    if (to_ms <= a->given_ms)
        return;
    a->part[cause] += to_ms - a->given_ms;
    add_span(a, cause, to_ms);
    a->given_ms = to_ms;
}

static int64_t within(double ms, int64_t most)
{
    if (!(ms > 0))
        return 0;
    return ms < (double)most ? (int64_t)ms : most;
}

/* Up to to_ms steps went on, as far as to_step; saves of them held others up. */
static void give_steps(struct dlr_account *a, int64_t to_step, int64_t saves,
                       int64_t to_ms)
{
    int64_t ms = to_ms - a->given_ms, again, stall;
    int64_t done = to_step > a->step ? to_step - a->step : 1;
    double share = (double)(a->best - a->step) / (double)done;

    if (ms <= 0)
        return;
    stall = within((double)saves * a->cost_ms, ms);
    again = within((double)(ms - stall) * share, ms - stall);
    /* In the picture stalls are part of what they held up. */
    give(a, DLR_ACCOUNT_REDONE, a->given_ms + within((double)ms * share, ms));
    give(a, DLR_ACCOUNT_FIRST, to_ms);
    a->part[DLR_ACCOUNT_REDONE] -= within((double)ms * share, ms) - again;
    a->part[DLR_ACCOUNT_FIRST] -= stall - (within((double)ms * share, ms) - again);
    a->part[DLR_ACCOUNT_SAVE] += stall;
}

/* How much of ms steps explain: all unless they have stopped meanwhile. */
static int64_t explained(const struct dlr_account *a, int64_t steps, int64_t ms)
{
    double slack = STALL_STEPS * a->step_ms;
    double took = (double)steps * a->step_ms;

    if (a->step_ms <= 0)
        return steps > 0 || ms <= FIRST_STALL_MS ? ms : 0;
    if (slack < STALL_MS)
        slack = STALL_MS;
    return (double)ms <= took + slack ? ms : within(took + a->step_ms, ms);
}

static void go_to(struct dlr_account *a, int64_t step)
{
    a->step = step;
    if (step > a->best)
        a->best = step;
}

/* Steps have ended, maybe at one that is told (-1: it is not). */
static void end_steps(struct dlr_account *a, int64_t step)
{
    int64_t steps = step > a->step ? step - a->step : 0;
    int64_t until_ms = a->now_ms, gap;

    if (!a->stepping)
        return;
    a->stepping = false;
    if (a->silent_ms && a->silent_ms < until_ms)
        until_ms = a->silent_ms;
    if (a->lost_ms && a->lost_ms < until_ms)
        until_ms = a->lost_ms;
    gap = until_ms > a->given_ms ? until_ms - a->given_ms : 0;
    if (a->lost_ms) /* its last words are old: only what is told since counts */
        gap = within((double)steps * a->step_ms, gap);
    give_steps(a, a->step + steps, 0, a->given_ms + explained(a, steps, gap));
    go_to(a, a->step + steps);
    if (!a->lost_ms)
        give(a, DLR_ACCOUNT_UNKNOWN, until_ms);
    give(a, DLR_ACCOUNT_DETECT, a->lost_ms ? a->lost_ms : a->now_ms);
    give(a, DLR_ACCOUNT_HEALTH, a->now_ms);
    a->silent_ms = a->lost_ms = 0;
}

static void turn_to(struct dlr_account *a, enum dlr_account_cause cause)
{
    end_steps(a, -1);
    a->cause = cause;
}

/* --- events ----------------------------------------------------------------------- */

static int64_t step_of(const json_t *e)
{
    int64_t step = dlr_cli_event_int(e, "step", -1);

    return step > STEP_MAX ? STEP_MAX : step;
}

static void take_step(struct dlr_account *a, int64_t round, int64_t step,
                      int64_t commits)
{
    int64_t gap = a->now_ms - a->given_ms, steps = step - a->step, ms;
    int64_t saves = a->commits >= 0 && commits > a->commits ? commits - a->commits : 0;

    if (a->stepping) {
        ms = explained(a, steps > 0 ? steps : 0, gap);
        if (steps > 0 && gap > 0 && ms == gap)
            a->step_ms = a->step_ms > 0
                             ? (3 * a->step_ms + (double)gap / (double)steps) / 4
                             : (double)gap / (double)steps;
        give_steps(a, step, saves, a->given_ms + ms);
        give(a, DLR_ACCOUNT_UNKNOWN, a->now_ms);
    }
    a->round = round;
    a->stepping = true;
    a->silent_ms = a->lost_ms = 0;
    a->commits = commits >= 0 ? commits : a->commits;
    go_to(a, step);
}

static void on_step(struct dlr_account *a, const json_t *e)
{
    if (step_of(e) >= 0)
        take_step(a, dlr_cli_event_int(e, "round", a->round), step_of(e),
                  dlr_cli_event_int(e, "commits", -1));
}

static void on_start(struct dlr_account *a, const json_t *e)
{
    bool later = dlr_cli_event_int(e, "generation", 1) > 1;

    a->commits = -1;
    a->cause = DLR_ACCOUNT_HEALTH;
    if (later && a->stepping) { /* the round may be adopted */
        a->lost_ms = a->lost_ms ? a->lost_ms : a->now_ms;
        return;
    }
    end_steps(a, -1);
    a->suspended = false;
}

static void on_takeover(struct dlr_account *a, const json_t *e)
{
    a->cause = DLR_ACCOUNT_HEALTH;
    if (a->stepping && !a->lost_ms)
        a->lost_ms = a->now_ms;
}

static void on_adopted(struct dlr_account *a, const json_t *e)
{
    a->lost_ms = 0;
    a->cause = DLR_ACCOUNT_START;
}

static void on_silent(struct dlr_account *a, const json_t *e)
{
    int64_t silent = dlr_cli_event_int(e, "silent_ms", 0);

    if (silent <= 0 || silent > a->now_ms)
        return;
    if (!a->silent_ms || a->now_ms - silent < a->silent_ms)
        a->silent_ms = a->now_ms - silent;
}

static void on_plan(struct dlr_account *a, const json_t *e)
{
    turn_to(a, DLR_ACCOUNT_PREPARE);
    a->round = dlr_cli_event_int(e, "round", a->round);
    a->restore = json_array_size(json_object_get(e, "restore")) == 2;
    a->silent_ms = 0;
    a->step = 0;
}

static void on_running(struct dlr_account *a, const json_t *e)
{
    a->cause = a->restore ? DLR_ACCOUNT_LOAD : DLR_ACCOUNT_START;
}

static void on_restored(struct dlr_account *a, const json_t *e)
{
    a->cause = DLR_ACCOUNT_START;
}

/* The program's own launcher has started its ranks, or has started them again: the
 * first of them has waited for took_ms.
 */
static void on_ranks(struct dlr_account *a, const json_t *e)
{
    int64_t took = dlr_cli_event_int(e, "took_ms", 0), now = a->now_ms;

    if (a->stepping && took > 0) {
        a->now_ms = took < now - a->given_ms ? now - took : a->given_ms;
        end_steps(a, -1);
        a->now_ms = now;
        give(a, DLR_ACCOUNT_START, now);
    }
    end_steps(a, -1);
    a->restore = json_array_size(json_object_get(e, "restore")) == 2;
    on_running(a, e);
}

static void on_round_end(struct dlr_account *a, const json_t *e)
{
    end_steps(a, step_of(e));
    a->cause = DLR_ACCOUNT_END;
}

static void on_cadence(struct dlr_account *a, const json_t *e)
{
    const json_t *cost = json_object_get(e, "cost_ms");

    if (json_is_number(cost) && json_number_value(cost) >= 0)
        a->cost_ms = json_number_value(cost);
}

static void on_suspended(struct dlr_account *a, const json_t *e)
{
    if (a->stepping) {
        give_steps(a, a->step, 0,
                   a->given_ms + explained(a, 0, a->now_ms - a->given_ms));
        give(a, DLR_ACCOUNT_UNKNOWN, a->now_ms);
    }
    a->suspended = true;
}

static void on_resumed(struct dlr_account *a, const json_t *e)
{
    a->suspended = false;
}

static void on_away(struct dlr_account *a, const json_t *e)
{
    if (a->stepping || a->cause == DLR_ACCOUNT_QUEUE)
        return;
    a->former = a->cause;
    a->cause = DLR_ACCOUNT_QUEUE;
}

static void on_back(struct dlr_account *a, const json_t *e)
{
    if (!a->stepping && a->cause == DLR_ACCOUNT_QUEUE)
        a->cause = a->former;
}

static void on_end(struct dlr_account *a, const json_t *e)
{
    turn_to(a, DLR_ACCOUNT_UNKNOWN);
    a->over = true;
}

/* cause UNKNOWN: the event does not say what comes next. */
static const struct {
    const char *event;
    enum dlr_account_cause cause;
    void (*take)(struct dlr_account *a, const json_t *e);
} table[] = {
    {"start", DLR_ACCOUNT_UNKNOWN, on_start},
    {"node_dead", DLR_ACCOUNT_UNKNOWN, on_silent},
    {"lease_expired", DLR_ACCOUNT_UNKNOWN, on_silent},
    {"suspended", DLR_ACCOUNT_UNKNOWN, on_suspended},
    {"resumed", DLR_ACCOUNT_UNKNOWN, on_resumed},
    {"rendezvous", DLR_ACCOUNT_RENDEZVOUS, NULL},
    {"plan", DLR_ACCOUNT_UNKNOWN, on_plan},
    {"prepared", DLR_ACCOUNT_LAUNCH, NULL},
    {"launch", DLR_ACCOUNT_LAUNCH, NULL},
    {"running", DLR_ACCOUNT_UNKNOWN, on_running},
    {"ranks", DLR_ACCOUNT_UNKNOWN, on_ranks},
    {"restored", DLR_ACCOUNT_UNKNOWN, on_restored},
    {"first_step", DLR_ACCOUNT_UNKNOWN, on_step},
    {"cadence", DLR_ACCOUNT_UNKNOWN, on_cadence},
    {"round_end", DLR_ACCOUNT_UNKNOWN, on_round_end},
    {"requeue", DLR_ACCOUNT_QUEUE, NULL},
    {"requeued", DLR_ACCOUNT_QUEUE, NULL},
    {"requeue_failed", DLR_ACCOUNT_END, NULL},
    {"takeover", DLR_ACCOUNT_UNKNOWN, on_takeover},
    {"adopted", DLR_ACCOUNT_UNKNOWN, on_adopted},
    {"controller_away", DLR_ACCOUNT_UNKNOWN, on_away},
    {"controller_back", DLR_ACCOUNT_UNKNOWN, on_back},
    {"progress", DLR_ACCOUNT_UNKNOWN, on_step},
    {"end", DLR_ACCOUNT_UNKNOWN, on_end},
};

/* Why nothing was written until this event, when no steps went on. */
static enum dlr_account_cause cause_before(const struct dlr_account *a,
                                           const char *name, const json_t *e)
{
    bool start = dlr_streq(name, "start");

    if (a->suspended)
        return DLR_ACCOUNT_QUEUE;
    if (e && dlr_cli_event_int(e, "dropped_lines", 0) > a->dropped)
        return DLR_ACCOUNT_UNKNOWN;
    if (a->over) /* begun anew by hand: it was in the queue */
        return start ? DLR_ACCOUNT_QUEUE : DLR_ACCOUNT_UNKNOWN;
    if (dlr_streq(name, "takeover") ||
        (start && dlr_cli_event_int(e, "generation", 1) > 1))
        return a->cause == DLR_ACCOUNT_HEALTH ? a->cause : DLR_ACCOUNT_DETECT;
    if (start && a->cause != DLR_ACCOUNT_QUEUE)
        return DLR_ACCOUNT_UNKNOWN;
    return a->cause;
}

static void move_clock(struct dlr_account *a, int64_t ms)
{
    if (!a->begun)
        a->from_ms = a->given_ms = a->now_ms = ms;
    a->begun = true;
    if (ms > a->now_ms)
        a->now_ms = ms;
}

void dlr_account_event(struct dlr_account *a, const json_t *e)
{
    const char *name = dlr_cli_event_text(e, "event");
    const char *time = dlr_cli_event_text(e, "time");
    int64_t ms;

    if (!name || !time || dlr_cli_time_parse(time, &ms) < 0)
        return;
    move_clock(a, ms);
    if (!a->stepping || a->suspended)
        give(a, cause_before(a, name, e), a->now_ms);
    a->dropped = dlr_cli_event_int(e, "dropped_lines", a->dropped);
    a->over = false;
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        if (!dlr_streq(table[i].event, name))
            continue;
        if (table[i].take)
            table[i].take(a, e);
        else
            turn_to(a, table[i].cause);
        break;
    }
}

/* --- lines ------------------------------------------------------------------------ */

/* The number behind key, -1: none. Nearly every line of a long journal is 'progress',
 * of which four numbers matter here.
 */
static int64_t scan_number(const char *line, size_t size, const char *key)
{
    const char *at = memmem(line, size, key, strlen(key)), *end = line + size;
    int64_t n = 0;

    if (!at || at + strlen(key) >= end || at[strlen(key)] < '0' ||
        at[strlen(key)] > '9')
        return -1;
    for (at += strlen(key); at < end && *at >= '0' && *at <= '9' && n < STEP_MAX; at++)
        n = 10 * n + (*at - '0');
    return n < STEP_MAX ? n : STEP_MAX;
}

/* False: it is not as the writer writes it, and is to be read as any other. */
static bool take_progress(struct dlr_account *a, const char *line, size_t size)
{
    int64_t round = scan_number(line, size, "\"round\":");
    int64_t step = scan_number(line, size, "\"step\":"), ms;
    char time[32] = "";

    if (!dlr_cli_is_progress(line, size) || round < 0 || step < 0 ||
        memchr(line + 1, '{', size - 1) || memmem(line, size, "dropped_lines", 13))
        return false;
    memcpy(time, line + strlen("{\"time\":\""), 24);
    if (dlr_cli_time_parse(time, &ms) < 0)
        return false;
    move_clock(a, ms);
    if (!a->stepping || a->suspended)
        give(a, cause_before(a, "progress", NULL), a->now_ms);
    a->over = false;
    take_step(a, round, step, scan_number(line, size, "\"commits\":"));
    return true;
}

void dlr_account_line(struct dlr_account *a, const char *line, size_t size)
{
    json_t *e;

    if (size == 0 || take_progress(a, line, size))
        return;
    e = dlr_cli_event_parse(line, size);
    if (e)
        dlr_account_event(a, e);
    json_decref(e);
}

void dlr_account_settle(struct dlr_account *a)
{
    int64_t ms = a->now_ms - a->given_ms;

    if (a->stepping && !a->suspended)
        give_steps(a, a->step, 0, a->given_ms + explained(a, 0, ms));
    give(a, DLR_ACCOUNT_UNKNOWN, a->now_ms);
}

/* --- the account ------------------------------------------------------------------ */

struct dlr_account *dlr_account_new(void)
{
    struct dlr_account *a = calloc(1, sizeof(*a));

    if (!a)
        return NULL;
    a->round = a->commits = -1;
    a->cause = DLR_ACCOUNT_UNKNOWN;
    a->former = DLR_ACCOUNT_UNKNOWN;
    return a;
}

struct dlr_account *dlr_account_free(struct dlr_account *a)
{
    if (a)
        free(a->spans);
    free(a);
    return NULL;
}

int64_t dlr_account_part(const struct dlr_account *a, enum dlr_account_cause cause)
{
    return a->part[cause];
}

int64_t dlr_account_from_ms(const struct dlr_account *a)
{
    return a->from_ms;
}

int64_t dlr_account_to_ms(const struct dlr_account *a)
{
    return a->now_ms;
}

const struct dlr_account_span *dlr_account_spans(const struct dlr_account *a,
                                                 size_t *ret_n)
{
    *ret_n = a->nspans;
    return a->spans;
}
