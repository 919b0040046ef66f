/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/gpu_check.h"

#ifndef DLR_HAVE_CUDA
typedef int no_gpu_check; /* a file may not be empty */
#else

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/str.h"
#include "tests/gpu/gpu_node.h"
#include "tests/gpu/gpu_rig.h"

#define SAVES 5 /* the last of them into slots that are registered */
#define STEP_NS 2000000

/* Settings of the library for what is opened next. */
static void set(bool kernels, bool pin, bool audit)
{
    setenv("DLROVER_CKPT_DEVICE_SUM", kernels ? "on" : "off", 1);
    setenv("DLROVER_CKPT_DEVICE_GATHER", kernels ? "on" : "off", 1);
    setenv("DLROVER_CKPT_DEVICE_PIN", pin ? "on" : "off", 1);
    setenv("DLROVER_CKPT_AUDIT", audit ? "1" : "0", 1);
}

static struct dlr_ckpt *open_ck(const char *dir)
{
    const struct dlr_ckpt_conf conf = {.dir = dir, .fence_ms = 60000};
    struct dlr_ckpt *ck;

    gpu_need(dlr_ckpt_open(&conf, &ck) == 0, dlr_ckpt_error(NULL));
    gpu_name(ck, gpu_smalls);
    return ck;
}

/* Begins steps, which take a little, until one is saved: the slots take a moment to
 * come.
 */
static uint64_t begin(struct dlr_ckpt *ck, uint64_t step)
{
    const struct timespec little = {0, STEP_NS};

    for (;; step++) {
        int rc = dlr_ckpt_begin(ck, step, gpu_stream);

        gpu_need(rc >= 0 || rc == -ENODEV, dlr_ckpt_error(ck));
        if (rc == 1)
            return step;
        nanosleep(&little, NULL);
    }
}

static uint64_t save(struct dlr_ckpt *ck, uint64_t step)
{
    step = begin(ck, step);
    gpu_need(dlr_ckpt_fence(ck, gpu_stream) == 0, dlr_ckpt_error(ck));
    return step;
}

/* Saved as under a job, sent to the partner, restored from its copy on another node. */
static void through_the_partner(bool kernels, bool pin)
{
    struct gpu_node *node = gpu_node_start(1);
    uint64_t step = 0, last = 0;
    struct dlr_ckpt *ck;

    set(kernels, pin, false);
    gpu_fill();
    ck = open_ck(NULL);
    for (unsigned i = 0; i < SAVES; i++) {
        last = save(ck, last + 1);
        last = gpu_node_committed(node, last);
    }
    dlr_ckpt_close(ck);
    gpu_node_replace(node);
    gpu_clear();
    ck = open_ck(NULL);
    gpu_need(dlr_ckpt_restore(ck, &step) == 1, dlr_ckpt_error(ck));
    gpu_need(step == last, "the step that came back is not the last");
    dlr_ckpt_close(ck);
    gpu_look(gpu_smalls);
    gpu_node_end(node);
    printf("ok: %d saves, restored from the partner's copy; kernels %s, "
           "slots registered %s\n",
           SAVES, kernels ? "on" : "off", pin ? "on" : "off");
}

static void in_a_file(void)
{
    char dir[] = "/dev/shm/dlr-gpu-XXXXXX", command[64];
    struct dlr_ckpt *ck;
    uint64_t step = 0;

    set(false, true, false);
    gpu_need(mkdtemp(dir) != NULL, "a directory");
    gpu_fill();
    ck = open_ck(dir);
    gpu_need(save(ck, 7) == 7, "a save");
    dlr_ckpt_close(ck);
    gpu_clear();
    ck = open_ck(dir);
    gpu_need(dlr_ckpt_restore(ck, &step) == 1 && step == 7, dlr_ckpt_error(ck));
    dlr_ckpt_close(ck);
    gpu_look(gpu_smalls);
    dlr_format(command, sizeof(command), "rm -rf %s", dir);
    gpu_need(system(command) == 0, command);
    puts("ok: saved and restored by a program without a job");
}

static void an_audit(bool kernels)
{
    struct gpu_node *node = gpu_node_start(1);
    struct dlr_ckpt *ck;
    uint64_t step;

    set(kernels, true, true);
    gpu_fill();
    ck = open_ck(NULL);
    step = save(ck, 1); /* nothing changed */
    step = gpu_node_committed(node, step);
    step = begin(ck, step + 1);
    gpu_need(GPU(cuMemsetD8Async)(gpu_small + GPU_SMALL, 1, 1, gpu_stream) ==
                 CUDA_SUCCESS,
             "a write on the device");
    gpu_need(dlr_ckpt_fence(ck, gpu_stream) == -EBADMSG &&
                 strstr(dlr_ckpt_error(ck), "'small.1' (1 in all) changed"),
             "the audit did not find the region that was written too early");
    dlr_ckpt_close(ck);
    gpu_node_end(node);
    printf("ok: an audit names what changes before its fence; kernels %s\n",
           kernels ? "on" : "off");
}

/* A capture that is refused is not broken by it, nor one of another stream by copies
 * beside it.
 */
static void captures(void)
{
    struct gpu_node *node = gpu_node_start(1);
    struct dlr_ckpt *ck;
    CUgraph graph = NULL;
    CUstream other;
    uint64_t step;

    set(false, true, false);
    gpu_fill();
    gpu_need(GPU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS,
             "a stream");
    ck = open_ck(NULL);
    step = gpu_node_committed(node, save(ck, 1));
    step = begin(ck, step + 1);
    gpu_need(GPU(cuStreamBeginCapture)(other, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
                 CUDA_SUCCESS,
             "a capture");
    gpu_need(dlr_ckpt_fence(ck, other) == -EINPROGRESS &&
                 dlr_ckpt_begin(ck, step + 1, other) == -EINPROGRESS,
             "calls in a capture were not refused");
    gpu_node_committed(node, step);
    gpu_need(GPU(cuStreamEndCapture)(other, &graph) == CUDA_SUCCESS,
             "a capture was broken off");
    GPU(cuGraphDestroy)(graph);
    GPU(cuStreamDestroy)(other);
    dlr_ckpt_close(ck);
    gpu_node_end(node);
    puts("ok: calls in a capture are refused, copies beside one do not break it off");
}

void gpu_check(void)
{
    in_a_file();
    for (unsigned i = 0; i < 4; i++)
        through_the_partner(i & 1, i & 2);
    an_audit(false);
    an_audit(true);
    captures();
    gpu_check_fence(GPU_FEW, true);
    gpu_check_fence(gpu_smalls, false);
}

#endif
