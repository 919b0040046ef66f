/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/copy_sum.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "ckpt/slot.h"

#define BLOCK 4096u /* summed, then found in the first-level cache by the copy */
#define LINE 64u
#define STREAM_MIN 1024u /* smaller pieces are not worth the fence */

#ifdef __SSE2__
/* Whole lines, past the caches: the line of dst is neither read first nor evicts anything. Of
 * every x86-64: wider stores were not faster, since memory is the limit.
 */
static void stream(unsigned char *dst, const unsigned char *src, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)(src + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(src + i + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(src + i + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(src + i + 48));

        _mm_stream_si128((__m128i *)(dst + i), a);
        _mm_stream_si128((__m128i *)(dst + i + 16), b);
        _mm_stream_si128((__m128i *)(dst + i + 32), c);
        _mm_stream_si128((__m128i *)(dst + i + 48), d);
    }
}

static void drain(void)
{
    _mm_sfence();
}
#else
static void stream(unsigned char *dst, const unsigned char *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

static void drain(void)
{
}
#endif

uint32_t dlr_copy_sum(void *dst, const void *src, size_t bytes, uint32_t crc)
{
    const unsigned char *from = src;
    unsigned char *to = dst;
    size_t head = -(uintptr_t)to % LINE;

    if (bytes < STREAM_MIN) {
        memcpy(to, from, bytes);
        return dlr_crc32c(crc, from, bytes);
    }
    memcpy(to, from, head);
    crc = dlr_crc32c(crc, from, head);
    for (size_t at = head, n; at < bytes; at += n) {
        size_t whole;

        n = bytes - at < BLOCK ? bytes - at : BLOCK;
        whole = n - n % LINE;
        crc = dlr_crc32c(crc, from + at, n);
        stream(to + at, from + at, whole);
        memcpy(to + at + whole, from + at + whole, n - whole);
    }
    drain();
    return crc;
}
