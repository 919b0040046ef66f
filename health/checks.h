/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks share. Private to health/. */
#ifndef DLR_HEALTH_CHECKS_H
#define DLR_HEALTH_CHECKS_H

#include "health/health.h"

void dlr_health_memory(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_cpu(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_disk(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_clock(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_reach(const struct dlr_health_env *env, struct dlr_health_result *ret);

/* Sets verdict and reason; a reason that is too long is cut. */
void dlr_health_say(struct dlr_health_result *ret, enum dlr_health_verdict verdict,
                    const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Runs fn(arg) in a thread of its own and waits at most timeout_ms for it. -ETIMEDOUT:
 * the thread is left in a system call that does not return, and arg (from malloc) is
 * its own, to be freed if it ever ends: the caller does not touch it again. Otherwise
 * 0, -ENOMEM or -EAGAIN.
 */
int dlr_health_bounded(void (*fn)(void *arg), void *arg, int64_t timeout_ms);

#endif
