/* SPDX-License-Identifier: Apache-2.0 */
/* build: mpi */
/* Nanoseconds of MPI calls that one rank makes to itself: the least of many short runs, so that what runs beside it
 * counts little. With and without the watch: docs/results/watch.md.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RUNS 400

static char *out, *in;
static int size;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(void)
{
    MPI_Allreduce(in, out, size / (int)sizeof(int), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void sendrecv(void)
{
    MPI_Sendrecv(out, size, MPI_BYTE, 0, 1, in, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void isend_recv(void)
{
    MPI_Request request;

    MPI_Isend(out, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
    MPI_Recv(in, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void iprobe(void)
{
    int flag;

    MPI_Iprobe(0, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void measure(const char *name, void (*call)(void), int bytes)
{
    const int calls = bytes > 4096 ? 20 : 500;
    int64_t least = INT64_MAX;

    size = bytes;
    for (int run = 0; run < RUNS; run++) {
        int64_t begin = now_ns(), took;

        for (int i = 0; i < calls; i++)
            call();
        took = now_ns() - begin;
        least = took < least ? took : least;
    }
    printf("%-24s %8d B %10.1f ns\n", name, bytes, (double)least / calls);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {8, 4096, 65536, 1 << 20};

    MPI_Init(&argc, &argv);
    out = calloc(1, 1 << 20);
    in = calloc(1, 1 << 20);
    measure("barrier", barrier, 0);
    measure("iprobe, nothing there", iprobe, 0);
    for (int i = 0; i < 4; i++) {
        measure("allreduce", allreduce, sizes[i]);
        measure("sendrecv", sendrecv, sizes[i]);
        measure("isend, recv, wait", isend_recv, sizes[i]);
    }
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
