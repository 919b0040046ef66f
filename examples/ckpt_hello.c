/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoint library in one page: a counter that goes on where it was stopped.
 *
 *     cc ckpt_hello.c $(pkg-config --cflags --libs dlrover) -o ckpt_hello
 *     export DLROVER_CKPT_EVERY=1  # else as often as 0.1 % of its time allows: rarely,
 *     its steps are short
 *     ./ckpt_hello 1000            # press Ctrl-C, start it again
 *
 * Started by srun --dlrover=on the same program keeps its snapshots in memory, on two
 * nodes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <dlrover/ckpt.h>

#define N (1 << 20)

static float weights[N];

/* What a step of a training computes, from the weights as they are. */
static float gradient(uint64_t step, size_t i)
{
    return weights[i] * 0.5f + (float)((step * 31 + i) % 7);
}

static int fail(const struct dlr_ckpt *ck)
{
    fprintf(stderr, "ckpt_hello: %s\n", dlr_ckpt_error(ck));
    return 1;
}

int main(int argc, char **argv)
{
    uint64_t step = 0, last = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    float *gradients = calloc(N, sizeof(*gradients));
    struct dlr_ckpt_stats stats;
    struct dlr_ckpt *ck;
    double sum = 0;

    if (!gradients || dlr_ckpt_open(NULL, &ck) < 0)
        return fail(NULL);

    /* 1. Name the memory that is the state, once. */
    if (dlr_ckpt_add_array(ck, "weights", DLR_CKPT_SHARD, "f32", sizeof(*weights),
                           weights, N) < 0)
        return fail(ck);

    /* 2. Load what an earlier start left: 1 when there was something. */
    if (dlr_ckpt_restore(ck, &step) < 0)
        return fail(ck);
    printf("from step %" PRIu64 "\n", step);

    while (step < last) {
        for (size_t i = 0; i < N;
             i++) /* reads the state: beside the copy of the last one */
            gradients[i] = gradient(step, i);
        /* 3. Before the state changes: wait until the last one is copied. */
        dlr_ckpt_fence(ck, NULL);
        for (size_t i = 0; i < N; i++)
            weights[i] -= 0.01f * gradients[i];
        step++;
        /* 4. The state is that of this step from here on. Failures never stop the
         *    program.
         */
        if (dlr_ckpt_begin(ck, step, NULL) < 0)
            fprintf(stderr, "ckpt_hello: not saved: %s\n", dlr_ckpt_error(ck));
    }

    dlr_ckpt_fence(ck, NULL);
    dlr_ckpt_stats(ck, &stats);
    for (size_t i = 0; i < N; i++)
        sum += weights[i];
    printf("step %" PRIu64 ", sum %.9g, %" PRIu64
           " snapshots, %.0f ns in begin each step\n",
           step, sum, stats.saves, last ? (double)stats.begin_ns / (double)last : 0.0);
    dlr_ckpt_close(ck);
    free(gradients);
    return 0;
}
