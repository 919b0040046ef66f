/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks share. Private to health/. */
#ifndef DLR_HEALTH_CHECKS_H
#define DLR_HEALTH_CHECKS_H

#include <glob.h>
#include <stdbool.h>

#include "health/health.h"

void dlr_health_memory(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_cpu(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_disk(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_clock(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_timesync(const struct dlr_health_env *env,
                         struct dlr_health_result *ret);
void dlr_health_reach(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_edac(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_swap(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_mounts(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_throttle(const struct dlr_health_env *env,
                         struct dlr_health_result *ret);
void dlr_health_inventory(const struct dlr_health_env *env,
                          struct dlr_health_result *ret);
void dlr_health_ib(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_links(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_pcie(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_leftovers(const struct dlr_health_env *env,
                          struct dlr_health_result *ret);

void dlr_health_matmul(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_bandwidth(const struct dlr_health_env *env,
                          struct dlr_health_result *ret);
void dlr_health_write(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_shared(const struct dlr_health_env *env, struct dlr_health_result *ret);

/* Whether c is the product of a and b, of whole numbers, all side x side. */
#define DLR_HEALTH_SIDE 96 /* of our own loop's */
#define DLR_HEALTH_SIDE_MAX 256
bool dlr_health_is_product(const float *a, const float *b, const float *c,
                           unsigned side);

/* --- health/gpu/ ------------------------------------------------------------------ */

/* What a driver has said: nothing yet. For free(); NULL without memory. */
struct dlr_health_gpus *dlr_health_gpus_new(void);

void dlr_health_gpu(const struct dlr_health_env *env, struct dlr_health_result *ret);
void dlr_health_gpu_memory(const struct dlr_health_env *env,
                           struct dlr_health_result *ret);
void dlr_health_gpu_xid(const struct dlr_health_env *env,
                        struct dlr_health_result *ret);
void dlr_health_gpu_link(const struct dlr_health_env *env,
                         struct dlr_health_result *ret);
void dlr_health_gpu_clock(const struct dlr_health_env *env,
                          struct dlr_health_result *ret);
void dlr_health_gpu_process(const struct dlr_health_env *env,
                            struct dlr_health_result *ret);
void dlr_health_gpu_speed(const struct dlr_health_env *env,
                          struct dlr_health_result *ret);

/* The number that the user has this node take for key (inject.h) in place of what is
 * read; false: none.
 */
bool dlr_health_injected(const struct dlr_health_env *env, const char *key,
                         double *ret_value);
bool dlr_health_injected_count(const struct dlr_health_env *env, const char *key,
                               uint64_t *ret_value);

/* Sets verdict and reason; a reason that is too long is cut. */
void dlr_health_say(struct dlr_health_result *ret, enum dlr_health_verdict verdict,
                    const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Adds one of several findings, with "; " between: the worst stay, and give the verdict.
 */
void dlr_health_add(struct dlr_health_result *ret, enum dlr_health_verdict verdict,
                    const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* --- sysfs.c: files of the kernel. All block as little as those do. ----------------- */

/* The file at root + path, the caller's; NULL when it cannot be read or is larger than 1
 * MiB.
 */
char *dlr_health_load(const struct dlr_health_env *env, const char *path);

/* Its first line, where it fits; path from fmt. */
bool dlr_health_text(const struct dlr_health_env *env, char *buf, size_t size,
                     const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The decimal number at s after blanks; false when there is none, or one beyond 64 bits.
 */
bool dlr_health_number(const char *s, uint64_t *ret_value);

/* The number that dir/file begins with. */
bool dlr_health_read(const struct dlr_health_env *env, uint64_t *ret_value,
                     const char *dir, const char *file);

/* Of a line "KEY  123 kB", in bytes; key with its colon. */
bool dlr_health_meminfo(const char *text, const char *key, uint64_t *ret_bytes);

/* How many a list like "0-3,8" has; 0: it is none. */
unsigned dlr_health_count_list(const char *s);
unsigned dlr_health_cpus(const struct dlr_health_env *env,
                         const char *which); /* "online" "offline" */

/* Number of paths that root + pattern matches, sorted; globfree(). The i-th as the
 * functions above want it, without root; and its last component.
 */
size_t dlr_health_glob(const struct dlr_health_env *env, const char *pattern,
                       glob_t *ret_paths);
const char *dlr_health_path(const struct dlr_health_env *env, const glob_t *paths,
                            size_t i);
const char *dlr_health_name(const char *path);

/* Days since boot, 1 at least: what counts per day are judged by. */
double dlr_health_days_up(const struct dlr_health_env *env);

/* Runs fn(arg) in a thread of its own and waits at most timeout_ms for it. -ETIMEDOUT:
 * the thread is left in a system call that does not return, and arg (from malloc) is
 * its own, to be freed if it ever ends: the caller does not touch it again. Otherwise
 * 0, -ENOMEM or -EAGAIN.
 */
int dlr_health_bounded(void (*fn)(void *arg), void *arg, int64_t timeout_ms);

/* Runs fn(arg) in a child of ours, which holds no descriptor of ours, and waits at most
 * timeout_ms for it. What fn returns, 0 to 127; -ETIMEDOUT: it is killed, and left
 * behind where it hangs in the kernel; -EIO: a signal has ended it; another -errno: it
 * could not be started.
 */
int dlr_health_apart(int (*fn)(void *arg), void *arg, int64_t timeout_ms);

/* A check that reads devices, so: the firmware of a broken one may not answer for a
 * minute. It fails then, and what says in the reason where: "PCIe links". Of env the
 * check sees only root, and what is injected.
 */
void dlr_health_device(const struct dlr_health_env *env, struct dlr_health_result *ret,
                       const char *what,
                       void (*check)(const struct dlr_health_env *env,
                                     struct dlr_health_result *ret));

#endif
