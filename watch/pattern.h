/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns over lines that strangers wrote: extended regular expressions, without what
 * can take long. A search costs at most the bytes of the line times the states of the
 * pattern, whatever both are. Pure.
 */
#ifndef DLR_WATCH_PATTERN_H
#define DLR_WATCH_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

#define DLR_PATTERN_STATES 512
#define DLR_PATTERN_DEPTH 32 /* parentheses in each other */

struct dlr_pattern; /* opaque */

/* Known are . [a-z] [^...] * + ? | ( ) ^ $, \d \s \w, and any other character behind a
 * '\' as itself. -EINVAL with text, also for '{', which repeats elsewhere, and for a
 * pattern of too many states. Foreign bytes: fuzz target rules.
 */
int dlr_pattern_parse(const char *text, struct dlr_pattern **ret, struct dlr_err *err);
/* Accepts NULL, returns NULL. */
struct dlr_pattern *dlr_pattern_free(struct dlr_pattern *p);

/* Is it anywhere in the len bytes, which have no line end? */
bool dlr_pattern_find(const struct dlr_pattern *p, const char *line, size_t len);

#endif
