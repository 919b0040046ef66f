/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/standalone/save_interval.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/str.h"

#define NAME "cadence"
#define TEXT_MAX 256
#define HEAD_OUT "dlrover-cadence 1\nfrom %" PRIu64 "\nevery %u\n"
#define HEAD_IN "dlrover-cadence 1 from %20" SCNu64 " every %10u"
#define LEAD 4 /* strides from rank 0's word to the step from which it holds */
#define LOOK_MS 5000

void dlr_save_interval_init(struct dlr_save_interval *s, unsigned given,
                            unsigned budget_ppm, int dirfd, int rank, int world)
{
    memset(s, 0, sizeof(*s));
    s->given = given;
    s->budget_ppm = budget_ppm;
    s->dirfd = dirfd;
    s->leads = rank == 0;
    s->alone = world == 1;
    s->every = given ? given : 1;
}

void dlr_save_interval_forget(const struct dlr_save_interval *s)
{
    if (s->leads)
        unlinkat(s->dirfd, NAME, 0);
}

static unsigned every_at(const struct dlr_save_interval *s, uint64_t step)
{
    return s->next && step >= s->next_from ? s->next : s->every;
}

bool dlr_save_interval_due(const struct dlr_save_interval *s, uint64_t step)
{
    unsigned every = every_at(s, step);

    if (!s->begun)
        return step % every == 0;
    return step / every != s->prev / every; /* programs may leave steps out */
}

/* Ranks wait for each other in most programs, so that what another rank's save takes is
 * seen in how much longer than others the step of a save is.
 */
static double cost_ms(const struct dlr_save_interval *s)
{
    return s->longer_ms.value > s->blocked_ms.value ? s->longer_ms.value
                                                    : s->blocked_ms.value;
}

/* --- the file --------------------------------------------------------------------- */

static int publish(struct dlr_save_interval *s, uint64_t from, unsigned every)
{
    char text[TEXT_MAX];
    struct iovec part = {text, 0};
    struct dlr_err err;
    int rc;

    part.iov_len = (size_t)snprintf(
        text, sizeof(text), HEAD_OUT "blocked_ms %.4g\nstep_ms %.4g\nbudget %.4g\n",
        from, every, cost_ms(s), s->step_ms.value, s->budget_ppm / 1e4);
    rc = s->alone ? 0 : dlr_file_replace(s->dirfd, NAME, 0600, &part, 1, &err);
    if (rc < 0) {
        dlr_debug("%s", err.text); /* it is tried again with the next save */
        return rc;
    }
    dlr_log(s->told ? DLR_LOG_DEBUG : DLR_LOG_INFO,
            "a save every %u step%s from step %" PRIu64
            " on: one holds the program up for %.3g ms, a step takes %.3g ms, a file "
            "%.3g ms, DLROVER_CKPT_BUDGET is %.4g%%",
            every, every == 1 ? "" : "s", from, cost_ms(s), s->step_ms.value,
            s->write_ms, s->budget_ppm / 1e4);
    s->told = true;
    return 0;
}

static bool is_time(struct dlr_save_interval *s, int64_t now_ns)
{
    if (now_ns - s->looked_ns < LOOK_MS * INT64_C(1000000))
        return false;
    s->looked_ns = now_ns;
    return true;
}

/* What follows the head is for people. */
bool dlr_save_interval_parse(const char *text, uint64_t *ret_from, unsigned *ret_every)
{
    char again[TEXT_MAX];
    uint64_t from;
    unsigned every;

    if (sscanf(text, HEAD_IN, &from, &every) != 2)
        return false;
    snprintf(again, sizeof(again), HEAD_OUT, from, every);
    if (!dlr_after(text, again) || every == 0 || every > DLR_SAVE_INTERVAL_MAX ||
        (every & (every - 1)) != 0)
        return false;
    *ret_from = from;
    *ret_every = every;
    return true;
}

static void follow(struct dlr_save_interval *s, uint64_t step)
{
    DLR_AUTO_FREE char *text = NULL;
    uint64_t from;
    unsigned every;
    struct dlr_err quiet;

    if (dlr_file_load_own(s->dirfd, NAME, TEXT_MAX, &text, NULL, &quiet) < 0 ||
        !dlr_save_interval_parse(text, &from, &every) ||
        every == (s->next ? s->next : s->every))
        return;
    s->next = every;
    s->next_from = from > step ? from : step + 1;
}

/* --- rank 0 ----------------------------------------------------------------------- */

static unsigned power_above(unsigned n)
{
    unsigned power = 1;

    while (power < n && power < DLR_SAVE_INTERVAL_MAX)
        power *= 2;
    return power;
}

/* Saves closer than a file is written would wait for each other. Where one takes steps,
 * as many are left beside none: the disk is not always busy, and what a file does to a
 * step is seen.
 */
static unsigned behind(const struct dlr_save_interval *s)
{
    double steps = s->step_ms.value > 0 ? s->write_ms / s->step_ms.value : 0;

    if (steps > 1)
        steps *= 2;

    return steps < DLR_SAVE_INTERVAL_MAX ? (unsigned)steps + (steps > (unsigned)steps)
                                         : DLR_SAVE_INTERVAL_MAX;
}

