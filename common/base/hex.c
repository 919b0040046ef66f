/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/hex.h"

#include <errno.h>
#include <string.h>

int dlr_hex_read(const char *text, unsigned char *ret, size_t max, size_t *ret_bytes)
{
    size_t n = strlen(text) / 2;

    if (strlen(text) % 2 || n > max || !n)
        return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *hi = strchr(digits, text[2 * i]);
        const char *lo = strchr(digits, text[2 * i + 1]);

        if (!hi || !lo)
            return -EINVAL;
        ret[i] = (unsigned char)((hi - digits) << 4 | (lo - digits));
    }
    *ret_bytes = n;
    return 0;
}
