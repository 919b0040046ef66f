/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/agent/data/own_hosts.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

#include "common/base/str.h"

static const char *text_of(const struct ifaddrs *i, char text[INET6_ADDRSTRLEN])
{
    const struct sockaddr *a = i->ifa_addr;

    if (!a || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK))
        return NULL;
    if (a->sa_family == AF_INET)
        return inet_ntop(AF_INET,
                         &((const struct sockaddr_in *)(const void *)a)->sin_addr, text,
                         INET6_ADDRSTRLEN);
    if (a->sa_family == AF_INET6)
        return inet_ntop(AF_INET6,
                         &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                         text, INET6_ADDRSTRLEN);
    return NULL;
}

void dlr_own_hosts(char *ret, size_t size)
{
    struct ifaddrs *all = NULL;
    size_t used = 0;
    bool fit = getifaddrs(&all) == 0;

    ret[0] = '\0';
    for (const struct ifaddrs *i = all; i && fit; i = i->ifa_next) {
        char text[INET6_ADDRSTRLEN];
        int n;

        if (!text_of(i, text))
            continue;
        n = dlr_format(ret + used, size - used, "%s%s", used ? "," : "", text);
        fit = n >= 0;
        used = strlen(ret);
    }
    if (!fit)
        ret[0] = '\0';
    freeifaddrs(all);
}

json_t *dlr_host_words_of(const struct dlr_peer_list *list)
{
    json_t *hosts = list->n ? json_array() : NULL;

    for (unsigned i = 0; hosts && i < list->n; i++) {
        const char *at = list->all[i].hosts;

        if (!at[0]) {
            json_decref(hosts);
            return NULL;
        }
        for (size_t n; *at; at += n + (at[n] == ',')) {
            n = strcspn(at, ",");
            json_array_append_new(hosts, json_stringn(at, n));
        }
    }
    return hosts;
}
