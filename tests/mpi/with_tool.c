/* SPDX-License-Identifier: Apache-2.0 */
/* A program that is linked with tests/mpi/tool.c: says how often the tool and (where there is a page) the watch have
 * counted three barriers, and what is left of LD_PRELOAD.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/mpi/page.h"

int tool_calls(void);

int main(int argc, char **argv)
{
    const char *preload = getenv("LD_PRELOAD");
    long before;

    MPI_Init(&argc, &argv);
    before = getenv("DLROVER_WATCH_FDS") ? test_calls() : 0;
    for (int i = 0; i < 3; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    printf("tool %d, watch %ld, preload %s\n", tool_calls(),
           getenv("DLROVER_WATCH_FDS") ? test_calls() - before : 0,
           preload ? preload : "none");
    MPI_Finalize();
    return 0;
}
