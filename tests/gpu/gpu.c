/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open,health,health/run needs=dlrover-data,dlrover-gpu */
/* Device memory on a real GPU; docs/gpu.md says what is printed.
 *
 *   gpu [--mib N] check         saves, restores, partner's copies, audit, captures
 *   gpu [--mib N] bench         how fast snapshots leave the device
 *   gpu health                  the checks of GPUs, and what each costs
 *   gpu nccl                    what NCCL's all-reduce carries
 *   gpu node EVERY COMMAND...   runs a program as the rank of a job: each EVERY-th step
 *   is saved
 *                               (0: none), and sent to a partner process on this
 *                               machine
 *
 * Without a GPU the first four say so and end with 0.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/str.h"
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_health.h"
#include "tests/gpu/gpu_node.h"
#include "tests/gpu/gpu_rig.h"

#define MIB_MIN 2u /* one is a view */
#define MIB_MAX 65536u

static int usage(void)
{
    fprintf(stderr, "usage: gpu [--mib N] check|bench\n"
                    "       gpu health|nccl\n"
                    "       gpu node EVERY COMMAND [ARGUMENT...]\n");
    return 2;
}

static int run_node(unsigned every, char **argv)
{
    struct gpu_node *node = gpu_node_start(every);
    int status = -1;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        execvp(argv[0], argv);
        fprintf(stderr, "gpu: cannot run '%s': %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    if (pid > 0)
        waitpid(pid, &status, 0);
    gpu_node_report(node);
    gpu_node_end(node);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

#ifdef DLR_HAVE_CUDA

static int run_gpu(bool bench, unsigned mib)
{
    if (mib > 0)
        gpu_bytes = (size_t)mib << 20;
    if (!gpu_find()) {
        puts("skipped: no GPU");
        return 0;
    }
    if (bench)
        gpu_bench();
    else
        gpu_check();
    return 0;
}

#else

static int run_gpu(bool bench, unsigned mib)
{
    puts("skipped: built without CUDA headers (CUDA_HOME= names their place)");
    return 0;
}

#endif

int main(int argc, char **argv)
{
    unsigned mib = 0, every;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 3 && dlr_streq(argv[1], "node"))
        return dlr_parse_uint(argv[2], 1000000, &every) < 0 ? usage()
                                                            : run_node(every, argv + 3);
    if (argc == 2 && dlr_streq(argv[1], "health"))
        return gpu_health();
    if (argc == 2 && dlr_streq(argv[1], "nccl"))
        return gpu_nccl();
    if (argc == 4 && dlr_streq(argv[1], "--mib")) {
        if (dlr_parse_uint(argv[2], MIB_MAX, &mib) < 0 || mib < MIB_MIN)
            return usage();
        argc -= 2;
        argv += 2;
    }
    if (argc != 2 || (!dlr_streq(argv[1], "check") && !dlr_streq(argv[1], "bench")))
        return usage();
    return run_gpu(dlr_streq(argv[1], "bench"), mib);
}
