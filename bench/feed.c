/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=feed/client,ckpt/open */
/* feed: what an index costs, in micro-batches of 32. A line for each: what, records,
 * nanoseconds of CPU time for an index.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "feed/client/feed.h"

#define MICRO 32u
#define STEPS 20000u
#define ARRAY                                                                          \
    4000000u /* indices of the filled array, walked through as a sampler does */

static volatile uint64_t sink;

static double cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return 1e9 * (double)ts.tv_sec + (double)ts.tv_nsec;
}

static void measure(const char *what, const struct dlr_feed_conf *conf,
                    uint64_t records)
{
    uint64_t index[MICRO], sum = 0;
    struct dlr_feed *feed;
    double began;

    if (dlr_feed_open(NULL, conf, &feed) < 0) {
        fprintf(stderr, "feed: %s\n", dlr_feed_error(NULL));
        exit(1);
    }
    began = cpu_ns();
    for (uint64_t step = 0; step < STEPS; step++) {
        const int n = dlr_feed_indices(feed, step, 0, index, MICRO);

        for (int i = 0; i < n; i++)
            sum += index[i];
    }
    printf("%s %llu %.2f\n", what, (unsigned long long)records,
           (cpu_ns() - began) / STEPS / MICRO);
    sink = sum;
    dlr_feed_close(feed);
}

static void measure_array(void)
{
    uint64_t *array = malloc(ARRAY * sizeof(*array)), sum = 0;
    double began;

    if (!array)
        exit(1);
    for (uint64_t i = 0; i < ARRAY; i++)
        array[i] = i * 2654435761u % ARRAY;
    began = cpu_ns();
    for (uint64_t i = 0; i < ARRAY; i++)
        sum += array[i];
    printf("array %u %.2f\n", ARRAY, (cpu_ns() - began) / ARRAY);
    sink = sum;
    free(array);
}

int main(void)
{
    static const char *const orders[] = {"full", "blocks:4096x64", "none"};
    struct dlr_feed_conf conf = {
        .seed = 1, .global_batch = MICRO, .micro_batch = MICRO, .parts = 1};
    struct dlr_feed_source source[8];

    measure_array();
    for (unsigned o = 0; o < 3; o++)
        for (uint64_t records = 1000; records <= UINT64_C(1000000000000);
             records *= 1000) {
            conf.order = orders[o];
            conf.length = records;
            measure(orders[o], &conf, records);
        }
    for (unsigned i = 0; i < 8; i++)
        source[i] = (struct dlr_feed_source){.length = 1000000000, .weight = 1 + i};
    conf.order = "full";
    conf.sources = 8;
    conf.source = source;
    measure("mixture", &conf, UINT64_C(8000000000));
    return 0;
}
