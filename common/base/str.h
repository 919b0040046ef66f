/* SPDX-License-Identifier: Apache-2.0 */
/* Strings: comparison that reads as words, bounded formatting, units of time and size.
 */
#ifndef DLR_COMMON_BASE_STR_H
#define DLR_COMMON_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True when both are non-NULL and equal. */
bool dlr_streq(const char *a, const char *b);

/* What follows prefix in s, NULL when s does not start with it. */
const char *dlr_after(const char *s, const char *prefix);

/* What path names within dir, which ends without a '/'; NULL when it is not below it.
 */
const char *dlr_below(const char *path, const char *dir);

/* snprintf that reports truncation: 0, or -ENAMETOOLONG with an empty string left. */
int dlr_format(char *buf, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The text on the heap, the caller's; NULL without memory. */
char *dlr_format_new(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *dlr_vformat_new(const char *fmt, va_list ap)
    __attribute__((format(printf, 1, 0)));

/* "200ms", "30s", "2m", "1h", or a bare number of seconds. -EINVAL; -ERANGE beyond 24
 * days, so that every result fits the int of poll(2). Foreign bytes: fuzz target opt.
 */
int dlr_parse_duration_ms(const char *text, int64_t *ret_ms);

/* "4096", "64k", "2m", "4g" (powers of 1024, either case, a trailing 'b' or 'ib'
 * allowed). Foreign bytes: fuzz target opt.
 */
int dlr_parse_size(const char *text, uint64_t *ret_bytes);

/* A decimal number with nothing before or after it. -EINVAL, -ERANGE.
 * Foreign bytes: fuzz target opt.
 */
int dlr_parse_uint(const char *text, unsigned max, unsigned *ret_value);
/* FIRST-LAST, or one port; -EINVAL, -ERANGE. */
int dlr_parse_ports(const char *text, unsigned *ret_first, unsigned *ret_last);

/* The one of n names that word is probably meant to be, NULL when none is near. */
const char *dlr_nearest(const char *word, const char *const *names, size_t n);

/* Makes one harmless line of text that somebody else wrote: line ends and tabs become
 * blanks, other control characters, those of UTF-8 too, '?'.
 */
void dlr_plain(char *text);

#endif
