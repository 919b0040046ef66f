/* SPDX-License-Identifier: Apache-2.0 */
/* An MPI program that knows nothing of the suite: it adds numbers up over the ranks,
 * again and again, and checks each sum. On request one rank fails on the way, to see
 * what becomes of the others.
 */
#include "examples/args.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <mpi.h>

#define PROGRAM "mpi_plain"

enum { NOBODY = -1, ITEMS = 1024 };

struct options {
    uint64_t iterations, iter_ms, every;
    int fail_rank, exit_code, fail_signal;
    uint64_t fail_at;
    const char *fail_once;
};

static const char help[] =
    "usage: mpi_plain [OPTION…]\n"
    "\n"
    "Adds numbers up over all ranks with MPI_Allreduce and checks the sums.\n"
    "\n"
    "  --iterations N   how many times (50)\n"
    "  --iter-ms N      time of computation in an iteration (100)\n"
    "  --every N        print each N-th iteration (1)\n"
    "  --fail-rank R    this rank fails\n"
    "  --fail-at K      in this iteration, from 1 (1)\n"
    "  --fail-once FILE unless FILE is there already; makes it first\n"
    "  --exit-code C    fails with this exit status (1)\n"
    "  --fail-signal S  fails by this signal instead\n"
    "  --help\n";

#define NUMBER(min, max) args_number(PROGRAM, names[row].name, optarg, min, max)

static struct options parse(int argc, char **argv)
{
    // clang-format off
    enum { ITERATIONS, ITER_MS, EVERY, FAIL_RANK, FAIL_AT, FAIL_ONCE, EXIT_CODE, FAIL_SIGNAL, HELP };
    static const struct option names[] = {
        {"iterations", 1, 0, ITERATIONS}, {"iter-ms", 1, 0, ITER_MS},
        {"every", 1, 0, EVERY},           {"fail-rank", 1, 0, FAIL_RANK},
        {"fail-at", 1, 0, FAIL_AT},       {"fail-once", 1, 0, FAIL_ONCE},
        {"exit-code", 1, 0, EXIT_CODE},   {"fail-signal", 1, 0, FAIL_SIGNAL},
        {"help", 0, 0, HELP},             {0},
    };
    // clang-format on
    struct options o = {.iterations = 50,
                        .iter_ms = 100,
                        .every = 1,
                        .fail_rank = NOBODY,
                        .fail_at = 1,
                        .exit_code = 1};
    int row, c;

    opterr = 0;
    while ((c = getopt_long(argc, argv, ":", names, &row)) != -1)
        switch (c) {
            // clang-format off
        case ITERATIONS: o.iterations = NUMBER(1, INT32_MAX); break;
        case ITER_MS: o.iter_ms = NUMBER(0, 3600000); break;
        case EVERY: o.every = NUMBER(1, INT32_MAX); break;
        case FAIL_RANK: o.fail_rank = (int)NUMBER(0, INT32_MAX); break;
        case FAIL_AT: o.fail_at = NUMBER(1, INT32_MAX); break;
        case FAIL_ONCE: o.fail_once = optarg; break;
        case EXIT_CODE: o.exit_code = (int)NUMBER(0, 255); break;
        case FAIL_SIGNAL: o.fail_signal = (int)NUMBER(1, 64); break;
        case HELP: fputs(help, stdout); exit(0);
        case ':': args_bad(PROGRAM, "'%s' needs a value", argv[optind - 1]);
        default: args_bad(PROGRAM, "'%s' is not an option", argv[optind - 1]);
            // clang-format on
        }
    if (optind < argc)
        args_bad(PROGRAM, "'%s' is not expected", argv[optind]);
    return o;
}

/* "rank 0 on n1", each rank's host, in the order of the ranks */
static void print_hosts(int rank, int world)
{
    char host[MPI_MAX_PROCESSOR_NAME] = "", *all = NULL;
    int length = 0;

    MPI_Get_processor_name(host, &length);
    if (rank == 0) {
        all = calloc((size_t)world, sizeof(host));
        if (!all)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Gather(host, sizeof(host), MPI_CHAR, all, sizeof(host), MPI_CHAR, 0,
               MPI_COMM_WORLD);
    for (int r = 0; rank == 0 && r < world; r++)
        printf("rank %d on %s\n", r, all + (size_t)r * sizeof(host));
    free(all);
}

static void fail(const struct options *o, int rank, uint64_t iteration)
{
    if (o->fail_once) {
        int fd = open(o->fail_once, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

        if (fd < 0 && errno == EEXIST)
            return;
        if (fd < 0)
            fprintf(stderr, PROGRAM ": cannot make '%s': %s\n", o->fail_once,
                    strerror(errno));
        else
            close(fd);
    }
    fprintf(stderr, PROGRAM ": rank %d fails in iteration %" PRIu64 " as asked\n", rank,
            iteration);
    if (o->fail_signal)
        raise(o->fail_signal);
    _exit(o->exit_code);
}

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

/* Computes for a time, as a program does between its messages. */
static void compute(uint64_t ms)
{
    int64_t end = now_ns() + (int64_t)ms * 1000000;
    volatile double x = 1.0; /* or the compiler leaves all of it out */

    while (now_ns() < end)
        for (int i = 0; i < ITEMS; i++)
            x = x * 0.999 + 0.001;
}

/* Item i of rank r is (r + 1) * (iteration + i): integers that a double holds exactly.
 */
static double iterate(int rank, int world, uint64_t iteration)
{
    static double mine[ITEMS], sums[ITEMS];
    double ranks = 0.5 * world * (world + 1.0);

    for (int i = 0; i < ITEMS; i++)
        mine[i] = (rank + 1.0) * (double)(iteration + (uint64_t)i);
    MPI_Allreduce(mine, sums, ITEMS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < ITEMS; i++)
        if (sums[i] != ranks * (double)(iteration + (uint64_t)i)) {
            fprintf(stderr,
                    PROGRAM ": rank %d: sum %d of iteration %" PRIu64 " is wrong\n",
                    rank, i, iteration);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    return sums[0];
}

int main(int argc, char **argv)
{
    struct options o = parse(argc, argv);
    int rank, world;
    double sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    setvbuf(stdout, NULL, _IOLBF, 0);
    print_hosts(rank, world);
    for (uint64_t k = 1; k <= o.iterations; k++) {
        compute(o.iter_ms);
        if (rank == o.fail_rank && k == o.fail_at)
            fail(&o, rank, k);
        sum += iterate(rank, world, k);
        if (rank == 0 && k % o.every == 0)
            printf("iteration %" PRIu64 "\n", k);
    }
    if (rank == 0)
        printf("done: sum %.0f\n", sum);
    MPI_Finalize();
    return 0;
}
