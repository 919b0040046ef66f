/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/plan/stragglers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define LEAST_NODES 3
#define SLOW 0.7    /* of the usual */
#define SPREADS 8.9 /* six standard deviations: one is 1.4826 MAD of normal noise */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of an even number the faster one in the middle. */
static double median(double *values, unsigned n)
{
    qsort(values, n, sizeof(*values), by_value);
    return values[n / 2];
}

static const struct dlr_plan_speed *speed_of(const struct dlr_plan_report *r,
                                             const char *check)
{
    for (unsigned i = 0; i < r->nspeeds; i++)
        if (dlr_streq(r->speeds[i].check, check))
            return &r->speeds[i];
    return NULL;
}

static int add_check(struct dlr_plan_report *r, const struct dlr_plan_speed *s,
                     double usual, bool exclude)
{
    struct dlr_plan_check *more =
        realloc(r->checks, (r->nchecks + 1) * sizeof(*r->checks));

    if (!more)
        return -ENOMEM;
    r->checks = more;
    more = &r->checks[r->nchecks++];
    memset(more, 0, sizeof(*more));
    memcpy(more->check, s->check, sizeof(more->check));
    more->verdict = exclude ? DLR_HEALTH_FAIL : DLR_HEALTH_WARN;
    return dlr_format(more->reason, sizeof(more->reason),
                      "a straggler: %.2f, %.2f is usual", s->value, usual);
}

static int compare(struct dlr_plan_report *reports, unsigned n, const char *check,
                   double *values, bool exclude)
{
    double usual, spread;
    unsigned k = 0;
    int rc = 0;

    for (unsigned i = 0; i < n; i++) {
        const struct dlr_plan_speed *s = speed_of(&reports[i], check);

        if (s)
            values[k++] = s->value;
    }
    if (k < LEAST_NODES)
        return 0;
    usual = median(values, k);
    for (unsigned i = 0; i < k; i++)
        values[i] = values[i] > usual ? values[i] - usual : usual - values[i];
    qsort(values, k, sizeof(*values), by_value);
    spread = values[(k - 1) / 2];
    for (unsigned i = 0; rc == 0 && i < n; i++) {
        const struct dlr_plan_speed *s = speed_of(&reports[i], check);

        if (s && s->value < SLOW * usual && s->value < usual - SPREADS * spread)
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
