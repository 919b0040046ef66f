/* SPDX-License-Identifier: Apache-2.0 */
/* usage: watched LIBRARY PROGRAM [ARGUMENT...]: runs PROGRAM as a rank that is watched, LIBRARY preloaded behind what
 * the user preloads. tests/mpi/page.c reads the page in it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "watch/read.h"

static void *make(const char *name, size_t bytes, int *ret_fd)
{
    void *at;

    *ret_fd = memfd_create(name, MFD_ALLOW_SEALING);
    if (*ret_fd < 0 || ftruncate(*ret_fd, (off_t)bytes) < 0 ||
        fcntl(*ret_fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
        exit(126);
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
    if (at == MAP_FAILED)
        exit(126);
    return at;
}

int main(int argc, char *argv[])
{
    const char *of_open_mpi = getenv("OMPI_COMM_WORLD_RANK"),
               *of_mpich = getenv("PMI_RANK"), *theirs = getenv("LD_PRELOAD");
    const char *rank = of_open_mpi ? of_open_mpi : of_mpich ? of_mpich : "0";
    char text[4096];
    int page_fd, ring_fd;

    if (argc < 3)
        return 2;
    dlr_watch_page_init(make("page", DLR_WATCH_BYTES, &page_fd), atoi(rank), 0,
                        (uint32_t)getpid(), DLR_RING_RECORDS, 1);
    dlr_watch_ring_init(make("ring", DLR_RING_BYTES(DLR_RING_RECORDS), &ring_fd),
                        DLR_RING_RECORDS);
    snprintf(text, sizeof(text), "%d %d", page_fd, ring_fd);
    setenv("DLROVER_WATCH_FDS", text, 1);
    snprintf(text, sizeof(text), "%s%s%s", theirs ? theirs : "", theirs ? ":" : "",
             argv[1]);
    setenv("LD_PRELOAD", text, 1);
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
