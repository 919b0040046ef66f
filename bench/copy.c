/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/base */
/* copy MB THREADS ROUNDS: prints for each round the GB/s of all threads together of
 *   copy and sum | memcpy, then sum, in blocks of 64 KiB | memcpy | streaming stores
 * Each thread has memory of its own, shared as a slot's is, and touched before.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "ckpt/base/copy_crc.h"
#include "ckpt/base/crc32c.h"
#include "common/base/clock.h"
#include "common/base/str.h"

#define MB 1000000u
#define BLOCK (64u << 10)
#define PIECE (1u << 20)
#define THREADS_MAX 64

typedef void way(unsigned char *dst, const unsigned char *src, size_t bytes);

struct part {
    pthread_t thread;
    unsigned char *dst, *src;
    size_t bytes;
    way *way;
    pthread_barrier_t *ready;
    int64_t began_ns, ended_ns;
};

static _Atomic uint32_t sink; /* else a sum could be left out */

static void both(unsigned char *dst, const unsigned char *src, size_t bytes)
{
    uint32_t crc = 0;

    for (size_t i = 0; i < bytes; i += BLOCK)
        crc =
            dlr_copy_crc(dst + i, src + i, bytes - i < BLOCK ? bytes - i : BLOCK, crc);
    sink = crc;
}

static void in_turn(unsigned char *dst, const unsigned char *src, size_t bytes)
{
    uint32_t crc = 0;

    for (size_t i = 0; i < bytes; i += BLOCK) {
        size_t n = bytes - i < BLOCK ? bytes - i : BLOCK;

        memcpy(dst + i, src + i, n);
        crc = dlr_crc32c(crc, dst + i, n);
    }
    sink = crc;
}

static void plain(unsigned char *dst, const unsigned char *src, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += PIECE)
        memcpy(dst + i, src + i, bytes - i < PIECE ? bytes - i : PIECE);
}

static void stores(unsigned char *dst, const unsigned char *src, size_t bytes)
{
#ifdef __SSE2__
    for (size_t i = 0; i + 64 <= bytes; i += 64)
        for (size_t k = 0; k < 64; k += 16)
            _mm_stream_si128((__m128i *)(dst + i + k),
                             _mm_loadu_si128((const __m128i *)(src + i + k)));
    _mm_sfence();
#else
    memcpy(dst, src, bytes);
#endif
}

static void *work(void *arg)
{
    struct part *p = arg;

    pthread_barrier_wait(p->ready);
    p->began_ns = dlr_now_ns();
    p->way(p->dst, p->src, p->bytes);
    p->ended_ns = dlr_now_ns();
    return NULL;
}

static double measure(struct part *parts, unsigned n, way *how)
{
    pthread_barrier_t ready;
    size_t bytes = 0;
    int64_t began = INT64_MAX, ended = 0;

    pthread_barrier_init(&ready, NULL, n);
    for (unsigned i = 0; i < n; i++) {
        parts[i].way = how;
        parts[i].ready = &ready;
        bytes += parts[i].bytes;
        if (pthread_create(&parts[i].thread, NULL, work, &parts[i]) != 0)
            exit(1);
    }
    for (unsigned i = 0; i < n; i++) {
        pthread_join(parts[i].thread, NULL);
        began = parts[i].began_ns < began ? parts[i].began_ns : began;
        ended = parts[i].ended_ns > ended ? parts[i].ended_ns : ended;
    }
    pthread_barrier_destroy(&ready);
    return (double)bytes / (double)(ended - began);
}

static unsigned char *room(size_t bytes, int fill)
{
    void *p =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        fprintf(stderr, "copy: %s\n", strerror(errno));
        exit(1);
    }
    return memset(p, fill, bytes);
}

int main(int argc, char **argv)
{
    unsigned mb, threads, rounds;
    struct part parts[THREADS_MAX];

    if (argc != 4 || dlr_parse_uint(argv[1], 100000, &mb) < 0 ||
        dlr_parse_uint(argv[2], THREADS_MAX, &threads) < 0 || threads == 0 ||
        dlr_parse_uint(argv[3], 1000, &rounds) < 0) {
        fprintf(stderr, "usage: copy MB THREADS ROUNDS\n");
        return 2;
    }
    for (unsigned i = 0; i < threads; i++) {
        size_t bytes = (size_t)mb * MB / threads;

        parts[i] =
            (struct part){.dst = room(bytes, 0), .src = room(bytes, 7), .bytes = bytes};
    }
    for (unsigned r = 0; r < rounds; r++) {
        static way *const ways[] = {both, in_turn, plain, stores};

        for (unsigned w = 0; w < 4; w++)
            printf("%s%.3f", w ? " " : "", measure(parts, threads, ways[w]));
        printf("\n");
    }
    return 0;
}
