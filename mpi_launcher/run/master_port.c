/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/run/master_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/base/cleanup.h"

#define TRIES 100

unsigned dlr_port_choose(uint32_t job, const char *run, uint32_t round)
{
    return DLR_PORT_FIRST + (unsigned)((XXH64(run, strlen(run), 0) +
                                        job * UINT64_C(101) + round * UINT64_C(7)) %
                                       DLR_PORT_SPAN);
}

unsigned dlr_port_free_from(unsigned first, bool (*is_free)(unsigned port))
{
    for (unsigned i = 0; i < TRIES; i++) {
        unsigned port = DLR_PORT_FIRST + (first - DLR_PORT_FIRST + i) % DLR_PORT_SPAN;

        if (is_free(port))
            return port;
    }
    return first;
}

/* As programs bind theirs: a port in TIME_WAIT is free, one that is listened at is not.
 */
bool dlr_port_is_free(unsigned port)
{
    struct sockaddr_in any = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_ANY),
                              .sin_port = htons((uint16_t)port)};
    DLR_AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd < 0)
        return true; /* not known */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    return bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0 || errno != EADDRINUSE;
}
