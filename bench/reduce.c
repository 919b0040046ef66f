/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open mpi */
/* reduce STATE_MB STEPS IDLE_MS SUM_MB LOG: a training step as a GPU's host sees it.
 * The network rests for IDLE_MS, then all ranks sum up SUM_MB with MPI; STATE_MB are
 * saved whenever the job wants it, none with 0. Rank 0 writes a JSON object per step to
 * LOG.
 */
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ckpt/ckpt.h"
#include "common/base/clock.h"

#define MB 1000000u

static int open_state(struct dlr_ckpt **ret, unsigned char *state, uint64_t bytes)
{
    uint64_t step;

    memset(state, 1, bytes);
    if (dlr_ckpt_open(NULL, ret) < 0 ||
        dlr_ckpt_add_array(*ret, "state", DLR_CKPT_SHARD, "u8", 1, state, bytes) < 0 ||
        dlr_ckpt_restore(*ret, &step) < 0) {
        fprintf(stderr, "reduce: %s\n", dlr_ckpt_error(*ret));
        return -1;
    }
    return 0;
}

static void one_step(struct dlr_ckpt *ck, uint64_t step, int64_t idle_ms, float *sum,
                     int n, FILE *log)
{
    struct timespec idle = {idle_ms / 1000, idle_ms % 1000 * 1000000};
    int64_t began = dlr_now_ns(), sent;
    struct dlr_ckpt_stats stats = {0};

    nanosleep(&idle, NULL);
    sent = dlr_now_ns();
    MPI_Allreduce(MPI_IN_PLACE, sum, n, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    if (ck) {
        dlr_ckpt_fence(ck, NULL);
        dlr_ckpt_begin(ck, step, NULL);
        dlr_ckpt_stats(ck, &stats);
    }
    if (log)
        fprintf(log,
                "{\"event\":\"step\",\"step\":%" PRIu64 ",\"ns\":%" PRId64
                ",\"sum_ns\":%" PRId64 ",\"saves\":%" PRIu64 "}\n",
                step, dlr_now_ns() - began, dlr_now_ns() - sent, stats.saves);
}

int main(int argc, char **argv)
{
    uint64_t bytes, last;
    unsigned char *state;
    struct dlr_ckpt *ck = NULL;
    FILE *log = NULL;
    float *sum;
    int rank, n;

    MPI_Init(&argc, &argv);
    if (argc != 6) {
        fprintf(stderr, "usage: reduce STATE_MB STEPS IDLE_MS SUM_MB LOG\n");
        return 2;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    bytes = strtoull(argv[1], NULL, 10) * MB;
    last = strtoull(argv[2], NULL, 10);
    n = (int)(strtoull(argv[4], NULL, 10) * MB / sizeof(*sum));
    state = malloc(bytes + 1);
    sum = calloc((size_t)n + 1, sizeof(*sum));
    if (rank == 0)
        log = fopen(argv[5], "we");
    if (!state || !sum || (bytes && open_state(&ck, state, bytes) < 0))
        return 1;
    for (uint64_t step = 1; step <= last; step++)
        one_step(ck, step, strtoll(argv[3], NULL, 10), sum, n, log);
    if (ck)
        dlr_ckpt_close(ck);
    if (log)
        fclose(log);
    free(state);
    free(sum);
    MPI_Finalize();
    return 0;
}
