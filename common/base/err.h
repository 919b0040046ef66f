/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: a negative errno as the return value, its reason as text beside it. */
#ifndef DLR_COMMON_BASE_ERR_H
#define DLR_COMMON_BASE_ERR_H

#include <stdbool.h>

#define DLR_ERR_TEXT 512

struct dlr_err {
    int code;                /* negative errno, 0 when nothing failed */
    char text[DLR_ERR_TEXT]; /* one line, no newline at its end */
};

/* Fills err (may be NULL) with code and the formatted text and returns code, so that a
 * caller writes: return dlr_fail(err, -EINVAL, "bad topology '%s'", text);
 */
int dlr_fail(struct dlr_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* True for a code by which the network has failed: no way, refused, cut off or too
 * late.
 */
bool dlr_err_is_network(int code);

#endif
