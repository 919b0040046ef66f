/* SPDX-License-Identifier: Apache-2.0 */
/* stand HOW FILE: an MPI program that adds numbers up, and at the tenth sum, unless FILE
 * is there already, rank 1 does what HOW says; pause: until FILE is removed.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void stand(const char *how, const char *file)
{
    int token = 0;

    if (strcmp(how, "mismatch") == 0)
        MPI_Bcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD);
    else if (strcmp(how, "stop") == 0)
        raise(SIGSTOP);
    else if (strcmp(how, "pause") == 0)
        while (access(file, F_OK) == 0)
            usleep(100000);
}

int main(int argc, char **argv)
{
    long sum = 0;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 20; i++) {
        long one = i * (rank + 1), all = 0;

        usleep(50000);
        if (i == 10 && access(argv[2], F_OK) != 0) {
            MPI_Barrier(MPI_COMM_WORLD); /* all have seen that it is not there */
            if (rank == 1) {
                FILE *f = fopen(argv[2], "w");

                if (f)
                    fclose(f);
                stand(argv[1], argv[2]);
            }
        }
        MPI_Allreduce(&one, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        sum += all;
    }
    if (rank == 0)
        printf("sum %ld\n", sum);
    MPI_Finalize();
    return 0;
}
