/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/gpu_check.h"

#ifndef DLR_HAVE_CUDA
typedef int no_gpu_fence; /* a file may not be empty */
#else

#include <errno.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "tests/gpu/gpu_node.h"
#include "tests/gpu/gpu_rig.h"

#define STEPS 300u /* parameters: AdamW keeps a number for each in host memory */
#define STEP_NS 2000000
#define GATE_S 5 /* of a fence that makes the host wait */
#define SAVES 6  /* before it is looked at: until the slots are registered */
#define TRIES 3

static float steps[STEPS];
static sem_t gate;
static _Atomic bool late; /* the gate opened by itself */

static void set_steps(float value)
{
    for (unsigned i = 0; i < STEPS; i++)
        steps[i] = value + (float)i;
}

static void CUDA_CB wait_for_gate(void *arg)
{
    struct timespec until;
    int rc;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += GATE_S;
    while ((rc = sem_clockwait(&gate, CLOCK_MONOTONIC, &until)) < 0 && errno == EINTR)
        ;
    late = rc < 0;
}

static struct dlr_ckpt *open_ck(unsigned smalls)
{
    const struct dlr_ckpt_conf conf = {.fence_ms = 60000};
    struct dlr_ckpt *ck;

    gpu_need(dlr_ckpt_open(&conf, &ck) == 0, dlr_ckpt_error(NULL));
    gpu_name(ck, smalls);
    gpu_need(dlr_ckpt_add_array(ck, "steps", DLR_CKPT_SHARD, "f32", sizeof(float),
                                steps, STEPS) == 0,
             dlr_ckpt_error(ck));
    return ck;
}

/* The step from step on that is saved: slots and orders take a moment to come. */
static uint64_t save(struct dlr_ckpt *ck, uint64_t step)
{
    const struct timespec little = {0, STEP_NS};
    int rc;

    while ((rc = dlr_ckpt_begin(ck, step, gpu_stream)) != 1) {
        gpu_need(rc == 0 || rc == -ENODEV, dlr_ckpt_error(ck));
        nanosleep(&little, NULL);
        step++;
    }
    gpu_need(dlr_ckpt_fence(ck, gpu_stream) == 0, dlr_ckpt_error(ck));
    return step;
}

/* What the program gives the stream and writes to host memory after the fence is not in
 * it. False: the gate had to open first.
 */
static bool go_on(struct dlr_ckpt *ck, uint64_t *step)
{
    gpu_fill();
    gpu_need(GPU(cuLaunchHostFunc)(gpu_stream, wait_for_gate, NULL) == CUDA_SUCCESS,
             "work that takes its time");
    set_steps(7);
    *step = save(ck, *step);
    set_steps(8);
    gpu_need(GPU(cuMemsetD8Async)(gpu_big, 8, gpu_bytes, gpu_stream) == CUDA_SUCCESS,
             "a write on the device");
    sem_post(&gate);
    gpu_need(GPU(cuStreamSynchronize)(gpu_stream) == CUDA_SUCCESS, "the stream");
    if (late)
        gpu_need(sem_trywait(&gate) == 0, "the gate");
    return !late;
}

/* Until it did not wait, or must have. Returns whether it went on. */
static bool look(struct gpu_node *node, struct dlr_ckpt *ck, unsigned tries,
                 uint64_t *last)
{
    bool went = false;

    for (unsigned i = 0; i < SAVES; i++)
        *last = gpu_node_committed(node, save(ck, *last + 1));
    for (unsigned i = 0; i < tries && !went; i++) {
        ++*last;
        went = go_on(ck, last);
        *last = gpu_node_committed(node, *last);
    }
    return went;
}

/* What go_on() saved comes back from the partner. */
static void restore(struct gpu_node *node, unsigned smalls, uint64_t last)
{
    struct dlr_ckpt *ck;
    uint64_t step = 0;

    gpu_node_replace(node);
    gpu_clear();
    set_steps(0);
    ck = open_ck(smalls);
    gpu_need(dlr_ckpt_restore(ck, &step) == 1 && step == last, dlr_ckpt_error(ck));
    dlr_ckpt_close(ck);
    gpu_look(smalls);
    for (unsigned i = 0; i < STEPS; i++)
        gpu_need(steps[i] == 7 + (float)i, "host memory's bytes");
}

void gpu_check_fence(unsigned smalls, bool must_go_on)
{
    struct gpu_node *node = gpu_node_start(1);
    struct dlr_ckpt_stats stats;
    struct dlr_ckpt *ck;
    uint64_t last = 0;
    bool went;

    gpu_need(sem_init(&gate, 0, 0) == 0, "a semaphore");
    gpu_fill();
    ck = open_ck(smalls);
    went = look(node, ck, must_go_on ? TRIES : 1, &last);
    gpu_need(went || !must_go_on, "the host waits for the device in each fence");
    dlr_ckpt_progress(ck, last + 1);
    dlr_ckpt_stats(ck, &stats);
    dlr_ckpt_close(ck);
    restore(node, smalls, last);
    gpu_node_end(node);
    sem_destroy(&gate);
    printf(
        "ok: what is written after a fence is not in the save; with %u small tensors "
        "the host %s, the copies held the stream for %.2f ms\n",
        smalls, went ? "goes on while the stream is at work" : "waits for the stream",
        (double)stats.held_ns / 1e6);
}

#endif
