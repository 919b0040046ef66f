/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/data/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/agent/agent.h"

#define ENOUGH                                                                         \
    3 /* saves that found no way: a data process that is started again costs one or two */

void dlr_agent_net_sent(struct dlr_agent *a, const struct dlr_version *save, int rc,
                        const char *why)
{
    struct dlr_agent_net *net = &a->net;

    if (rc == 0)
        net->reached = true;
    if (net->reached || net->device[0] || a->self.job.net[0] ||
        !dlr_err_is_network(rc) || (save && dlr_version_eq(*save, net->save)))
        return;
    if (save)
        net->save = *save;
    if (++net->failed != ENOUGH)
        return;
    dlr_agent_say(a->base, json_pack("{s:i, s:s, s:s}", "v", DLR_MSG_VERSION, "t",
                                     "unreached", "why", why));
}

/* The device that has the address which the supervisor is spoken to from. */
static int find_device(const struct dlr_agent *a, char *ret, size_t size)
{
    struct ifaddrs *all = NULL;
    struct in_addr own;
    char host[DLR_AGENT_ADDR];
    int rc = -ENODEV;

    dlr_format(host, sizeof(host), "%.*s",
               (int)strcspn(dlr_agent_peers_addr(a->base), ":"),
               dlr_agent_peers_addr(a->base));
    if (inet_pton(AF_INET, host, &own) != 1 || getifaddrs(&all) < 0)
        return -ENODEV;
    for (const struct ifaddrs *i = all; i && rc < 0; i = i->ifa_next)
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
            ((const struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr == own.s_addr)
            rc = dlr_format(ret, size, "%.*s", (int)strcspn(i->ifa_name, ":"),
                            i->ifa_name);
    freeifaddrs(all);
    return rc;
}

void dlr_agent_net_peers(struct dlr_agent *a, const json_t *msg)
{
    struct dlr_agent_net *net = &a->net;

    if (!json_is_true(json_object_get(msg, "common_net")) || net->device[0] ||
        a->self.job.net[0] || find_device(a, net->device, sizeof(net->device)) < 0)
        return;
    dlr_warn("%s: copies go over %s, the network of the control plane, from now on",
             a->self.node, net->device);
    dlr_agent_data_restart(a, "another network is used from now on");
}