/* Of several ranks each second step at most is saved: one without a save is there to
 * compare with.
 */
static unsigned wanted(const struct dlr_save_interval *s)
{
    const struct dlr_cadence in = {s->budget_ppm, s->step_ms.value, cost_ms(s),
                                   s->blocked_ms.n};
    unsigned every = dlr_cadence_every(&in), least = behind(s);

    every = s->budget_ppm && every < least ? least : every;
    return power_above(!s->alone && s->budget_ppm && every < 2 ? 2 : every);
}

/* From lead steps on, when all have looked. */
static void order(struct dlr_save_interval *s, uint64_t step, uint64_t lead,
                  unsigned every)
{
    if (publish(s, step + lead, every) < 0)
        return;
    s->next = every;
    s->next_from = step + lead;
}

/* Longer as soon as the budget wants it, shorter when it would be so by far. The first
 * choice is said in any case: others may have read what an earlier start left.
 */
static void choose(struct dlr_save_interval *s, uint64_t step, uint64_t lead)
{
    unsigned want = wanted(s);

    if (s->blocked_ms.n < DLR_CADENCE_LEARN || s->next ||
        (s->told && want <= s->every && want > s->every / 4))
        return;
    order(s, step, lead, want);
}

static void learn_save(struct dlr_save_interval *s, uint64_t saves, uint64_t steps,
                       int64_t took_ns, int64_t held_ns)
{
    double took_ms = (double)took_ns / 1e6, held_ms = (double)held_ns / 1e6;

    if (s->free_ns > 0 && !s->plain) /* what was estimated may be far off */
        s->step_ms = (struct dlr_mean){0};
    if (s->free_ns > 0)
        dlr_mean_add(&s->step_ms, (double)s->free_ns / 1e6 / (double)s->steps);
    else if (!s->plain)
        dlr_mean_add(&s->step_ms,
                     took_ms > held_ms ? (took_ms - held_ms) / (double)steps : 0);
    s->plain = s->plain || s->free_ns > 0;
    dlr_mean_add(&s->blocked_ms, held_ms / (double)saves);
    if (s->plain)
        dlr_mean_add(&s->longer_ms,
                     (took_ms - s->step_ms.value * (double)steps) / (double)saves);
    s->free_ns = 0;
    s->steps = 0;
}

/* Steps that have become longer must not wait for a save that is so many of them away.
 */
static void learn_slower(struct dlr_save_interval *s, uint64_t step)
{
    double now_ms = (double)s->free_ns / 1e6 / (double)s->steps;
    double lead = 2 * LOOK_MS / now_ms + 2;

    s->free_ns = 0;
    s->steps = 0;
    if (now_ms <= 2 * s->step_ms.value)
        return;
    s->step_ms = (struct dlr_mean){now_ms, 1};
    if (lead >= LEAD * (double)s->every)
        return;
    if (!s->next)
        choose(s, step, (uint64_t)lead);
    else if (wanted(s) <
             s->next) /* what was said for shorter ones holds until another is */
        order(s, step, (uint64_t)lead, wanted(s));
}

/* The save's file is written, or the next save has begun. */
static void close_save(struct dlr_save_interval *s, uint64_t step)
{
    const struct dlr_save_interval_open o = s->open;

    s->open = (struct dlr_save_interval_open){0};
    learn_save(s, o.saves, o.steps, o.took_ns, (int64_t)o.held_ns);
    choose(s, step, (uint64_t)LEAD * s->every);
}

static void learn(struct dlr_save_interval *s, uint64_t step, int64_t now_ns,
                  const struct dlr_save_interval_cost *cost)
{
    int64_t waited_ns = (int64_t)(cost->waited_ns - s->waited_ns);
    int64_t took_ns = now_ns - s->at_ns - waited_ns;

    if (cost->saves > s->saves && s->open.saves > 0)
        close_save(s, step);
    if (cost->saves > s->saves || s->open.saves > 0) {
        s->open.saves += cost->saves - s->saves;
        s->open.steps += step - s->prev;
        s->open.took_ns += took_ns;
        s->open.held_ns += cost->blocked_ns - s->blocked_ns - (uint64_t)waited_ns;
        if (!cost->writing)
            close_save(s, step);
        return;
    }
    s->free_ns += took_ns;
    s->steps += step - s->prev;
    if (is_time(s, now_ns))
        learn_slower(s, step);
}

/* ---------------------------------------------------------------------------------- */

void dlr_save_interval_begin(struct dlr_save_interval *s, uint64_t step, int64_t now_ns,
                             const struct dlr_save_interval_cost *cost)
{
    bool due = dlr_save_interval_due(s, step);

    if (!s->given) {
        if (s->next && step >= s->next_from) {
            s->every = s->next;
            s->next = 0;
        }
        if (s->leads && s->begun)
            learn(s, step, now_ns, cost);
        else if (!s->leads && (is_time(s, now_ns) || due))
            follow(s, step);
        s->write_ms = (double)cost->write_ns / 1e6;
        s->at_ns = now_ns;
        s->saves = cost->saves;
        s->blocked_ns = cost->blocked_ns;
        s->waited_ns = cost->waited_ns;
    }
    if (!s->begun)
        s->looked_ns = now_ns;
    s->begun = true;
    s->prev = step;
}
