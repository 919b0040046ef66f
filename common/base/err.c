/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/base/str.h"

/* The text quotes what users and peers sent: keep it one line and harmless to a
 * terminal.
 */
static void one_line(char *text)
{
    char *end = text;

    dlr_plain(text);
    for (char *p = text; *p; p++)
        if (*p != ' ')
            end = p + 1;
    *end = '\0';
}

int dlr_fail(struct dlr_err *err, int code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return code;
    err->code = code;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    one_line(err->text);
    return code;
}

bool dlr_err_is_network(int code)
{
    return code == -EHOSTUNREACH || code == -ENETUNREACH || code == -ETIMEDOUT ||
           code == -ECONNRESET || code == -ECONNREFUSED;
}
