/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open */
/* step MB STEPS STEP_MS idle|busy LOG: a training step with so much state and nothing
 * else. In its time it sleeps (idle), as the host of a GPU does, or computes on its own
 * core (busy); then a small part of the state changes. Rank 0 writes a JSON object per
 * line to LOG, rank N to LOG.N: one for a restore, one for each step.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ckpt/ckpt.h"
#include "common/base/clock.h"
#include "common/base/str.h"

#define MB 1000000u
#define PART 4096u /* of the state, changed in each step */
#define MS INT64_C(1000000)
#define TRIAL 100000 /* rounds of compute(): a fraction of a millisecond */

static volatile double sink; /* else the computing could be left out */

static void compute(int64_t n)
{
    double x = 1;

    while (n-- > 0)
        x = x * 1.0000001 + 1e-9;
    sink = x;
}

/* How often compute() goes round in a microsecond of a core that is its own: the best
 * of some.
 */
static int64_t speed(void)
{
    int64_t best_ns = INT64_MAX;

    for (int i = 0; i < 50; i++) {
        int64_t began = dlr_now_ns(), took;

        compute(TRIAL);
        took = dlr_now_ns() - began;
        if (took > 0 && took < best_ns)
            best_ns = took;
    }
    return TRIAL * 1000 / best_ns;
}

/* rounds 0: sleeps. Else a fixed piece of work, not a fixed time: what others take from
 * the core shows.
 */
static void pass_time(int64_t ns, int64_t rounds)
{
    struct timespec pause = {ns / 1000000000, ns % 1000000000};

    if (rounds)
        compute(rounds);
    else
        nanosleep(&pause, NULL);
}

/* Rank 0's, or that of a program without ranks, is LOG itself. */
static FILE *open_log(const char *path, const char *rank)
{
    char name[4096];

    if (!rank || dlr_streq(rank, "0"))
        return fopen(path, "ae");
    return dlr_format(name, sizeof(name), "%s.%s", path, rank) < 0 ? NULL
                                                                   : fopen(name, "ae");
}

static int fail(const struct dlr_ckpt *ck)
{
    fprintf(stderr, "step: %s\n", dlr_ckpt_error(ck));
    return 1;
}

static int begin(struct dlr_ckpt **ret, unsigned char *state, uint64_t bytes,
                 uint64_t *ret_step, FILE *log)
{
    struct dlr_ckpt_stats stats;
    struct dlr_ckpt *ck;
    int64_t began;
    int rc;

    if (dlr_ckpt_open(NULL, &ck) < 0)
        return fail(NULL);
    if (dlr_ckpt_add_array(ck, "state", DLR_CKPT_SHARD, "u8", 1, state, bytes) < 0)
        return fail(ck);
    began = dlr_now_ns();
    rc = dlr_ckpt_restore(ck, ret_step);
    if (rc < 0)
        return fail(ck);
    began = dlr_now_ns() - began;
    dlr_ckpt_stats(ck, &stats);
    if (rc > 0)
        fprintf(log,
                "{\"event\":\"restore\",\"step\":%" PRIu64 ",\"ns\":%" PRId64
                ",\"load_ns\":%" PRIu64 "}\n",
                *ret_step, began, stats.load_ns);
    *ret = ck;
    return 0;
}

static void tell(FILE *log, uint64_t step, int64_t began,
                 const struct dlr_ckpt_stats *s)
{
    fprintf(
        log,
        "{\"event\":\"step\",\"step\":%" PRIu64 ",\"ns\":%" PRId64
        ",\"blocked_ns\":%" PRIu64 ",\"saves\":%" PRIu64 ",\"given_up\":%" PRIu64 "}\n",
        step, dlr_now_ns() - began, s->begin_ns + s->fence_ns, s->saves, s->given_up);
}

int main(int argc, char **argv)
{
    int64_t step_ns, rounds = 0;
    uint64_t bytes = argc == 6 ? strtoull(argv[1], NULL, 10) * MB : 0, step = 0, last;
    struct dlr_ckpt_stats stats;
    unsigned char *state;
    struct dlr_ckpt *ck = NULL;
    FILE *log = NULL;

    if (bytes == 0) {
        fprintf(stderr, "usage: step MB STEPS STEP_MS idle|busy LOG\n");
        return 2;
    }
    last = strtoull(argv[2], NULL, 10);
    step_ns = strtoll(argv[3], NULL, 10) * MS;
    if (dlr_streq(argv[4], "busy"))
        rounds = step_ns / 1000 * speed();
    state = malloc(bytes);
    log = open_log(argv[5], getenv("RANK"));
    if (!state || !log || setvbuf(log, NULL, _IOLBF, 0))
        return 1;
    memset(state, 1, bytes);
    if (begin(&ck, state, bytes, &step, log))
        return 1;
    while (step < last) {
        int64_t began = dlr_now_ns();

        pass_time(step_ns, rounds);
        dlr_ckpt_fence(ck, NULL);
        memset(state + step % (bytes / PART) * PART, (int)step, PART);
        step++;
        dlr_ckpt_begin(ck, step, NULL);
        dlr_ckpt_stats(ck, &stats);
        tell(log, step, began, &stats);
    }
    dlr_ckpt_fence(ck, NULL);
    dlr_ckpt_close(ck);
    fclose(log);
    return 0;
}
