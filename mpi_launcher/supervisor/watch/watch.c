/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/watch/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/watch/call_kinds.h"
#include "mpi_launcher/supervisor/watch/learned.h"
#include "mpi_launcher/supervisor/watch/words.h"
#include "mpi_launcher/wire/looks.h"
#include "watch/judge/learn.h"

#define NS_PER_MS 1000000u
#define FIRST_STEP_MS 1800000 /* also of a phase that declares no limit */
#define NO_STEPS_MS                                                                    \
    30000               /* for a program that tells calls alone, once all have moved */
#define ANSWER_MS 1000  /* for the agents to say where their ranks are */
#define LATE_MS 500     /* a beat and a question are late by this much at most */
#define SELDOM_MS 60000 /* at most between two questions */
#define SAY_MS 30000    /* stood for so long, the user hears of it */
#define SAY_LATE_MS 300000  /* where no step says how long is normal */
#define RANKS_A_SECOND 1000 /* so many are asked at most, on average */
#define TELLS 8             /* lines of the journal while it stands */

/* What was heard of all ranks at one time. */
struct heard {
    struct dlr_look *looks; /* [world] */
    uint64_t *still_ns;     /* [world] by the node's clock */
    unsigned char *has;     /* [world] */
    unsigned n;
};

struct dlr_sup_watch {
    struct dlr_sup_watch_env env;
    const struct dlr_sup_watch_ops *ops;
    void *arg;
    struct dlr_learn learn;
    bool runs; /* a round is watched */
    uint32_t round;
    unsigned world;
    int64_t
        begun_ms; /* nothing older counts: the round's begin, or a suspension's end */
    int64_t step_ms;  /* no step since */
    int64_t since_ms; /* nothing that was seen has moved since */
    uint64_t step;    /* UINT64_MAX: none yet */
    bool stepped;     /* a step of the round has ended */
    bool works;       /* all ranks that tell their calls have been seen to make some */
    uint64_t id;      /* of the last question */
    int64_t ask_ms;   /* the next */
    int64_t
        judge_ms; /* no answer is waited for after this; INT64_MAX: none was asked */
    struct heard before, after;
    /* what was told last; told: how often while it stands */
    unsigned told;
    enum dlr_verdict_kind kind;
    enum dlr_blame blame;
    size_t culprits;
    uint32_t first;
    uint64_t number;
    bool said, ended; /* to the user; by the proof */
};

struct dlr_sup_watch *dlr_sup_watch_new(const struct dlr_sup_watch_env *env,
                                        const struct dlr_sup_watch_ops *ops, void *arg)
{
    struct dlr_sup_watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return NULL;
    watch->env = *env;
    watch->ops = ops;
    watch->arg = arg;
    return watch;
}

static void forget(struct heard *heard)
{
    free(heard->looks);
    free(heard->still_ns);
    free(heard->has);
    *heard = (struct heard){0};
}

static void forget_all(struct dlr_sup_watch *watch)
{
    forget(&watch->before);
    forget(&watch->after);
    watch->judge_ms = INT64_MAX;
}

struct dlr_sup_watch *dlr_sup_watch_free(struct dlr_sup_watch *watch)
{
    if (watch)
        forget_all(watch);
    free(watch);
    return NULL;
}

static int heard_new(struct heard *ret, unsigned world)
{
    struct heard heard = {.looks = calloc(world, sizeof(*heard.looks)),
                          .still_ns = calloc(world, sizeof(*heard.still_ns)),
                          .has = calloc(world, 1)};

    if (!heard.looks || !heard.still_ns || !heard.has) {
        forget(&heard);
        return -ENOMEM;
    }
    *ret = heard;
    return 0;
}

/* --- how long is normal ----------------------------------------------------------- */

/* A program that never tells a step has had its first one when all work. */
static int64_t first_step_ms(const struct dlr_sup_watch *watch,
                             const struct dlr_look *look)
{
    if (*watch->env.hang_limit_ms)
        return *watch->env.hang_limit_ms;
    return watch->works && look->step == UINT64_MAX && !look->phase_ns ? NO_STEPS_MS
                                                                       : FIRST_STEP_MS;
}

/* How long the rank may stand. The user's limit is that of all places but of phases that
 * say their own.
 */
static uint64_t limit_ns(const struct dlr_sup_watch *watch, const struct dlr_look *look)
{
    const uint64_t first_ns = (uint64_t)first_step_ms(watch, look) * NS_PER_MS;

    if (*watch->env.hang_limit_ms && !look->paused && !look->phase_limit_ns)
        return first_ns;
    return dlr_learn_limit_ns(&watch->learn, look, first_ns);
}

/* That of a rank between two steps, in milliseconds; whether it tells any is not known
 * before the first.
 */
