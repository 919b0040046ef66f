/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/report/escape.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

/* Controls, and what hides text or turns its direction. */
static bool is_unfit(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || (c >= 0xd800 && c < 0xe000) || c == 0xfeff ||
           (c >= 0xfff9 && c <= 0xffff) || c >= 0xe0000;
}

/* The character at *at, which is left behind it; 0 when its bytes are no UTF-8. */
static uint32_t take_character(const unsigned char **at)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char *s = *at;
    unsigned more = *s >= 0xf0 ? 3 : *s >= 0xe0 ? 2 : *s >= 0xc0 ? 1 : 0;
    uint32_t c = *s & (more ? 0x3fu >> more : 0x7fu);

    *at = s + 1;
    if ((*s >= 0x80 && more == 0) || *s >= 0xf8)
        return 0;
    for (unsigned i = 1; i <= more; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    *at = s + 1 + more;
    return c >= least[more] ? c : 0;
}

static void put_text(FILE *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    while (at && *at) {
        uint32_t c = take_character(&at);

        if (c == '\n' || c == '\t' || c == '\r')
            fputc(' ', out);
        else if (is_unfit(c))
            fputc('?', out);
        else if (c >= 0x80 || c == '<' || c == '>' || c == '&' || c == '"' || c == '\'')
            fprintf(out, "&#%" PRIu32 ";", c);
        else
            fputc((int)c, out);
    }
}

void dlr_page(FILE *out, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    for (; *fmt; fmt++) {
        if (*fmt != '%' || fmt[1] == '\0') {
            fputc(*fmt, out);
            continue;
        }
        switch (*++fmt) {
        case 's':
            put_text(out, va_arg(ap, const char *));
            break;
        case 'd':
            fprintf(out, "%" PRId64, va_arg(ap, int64_t));
            break;
        case 'f':
            fprintf(out, "%.2f", va_arg(ap, double));
            break;
        default:
            fputc(*fmt, out);
        }
    }
    va_end(ap);
}
