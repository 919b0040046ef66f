/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/slurm/srun_io.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define V4_IN_V6 "::ffff:"

static bool is_to(int fd, const char *address)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof(peer);
    char text[NI_MAXHOST];
    const char *v4;

    if (getpeername(fd, (struct sockaddr *)&peer, &size) < 0 ||
        (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) ||
        getnameinfo((struct sockaddr *)&peer, size, text, sizeof(text), NULL, 0,
                    NI_NUMERICHOST) != 0)
        return false;
    v4 = dlr_after(text, V4_IN_V6);
    return dlr_streq(v4 ? v4 : text, address);
}

int dlr_srun_io_end(const struct dlr_proc *srun, const char *address)
{
    DLR_AUTO_CLOSEDIR DIR *dir = NULL;
    const struct dirent *entry;
    char path[64];
    int n = 0;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)srun->pid);
    dir = opendir(path);
    if (!dir)
        return -errno;
    while (n >= 0 && (entry = readdir(dir))) {
        DLR_AUTO_CLOSE int fd = -1;
        unsigned of;

        if (dlr_parse_uint(entry->d_name, INT_MAX, &of) < 0)
            continue; /* "." */
        fd = pidfd_getfd(srun->pidfd, (int)of, 0);
        if (fd < 0 && errno == ESRCH)
            break; /* it has ended meanwhile */
        if (fd < 0 && errno != EBADF)
            n = -errno;
        else if (fd >= 0 && is_to(fd, address) && shutdown(fd, SHUT_RD) == 0)
            n++;
    }
    return n;
}
