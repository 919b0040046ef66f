/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/task/tail.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

void dlr_tail_add(struct dlr_tail *tail, const char *buf, size_t size)
{
    if (size > DLR_TAIL_BYTES) {
        tail->total += size - DLR_TAIL_BYTES;
        buf += size - DLR_TAIL_BYTES;
        size = DLR_TAIL_BYTES;
    }
    while (size) {
        size_t at = tail->total % DLR_TAIL_BYTES;
        size_t n = size < DLR_TAIL_BYTES - at ? size : DLR_TAIL_BYTES - at;

        memcpy(tail->ring + at, buf, n);
        tail->total += n;
        buf += n;
        size -= n;
    }
}

/* Bytes of the UTF-8 character at s (of size bytes), 0 when it is none. */
static size_t utf8_length(const unsigned char *s, size_t size)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    uint32_t c;

    if (s[0] < 0xc0 || s[0] > 0xf4 || n > size)
        return 0;
    c = s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    return c < 0xa0 ? 0 : n; /* U+0080 to U+009F steer terminals */
}

static bool is_plain(unsigned char c)
{
    return c == '\n' || c == '\t' || (c >= 0x20 && c < 0x7f);
}

static void make_text(char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        unsigned char *at = (unsigned char *)text + i;
        size_t n = is_plain(*at) ? 1 : utf8_length(at, size - i);

        if (n == 0)
            *at = '?';
        i += n ? n : 1;
    }
}

size_t dlr_tail_text(const struct dlr_tail *tail, char text[DLR_TAIL_BYTES + 1])
{
    bool cut = tail->total > DLR_TAIL_BYTES;
    size_t size = cut ? DLR_TAIL_BYTES : tail->total;
    size_t at = cut ? tail->total % DLR_TAIL_BYTES : 0;
    char *line;

    memcpy(text, tail->ring + at, size - at);
    memcpy(text + size - at, tail->ring, at);
    line = cut ? memchr(text, '\n', size) : NULL;
    if (line && line + 1 < text + size) {
        size -= line + 1 - text;
        memmove(text, line + 1, size);
    }
    make_text(text, size);
    text[size] = '\0';
    return size;
}
