/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/base/copy_crc.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "ckpt/base/crc32c.h"

#define BLOCK 4096u /* read into the first-level cache, summed and written from there */
#define LINE 64u
#define STREAM_MIN 1024u /* smaller pieces are not worth the fence */

#ifdef __SSE2__
/* Whole lines, past the caches: the line of dst is neither read first nor evicts
 * anything. Of every x86-64: wider stores were not faster, since memory is the limit.
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

/* What is summed is what is written, though another thread write src meanwhile: it is
 * read once.
 */
static uint32_t take_block(unsigned char *to, const unsigned char *from, size_t bytes,
                           uint32_t crc)
{
    _Alignas(LINE) unsigned char block[BLOCK];
    size_t whole = bytes - bytes % LINE;

    memcpy(block, from, bytes);
    crc = dlr_crc32c(crc, block, bytes);
    stream(to, block, whole);
    memcpy(to + whole, block + whole, bytes - whole);
    return crc;
}

/* Of few bytes: they are still in the cache behind the copy. */
static uint32_t take_few(unsigned char *to, const unsigned char *from, size_t bytes,
                         uint32_t crc)
{
    memcpy(to, from, bytes);
    return dlr_crc32c(crc, to, bytes);
}

uint32_t dlr_copy_crc(void *dst, const void *src, size_t bytes, uint32_t crc)
{
    const unsigned char *from = src;
    unsigned char *to = dst;
    size_t head = -(uintptr_t)to % LINE;

    if (bytes < STREAM_MIN)
        return take_few(to, from, bytes, crc);
    crc = take_few(to, from, head, crc);
    for (size_t at = head, n; at < bytes; at += n) {
        n = bytes - at < BLOCK ? bytes - at : BLOCK;
        crc = take_block(to + at, from + at, n, crc);
    }
    drain();
    return crc;
}
