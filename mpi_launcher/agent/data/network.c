/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/data/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/str.h"

/* saves that found no way: a data process that is started again costs one or two */
#define ENOUGH 3

bool dlr_agent_net_sent(struct dlr_agent_net *net, const struct dlr_version *save,
                        int rc)
{
    if (rc == 0)
        net->reached = true;
    if (net->reached || net->device[0] || net->chosen || !dlr_err_is_network(rc) ||
        (save && dlr_version_eq(*save, net->save)))
        return false;
    if (save)
        net->save = *save;
    return ++net->failed == ENOUGH;
}

int dlr_agent_net_find(struct dlr_agent_net *net, const char *address)
{
    struct ifaddrs *all = NULL;
    struct in_addr own;
    char host[INET6_ADDRSTRLEN];
    int rc = -ENODEV;

    if (dlr_format(host, sizeof(host), "%.*s", (int)strcspn(address, ":"), address) <
            0 ||
        inet_pton(AF_INET, host, &own) != 1 || getifaddrs(&all) < 0)
        return -ENODEV;
    for (const struct ifaddrs *i = all; i && rc < 0; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
            ((const struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr == own.s_addr)
            rc = dlr_format(net->device, sizeof(net->device), "%.*s",
                            (int)strcspn(i->ifa_name, ":"), i->ifa_name);
    freeifaddrs(all);
    return rc < 0 ? -ENODEV : 0;
}
