/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks share. Private to health/. */
#ifndef DLR_HEALTH_CHECKS_H
#define DLR_HEALTH_CHECKS_H

#include <stdbool.h>

#include "health/health.h"

void dlr_health_memory(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_cpu(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_disk(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_clock(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_reach(const struct dlr_health_env *env, struct dlr_health_result *ret);

/* Sets verdict and reason; a reason that is too long is cut. */
void dlr_health_say(struct dlr_health_result *ret, enum dlr_health_verdict verdict,
                    const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The file at root + path, the caller's; NULL when it cannot be read or is larger than 1
 * MiB. Blocking: files of the kernel only.
 */
char *dlr_health_load(const struct dlr_health_env *env, const char *path);

/* The decimal number at s after blanks; false when there is none, or one beyond 64 bits.
 */
bool dlr_health_number(const char *s, uint64_t *ret_value);

/* The number at the begin of root + the path that fmt makes; false as above. */
bool dlr_health_read(const struct dlr_health_env *env, uint64_t *ret_value,
                     const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Runs fn(arg) in a thread of its own and waits at most timeout_ms for it. -ETIMEDOUT:
 * the thread is left in a system call that does not return, and arg (from malloc) is
 * its own, to be freed if it ever ends: the caller does not touch it again. Otherwise
 * 0, -ENOMEM or -EAGAIN.
 */
int dlr_health_bounded(void (*fn)(void *arg), void *arg, int64_t timeout_ms);

#endif
