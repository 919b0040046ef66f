/* SPDX-License-Identifier: Apache-2.0 */
/* How long a rendezvous by MPI takes, and when one is late. Pure. */
#ifndef DLR_MPI_LAUNCHER_POLICY_RENDEZVOUS_TIME_H
#define DLR_MPI_LAUNCHER_POLICY_RENDEZVOUS_TIME_H

#include <stdint.h>

struct dlr_rendezvous_time {
    int64_t usual_ms; /* 0: not known */
};

/* One has brought a plan after took_ms. */
void dlr_rendezvous_time_took(struct dlr_rendezvous_time *t, int64_t took_ms);
/* Before the first: another step on these nodes took start_ms to be there. */
void dlr_rendezvous_time_expect(struct dlr_rendezvous_time *t, int64_t start_ms);
/* From its begin; INT64_MAX: none is late while nothing is known. */
int64_t dlr_rendezvous_time_late_ms(const struct dlr_rendezvous_time *t);

#endif
