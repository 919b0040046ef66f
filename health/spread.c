/* SPDX-License-Identifier: Apache-2.0 */
#include "health/spread.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), by_value);
    return values[(n - 1) / 2];
}

struct dlr_spread dlr_spread_of(double *values, size_t n)
{
    struct dlr_spread s = {.usual = median(values, n)};

    for (size_t i = 0; i < n; i++)
        values[i] = values[i] > s.usual ? values[i] - s.usual : s.usual - values[i];
    s.spread = median(values, n);
    return s;
}
