/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/unwind/socket_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/cleanup.h"

#define LISTENS 0x0a
#define LINES_MAX 65536

/* An address as the kernel prints it: words of 8 hexadecimal digits in its own order. */
static int address(const char *hex, char *buf, size_t size)
{
    int family = strlen(hex) == 8 ? AF_INET : AF_INET6;
    uint32_t word[4] = {0};

    if (family == AF_INET6 && strlen(hex) != 32)
        return -ENOENT;
    for (size_t i = 0; i < strlen(hex) / 8; i++)
        if (sscanf(hex + 8 * i, "%8x", &word[i]) != 1)
            return -ENOENT;
    return inet_ntop(family, word, buf, (socklen_t)size) ? 0 : -ENOENT;
}

int dlr_socket_peer_line(const char *line, unsigned long long inode, char *buf,
                         size_t size)
{
    char local[33], remote[33], text[INET6_ADDRSTRLEN];
    unsigned local_port, remote_port, state;
    unsigned long long found;

    if (sscanf(line, " %*u: %32[0-9A-F]:%x %32[0-9A-F]:%x %x %*s %*s %*s %*u %*u %llu",
               local, &local_port, remote, &remote_port, &state, &found) != 6 ||
        found != inode)
        return -ENOENT;
    if (state == LISTENS) {
        snprintf(buf, size, "TCP port %u", local_port);
        return 0;
    }
    if (address(remote, text, sizeof(text)) < 0)
        return -ENOENT;
    snprintf(buf, size, "TCP to %s:%u", text, remote_port);
    return 0;
}

int dlr_socket_peer(pid_t pid, unsigned long long inode, char *buf, size_t size)
{
    static const char *const tables[] = {"tcp", "tcp6"};
    char path[64], line[512];
    int rc = -ENOENT;

    for (size_t i = 0; i < 2 && rc < 0; i++) {
        DLR_AUTO_FCLOSE FILE *f = NULL;

        snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, tables[i]);
        f = fopen(path, "re");
        for (unsigned n = 0; f && rc < 0 && n < LINES_MAX; n++) {
            if (!fgets(line, sizeof(line), f))
                break;
            rc = dlr_socket_peer_line(line, inode, buf, size);
        }
    }
    return rc;
}
