/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/trace/plain.h"

#include <string.h>

/* Bytes of the character that s begins with when it is whole and is UTF-8 (RFC 3629),
 * else 0.
 */
static size_t character(const unsigned char *s)
{
    size_t n = s[0] < 0x80   ? 1
               : s[0] < 0xc2 ? 0
               : s[0] < 0xe0 ? 2
               : s[0] < 0xf0 ? 3
               : s[0] < 0xf5 ? 4
                             : 0;

    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

const char *dlr_trace_plain(const char *text, char *buf, size_t size)
{
    const unsigned char *s = (const unsigned char *)(text ? text : "");
    size_t n = 0;

    while (*s && n + 4 < size) {
        size_t k = character(s);

        if (k > 1 || (k == 1 && *s >= ' ' && *s != 0x7f)) {
            memcpy(buf + n, s, k);
            n += k;
        } else {
            buf[n++] = *s == '\n' || *s == '\t' ? ' ' : '?';
            k = 1;
        }
        s += k;
    }
    buf[n] = '\0';
    return buf;
}
