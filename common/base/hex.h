/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as lower-case hexadecimal digits. */
#ifndef DLR_COMMON_BASE_HEX_H
#define DLR_COMMON_BASE_HEX_H

#include <stddef.h>

/* Reads all of text into at most max bytes. *ret_bytes is 1 at least. -EINVAL. */
int dlr_hex_read(const char *text, unsigned char *ret, size_t max, size_t *ret_bytes);

#endif
