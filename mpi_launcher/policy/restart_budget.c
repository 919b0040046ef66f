/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/policy/restart_budget.h"

#include <stdio.h>
#include <string.h>

#include "common/base/str.h"

/* Which of the ranks was heard first is chance. */
static const char *without_rank(const char *why)
{
    int n = 0;

    return sscanf(why, "rank %*u %n", &n) == 0 && n > 0 ? why + n : why;
}

unsigned dlr_restart_budget_count(const struct dlr_restart_budget *b, int64_t now_ms)
{
    int64_t window_ms = b->window_ms ? b->window_ms : DLR_RESTART_WINDOW_MS;

    return now_ms - b->from_ms >= window_ms ? 0 : b->spent;
}

unsigned dlr_restart_budget_spent(struct dlr_restart_budget *b, int64_t now_ms)
{
    b->spent = dlr_restart_budget_count(b, now_ms);
    return b->spent;
}

void dlr_restart_budget_resume(struct dlr_restart_budget *b, unsigned n, int64_t now_ms)
{
    b->spent = n;
    b->from_ms = now_ms;
}

bool dlr_restart_budget_is_start(const struct dlr_restart_budget_failure *f)
{
    return !f->stepped && !f->killed && f->ran_ms < DLR_RESTART_QUICK_MS;
}

/* After about the same time: a tenth more or less, or the few seconds that starts
 * differ by.
 */
static bool as_long(int64_t a_ms, int64_t b_ms)
{
    int64_t more = a_ms > b_ms ? a_ms : b_ms, less = a_ms > b_ms ? b_ms : a_ms;

    return more - less <= more / 10 || more < DLR_RESTART_QUICK_MS;
}

static void count_same(struct dlr_restart_budget *b,
                       const struct dlr_restart_budget_failure *f)
{
    const char *why = without_rank(f->why);

    if (f->stepped || f->killed || !dlr_streq(b->why, why) ||
        !as_long(b->ran_ms, f->ran_ms))
        b->same = 0;
    b->same += !f->stepped && !f->killed;
    snprintf(b->why, sizeof(b->why), "%s", why);
    b->ran_ms = f->ran_ms;
}

enum dlr_restart_budget_next
dlr_restart_budget_failed(struct dlr_restart_budget *b,
                          const struct dlr_restart_budget_failure *f, int64_t now_ms)
{
    count_same(b, f);
    if (dlr_restart_budget_spent(b, now_ms) >= b->max)
        return DLR_RESTART_SPENT;
    if (b->same > 1 && dlr_restart_budget_is_start(f))
        return DLR_RESTART_START;
    if (b->same >= DLR_RESTART_SAME)
        return DLR_RESTART_LOOP;
    if (!b->spent++)
        b->from_ms = now_ms;
    return DLR_RESTART_AGAIN;
}

void dlr_restart_budget_progress(struct dlr_restart_budget *b)
{
    b->spent = b->same = 0;
}
