/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/plan/stragglers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "health/inject.h"
#include "health/spread.h"

#define LEAST_NODES 3
#define SLOW 0.7 /* of the usual */

static const struct dlr_plan_speed *speed_of(const struct dlr_plan_report *r,
                                             const char *check)
{
    for (unsigned i = 0; i < r->nspeeds; i++)
        if (dlr_streq(r->speeds[i].check, check))
            return &r->speeds[i];
    return NULL;
}

/* Whether the user has said how fast it is. */
static bool is_injected(const struct dlr_plan_report *r, const char *check)
{
    for (unsigned i = 0; i < r->nchecks; i++)
        if (dlr_streq(r->checks[i].check, check) &&
            dlr_after(r->checks[i].reason, DLR_INJECTED))
            return true;
    return false;
}

static int add_check(struct dlr_plan_report *r, const struct dlr_plan_speed *s,
                     double usual, bool exclude)
{
    struct dlr_plan_check *more =
        realloc(r->checks, (r->nchecks + 1) * sizeof(*r->checks));

    bool injected;

    if (!more)
        return -ENOMEM;
    r->checks = more;
    more = &r->checks[r->nchecks];
    memset(more, 0, sizeof(*more));
    dlr_format(more->check, sizeof(more->check), "%.*s", (int)strcspn(s->check, "/"),
               s->check);
    injected = is_injected(r, more->check);
    r->nchecks++;
    more->verdict = exclude ? DLR_HEALTH_FAIL : DLR_HEALTH_WARN;
    return dlr_format(more->reason, sizeof(more->reason),
                      "%s" DLR_STRAGGLER "%.2f, %.2f is usual",
                      injected ? DLR_INJECTED : "", s->value, usual);
}

static int compare(struct dlr_plan_report *reports, unsigned n, const char *check,
                   double *values, bool exclude)
{
    struct dlr_spread of;
    double usual, far;
    unsigned k = 0;
    int rc = 0;

    for (unsigned i = 0; i < n; i++) {
        const struct dlr_plan_speed *s = speed_of(&reports[i], check);

        if (s)
            values[k++] =
                -s->value; /* of an even number the faster one in the middle */
    }
    if (k < LEAST_NODES)
        return 0;
    of = dlr_spread_of(values, k);
    usual = -of.usual;
    far = DLR_SPREAD_FAR * of.spread;
    for (unsigned i = 0; rc == 0 && i < n; i++) {
        const struct dlr_plan_speed *s = speed_of(&reports[i], check);

        if (s && s->value < SLOW * usual && s->value < usual - far)
            rc = add_check(&reports[i], s, usual, exclude);
    }
    return rc;
}

/* Every check once: by the first report that has it. */
static bool is_first(const struct dlr_plan_report *reports, unsigned at,
                     const char *check)
{
    for (unsigned i = 0; i < at; i++)
        if (speed_of(&reports[i], check))
            return false;
    return true;
}

int dlr_plan_find_stragglers(struct dlr_plan_report *reports, unsigned n, bool exclude)
{
    DLR_AUTO_FREE double *values = calloc(n + 1, sizeof(*values));
    int rc = values ? 0 : -ENOMEM;

    for (unsigned i = 0; rc == 0 && i < n; i++)
        for (unsigned k = 0; rc == 0 && k < reports[i].nspeeds; k++)
            if (is_first(reports, i, reports[i].speeds[k].check))
                rc = compare(reports, n, reports[i].speeds[k].check, values, exclude);
    return rc;
}