static int64_t usual_ms(const struct dlr_sup_watch *watch)
{
    const struct dlr_look look = {.step = watch->step, .steps_ns = watch->stepped};

    if (!watch->stepped && !*watch->env.hang_limit_ms)
        return NO_STEPS_MS;
    return (int64_t)(limit_ns(watch, &look) / NS_PER_MS);
}

/* So long between two questions. */
static int64_t pace_ms(const struct dlr_sup_watch *watch)
{
    const int64_t usual = usual_ms(watch) * 2 / 5,
                  least = watch->world * 1000LL / RANKS_A_SECOND;

    return usual > least ? usual : least;
}

/* Where the program stood before it went on: at the first culprit, else at the first
 * rank of which something is known.
 */
static const struct dlr_look *stood_at(const struct dlr_sup_watch *watch)
{
    const struct heard *heard = watch->after.n ? &watch->after : &watch->before;

    if (watch->told && heard->has && watch->first < watch->world &&
        heard->has[watch->first])
        return &heard->looks[watch->first];
    for (unsigned r = 0; heard->has && r < watch->world; r++)
        if (heard->has[r] && heard->looks[r].data >= DLR_LOOK_STEPS)
            return &heard->looks[r];
    return NULL;
}

/* --- it goes on ------------------------------------------------------------------- */

static void tell_moves(struct dlr_sup_watch *watch, int64_t now_ms)
{
    if (watch->told > 0)
        watch->ops->tell(watch->arg, "moves",
                         json_pack("{s:I,s:I}", "round", (json_int_t)watch->round,
                                   "stood_ms", (json_int_t)(now_ms - watch->since_ms)),
                         "");
    watch->told = 0;
    watch->said = false;
}

/* learns: it is no first step that has ended. */
static void moved(struct dlr_sup_watch *watch, bool learns, int64_t now_ms)
{
    const struct dlr_look *stood = stood_at(watch);

    if (stood && learns) {
        dlr_learn_gap(&watch->learn, stood,
                      (uint64_t)(now_ms - watch->since_ms) * NS_PER_MS);
        watch->ops->changed(watch->arg);
    }
    tell_moves(watch, now_ms);
    forget_all(watch);
    watch->since_ms = now_ms;
    watch->ask_ms = now_ms + pace_ms(watch);
}

static void take_step(struct dlr_sup_watch *watch, uint64_t step, int64_t now_ms)
{
    const uint64_t steps = step - watch->step;
    const uint64_t took_ns = (uint64_t)(now_ms - watch->step_ms) * NS_PER_MS;
    const bool counts = watch->step != UINT64_MAX && step > watch->step,
               learns = watch->stepped;

    if (counts) {
        watch->stepped = true;
        dlr_learn_step(&watch->learn, took_ns / steps);
        if (watch->learn.nsteps == 4 || watch->learn.nsteps % DLR_LEARN_STEPS == 0)
            watch->ops->changed(watch->arg);
    }
    watch->step = step;
    watch->step_ms = now_ms;
    moved(watch, learns, now_ms);
}

/* Another round, or the same one after a time in which nobody could move. */
static void begin(struct dlr_sup_watch *watch, const struct dlr_sup_watch_now *now)
{
    if (now->round == watch->round)
        tell_moves(watch, now->ms);
    forget_all(watch);
    watch->told = 0;
    watch->said = watch->ended = watch->stepped = watch->works = false;
    watch->step = now->step;
    watch->runs = true;
    watch->round = now->round;
    watch->world = watch->env.plan->world;
    watch->begun_ms = watch->step_ms = watch->since_ms = now->ms;
    watch->ask_ms = now->ms + pace_ms(watch);
}

/* --- the question ----------------------------------------------------------------- */

static void ask(struct dlr_sup_watch *watch, int64_t now_ms)
{
    forget(&watch->before);
    watch->before = watch->after;
    watch->after = (struct heard){0};
    watch->ask_ms = now_ms + SELDOM_MS;
    if (heard_new(&watch->after, watch->world) < 0)
        return;
    watch->judge_ms = now_ms + ANSWER_MS;
    watch->ops->ask(watch->arg, watch->round, ++watch->id);
}

struct answer {
    struct dlr_sup_watch *watch;
    const char *node;
    uint64_t now_ns;
};

static void take_look(void *arg, const struct dlr_look *look)
{
    const struct answer *a = arg;
    struct dlr_sup_watch *watch = a->watch;
    const struct dlr_plan *plan = watch->env.plan;
    const uint32_t r = (uint32_t)look->rank;
    struct dlr_look *own = &watch->after.looks[r];

    if (strcmp(plan->places[plan->place_of[r]].node.name, a->node) != 0)
        return;
    watch->after.n += !watch->after.has[r];
    watch->after.has[r] = 1;
    *own = *look;
    if (own->step != UINT64_MAX) /* a checkpoint's page has no times */
        own->steps_ns = watch->stepped;
    watch->after.still_ns[r] =
        look->moved_ns && look->moved_ns < a->now_ns ? a->now_ns - look->moved_ns : 0;
}

