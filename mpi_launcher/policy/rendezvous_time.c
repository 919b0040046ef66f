/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/policy/rendezvous_time.h"

#define TIMES 3
#define START_MOST_MS 2000 /* a start may have waited for a prolog */
#define LEAST_MS 1000

void dlr_rendezvous_time_expect(struct dlr_rendezvous_time *t, int64_t start_ms)
{
    if (!t->usual_ms)
        dlr_rendezvous_time_took(t,
                                 start_ms < START_MOST_MS ? start_ms : START_MOST_MS);
}

/* The last one counts as much as all before. */
void dlr_rendezvous_time_took(struct dlr_rendezvous_time *t, int64_t took_ms)
{
    if (took_ms < 1)
        took_ms = 1;
    t->usual_ms = t->usual_ms ? (t->usual_ms + took_ms + 1) / 2 : took_ms;
}

int64_t dlr_rendezvous_time_late_ms(const struct dlr_rendezvous_time *t)
{
    if (!t->usual_ms)
        return INT64_MAX;
    return TIMES * t->usual_ms > LEAST_MS ? TIMES * t->usual_ms : LEAST_MS;
}
