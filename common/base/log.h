/* SPDX-License-Identifier: Apache-2.0 */
/* One sink for messages: stderr with the prefix "dlr: " until dlr_log_to() names
 * another.
 */
#ifndef DLR_COMMON_BASE_LOG_H
#define DLR_COMMON_BASE_LOG_H

enum dlr_log_level {
    DLR_LOG_ERROR, /* we gave up */
    DLR_LOG_WARN,  /* we went on without something */
    DLR_LOG_INFO,  /* an operator wants it once per job */
    DLR_LOG_DEBUG,
};

typedef void (*dlr_log_fn)(void *arg, enum dlr_log_level level, const char *text);

/* Sends messages up to max to fn (NULL: back to stderr). Not thread-safe: call at
 * start.
 */
void dlr_log_to(dlr_log_fn fn, void *arg, enum dlr_log_level max);

/* The level named by text ("error", "warn", "info", "debug"), -EINVAL when unknown. */
int dlr_log_level_parse(const char *text);

void dlr_log(enum dlr_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define dlr_error(...) dlr_log(DLR_LOG_ERROR, __VA_ARGS__)
#define dlr_warn(...) dlr_log(DLR_LOG_WARN, __VA_ARGS__)
#define dlr_info(...) dlr_log(DLR_LOG_INFO, __VA_ARGS__)
#define dlr_debug(...) dlr_log(DLR_LOG_DEBUG, __VA_ARGS__)

#endif