void dlr_sup_watch_looked(struct dlr_sup_watch *watch, const char *node,
                          const json_t *msg)
{
    struct answer a = {.watch = watch, .node = node};
    uint64_t round, id;

    if (!watch->runs || watch->judge_ms == INT64_MAX ||
        watch->env.plan->world != watch->world ||
        dlr_msg_uint(msg, "round", UINT32_MAX, &round) < 0 || round != watch->round ||
        dlr_msg_uint(msg, "id", INT64_MAX, &id) < 0 || id != watch->id ||
        dlr_msg_uint(msg, "now_ns", INT64_MAX, &a.now_ns) < 0)
        return;
    dlr_looks_unpack(json_object_get(msg, "rows"), watch->round, watch->world,
                     take_look, &a);
}

/* --- the verdict ------------------------------------------------------------------ */

/* Longer than this nothing has stood, whatever a node's clock says. */
static uint64_t longest_ns(const struct dlr_sup_watch *watch, int64_t now_ms)
{
    return (uint64_t)(now_ms - watch->begun_ms + LATE_MS) * NS_PER_MS;
}

static void fill(const struct dlr_sup_watch *watch, struct dlr_judge_rank *ranks,
                 int64_t now_ms)
{
    const uint64_t longest = longest_ns(watch, now_ms);

    for (unsigned r = 0; r < watch->world; r++) {
        const struct heard *b = &watch->before, *a = &watch->after;

        ranks[r] = (struct dlr_judge_rank){
            .before = b->has && b->has[r] ? &b->looks[r] : NULL,
            .after = a->has[r] ? &a->looks[r] : NULL,
            .still_ns = a->still_ns[r] < longest ? a->still_ns[r] : longest,
            .limit_ns = a->has[r] ? limit_ns(watch, &a->looks[r]) : UINT64_MAX};
    }
}

/* When the first rank that stands will have done so for too long. */
static int64_t next_ms(const struct dlr_sup_watch *watch,
                       const struct dlr_judge_rank *ranks)
{
    const int64_t pace = pace_ms(watch) < SELDOM_MS ? pace_ms(watch) : SELDOM_MS;
    int64_t least = SELDOM_MS;

    for (unsigned r = 0; r < watch->world; r++) {
        const uint64_t named = dlr_judge_named_ns(ranks[r].limit_ns);
        int64_t left;

        if (!ranks[r].after) /* its agent is late */
            return pace;
        if (ranks[r].after->data < DLR_LOOK_STEPS)
            continue;
        left = named <= ranks[r].still_ns
                   ? 0
                   : (int64_t)((named - ranks[r].still_ns) / NS_PER_MS) + 1;
        least = left < least ? left : least;
    }
    return least > pace ? least : pace;
}

/* The same as was told last? */
static bool is_old(const struct dlr_sup_watch *watch, const struct dlr_verdict *v)
{
    return watch->told && v->kind == watch->kind && v->blame == watch->blame &&
           v->culprits == watch->culprits && v->first == watch->first &&
           v->number == watch->number;
}

static void note(struct dlr_sup_watch *watch, const struct dlr_verdict *v)
{
    watch->told++;
    watch->kind = v->kind;
    watch->blame = v->blame;
    watch->culprits = v->culprits;
    watch->first = v->first;
    watch->number = v->number;
}

static int64_t say_ms(const struct dlr_sup_watch *watch)
{
    return watch->stepped || *watch->env.hang_limit_ms ? SAY_MS : SAY_LATE_MS;
}

static void tell(struct dlr_sup_watch *watch, const struct dlr_verdict_of *of,
                 int64_t now_ms)
{
    char words[DLR_VERDICT_WORDS], place[DLR_VERDICT_WORDS];
    const struct dlr_sup_hang hang = {.round = watch->round,
                                      .words = words,
                                      .place = place,
                                      .parts = of->parts,
                                      .first = of->verdict->first,
                                      .one = of->verdict->culprits == 1};

    dlr_verdict_words(of, words, sizeof(words));
    dlr_verdict_place(of, place, sizeof(place));
    if (!is_old(watch, of->verdict) && watch->told < TELLS) {
        note(watch, of->verdict);
        watch->ops->tell(watch->arg, "still", dlr_verdict_row(of, watch->round, words),
                         words);
    }
    if (of->verdict->kind == DLR_VERDICT_STUCK && !watch->ended) {
        watch->ended = watch->said = true;
        watch->ops->stuck(watch->arg, &hang);
    } else if (of->verdict->culprits && !watch->said &&
               now_ms - watch->since_ms >= say_ms(watch)) {
        watch->said = true;
        watch->ops->say(watch->arg, &hang);
    }
}

