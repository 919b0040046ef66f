/* SPDX-License-Identifier: Apache-2.0 */
/* Slots here that no rank of this round uses: of former ranks, and copies that were
 * fetched.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "mpi_launcher/agent/snapshots/parts.h"

struct dlr_agent_fetch *dlr_agent_fetch_find(const struct dlr_agent_snapshots *s,
                                             int32_t rank)
{
    struct dlr_agent_fetch *b = s->fetches;

    while (b && b->rank != rank)
        b = b->next;
    return b;
}

static bool is_used(const struct dlr_agent_snapshots *s, int32_t rank)
{
    for (unsigned i = 0; i < s->nranks; i++)
        if (s->ranks[i]->rank == rank)
            return true;
    for (unsigned i = 0; i < s->round->naccept; i++)
        if (s->round->accept[i] == rank)
            return true;
    return false;
}

/* A fetched one that was given up is still there at times: the data process removes it
 * before it makes what it is asked for later.
 */
uint64_t dlr_agent_fetch_others(const struct dlr_agent_snapshots *s, int32_t but)
{
    int fd = openat(s->self->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DLR_AUTO_CLOSEDIR DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    uint64_t bytes = 0;

    if (!d && fd >= 0)
        close(fd);
    while (d && (entry = readdir(d))) {
        struct stat st;
        int32_t rank;
        unsigned k;

        if (sscanf(entry->d_name, "r%d.s%u", &rank, &k) == 2 &&
            (k == DLR_STORE_FETCHED ? rank != but && dlr_agent_fetch_find(s, rank)
                                    : !is_used(s, rank)) &&
            fstatat(s->self->dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            bytes += (uint64_t)st.st_size;
    }
    return bytes;
}