static bool makes_calls(const struct heard *heard, unsigned r)
{
    return heard->has && heard->has[r] && heard->looks[r].data == DLR_LOOK_CALLS_TOO;
}

/* What has moved between the two answers. */
static void take_moves(struct dlr_sup_watch *watch, const struct dlr_judge_rank *ranks,
                       int64_t now_ms)
{
    unsigned some = 0, all = 0;
    uint64_t least = UINT64_MAX;

    for (unsigned r = 0; r < watch->world; r++) {
        if (!makes_calls(&watch->before, r) || !makes_calls(&watch->after, r))
            continue;
        all++;
        some += ranks[r].after->calls > ranks[r].before->calls;
        least = ranks[r].still_ns < least ? ranks[r].still_ns : least;
    }
    watch->works = watch->works || (all && some == all);
    if (some && now_ms - (int64_t)(least / NS_PER_MS) > watch->since_ms)
        watch->since_ms = now_ms - (int64_t)(least / NS_PER_MS);
}

/* A verdict on ranks of which nothing at all is known is none. */
static bool is_told(const struct dlr_sup_watch *watch, const struct dlr_verdict *v)
{
    return v->kind != DLR_VERDICT_NONE &&
           (v->kind != DLR_VERDICT_UNKNOWN || v->unknown < watch->world);
}

/* Of whom nothing was heard may stand where it stood. */
static bool has_all(const struct dlr_sup_watch *watch)
{
    return watch->before.n == watch->world && watch->after.n == watch->world;
}

static void judge(struct dlr_sup_watch *watch, const struct dlr_sup_watch_now *now)
{
    DLR_AUTO_FREE struct dlr_judge_rank *ranks = calloc(watch->world, sizeof(*ranks));
    DLR_AUTO_FREE uint8_t *parts = calloc(watch->world, 1);
    uint8_t calls[DLR_CALL_KINDS];
    struct dlr_verdict v = {0};
    struct dlr_judge_input in = {
        .ranks = ranks, .n = watch->world, .calls = calls, .ncalls = DLR_CALL_KINDS};

    watch->judge_ms = INT64_MAX;
    if (!ranks || !parts)
        return;
    dlr_call_kinds(calls);
    fill(watch, ranks, now->ms);
    watch->ask_ms = now->ms + next_ms(watch, ranks);
    if (!watch->before.n || dlr_judge(&in, parts, &v) < 0)
        return;
    if (is_told(watch, &v))
        tell(watch,
             &(struct dlr_verdict_of){.verdict = &v,
                                      .parts = parts,
                                      .ranks = ranks,
                                      .plan = watch->env.plan,
                                      .wall_ms = now->wall_ms},
             now->ms);
    else if (!watch->told)
        take_moves(watch, ranks, now->ms);
    else if (v.kind == DLR_VERDICT_NONE && has_all(watch))
        moved(watch, watch->stepped || watch->works, now->ms);
}

void dlr_sup_watch_tick(struct dlr_sup_watch *watch,
                        const struct dlr_sup_watch_now *now)
{
    const struct dlr_plan *plan = watch->env.plan;

    if (!now->runs || now->held || plan->world > DLR_SUP_WATCH_RANKS) {
        if (watch->runs)
            forget_all(watch);
        watch->runs = false;
        return;
    }
    if (!watch->runs || now->round != watch->round || plan->world != watch->world)
        begin(watch, now);
    if (now->step != UINT64_MAX && now->step != watch->step)
        take_step(watch, now->step, now->ms);
    if (watch->judge_ms != INT64_MAX) {
        if (watch->after.n == watch->world || now->ms >= watch->judge_ms)
            judge(watch, now);
    } else if (now->ms >= watch->ask_ms) {
        ask(watch, now->ms);
    }
}

/* --- what outlives a supervisor --------------------------------------------------- */

void dlr_sup_watch_state(const struct dlr_sup_watch *watch, json_t *state)
{
    char text[DLR_LEARNED_TEXT];

    if (!watch->learn.nsteps && !watch->learn.places[0].key)
        return;
    dlr_learned_text(&watch->learn, text);
    json_object_set_new(state, "learned", json_string(text));
}

void dlr_sup_watch_take(struct dlr_sup_watch *watch, const json_t *state)
{
    const char *text;

    if (dlr_msg_str(state, "learned", &text) == 0)
        dlr_learned_take(text, &watch->learn);
}
