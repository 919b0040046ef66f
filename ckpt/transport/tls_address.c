/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/transport/tls_address.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "ckpt/transport/nic.h"
#include "common/base/str.h"

socklen_t dlr_tls_place_bytes(const union dlr_tls_place *place)
{
    return place->any.sa_family == AF_INET6 ? sizeof(place->v6) : sizeof(place->v4);
}

size_t dlr_tls_address_write(const struct dlr_tls_address *a, unsigned char *to)
{
    unsigned char *at = to;

    memcpy(at, a->id, sizeof(a->id));
    at += sizeof(a->id);
    for (unsigned i = 0; i < a->n; i++) {
        const union dlr_tls_place *p = &a->places[i];
        bool v6 = p->any.sa_family == AF_INET6;

        *at++ = v6 ? 6 : 4;
        memcpy(at, v6 ? &p->v6.sin6_port : &p->v4.sin_port, 2);
        at += 2;
        if (v6)
            memcpy(at, &p->v6.sin6_addr, 16);
        else
            memcpy(at, &p->v4.sin_addr, 4);
        at += v6 ? 16 : 4;
    }
    return (size_t)(at - to);
}

int dlr_tls_address_read(const void *from, size_t bytes, struct dlr_tls_address *ret)
{
    struct dlr_tls_address a = {.n = 0};
    const unsigned char *at = from, *end = at + bytes;

    if (bytes < sizeof(a.id))
        return -EBADMSG;
    memcpy(a.id, at, sizeof(a.id));
    for (at += sizeof(a.id); at < end && a.n < DLR_TLS_PLACES_MAX; a.n++) {
        union dlr_tls_place *p = &a.places[a.n];
        size_t n = *at == 6 ? 16 : 4;

        if ((*at != 4 && *at != 6) || (size_t)(end - at) < 3 + n)
            return -EBADMSG;
        if (n == 16) {
            p->v6.sin6_family = AF_INET6;
            memcpy(&p->v6.sin6_port, at + 1, 2);
            memcpy(&p->v6.sin6_addr, at + 3, n);
        } else {
            p->v4.sin_family = AF_INET;
            memcpy(&p->v4.sin_port, at + 1, 2);
            memcpy(&p->v4.sin_addr, at + 3, n);
        }
        at += 3 + n;
    }
    if (at != end || !a.n)
        return -EBADMSG;
    *ret = a;
    return 0;
}

/* "eth0:1" is an address of eth0. */
static void base_name(const char *name, char *ret, size_t size)
{
    snprintf(ret, size, "%.*s", (int)strcspn(name, ":"), name);
}

static bool usable(const struct ifaddrs *i, bool loopback)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)i->ifa_addr;

    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) ||
        loopback != ((i->ifa_flags & IFF_LOOPBACK) != 0))
        return false;
    if (i->ifa_addr->sa_family ==
        AF_INET6) /* an address of one link would need its name */
        return !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
    return i->ifa_addr->sa_family == AF_INET;
}

static bool is_named(const char *devices, const char *device)
{
    return !devices[0] || dlr_streq(devices, "all") || dlr_nic_named(devices, device);
}

/* Puts a place before those of slower devices; IPv4 before IPv6 on the same. */
static unsigned insert(union dlr_tls_place *places, uint64_t *speeds, unsigned n,
                       const struct sockaddr *addr, uint64_t speed)
{
    unsigned at = 0;

    speed = speed * 2 + (addr->sa_family == AF_INET);
    while (at < n && speeds[at] >= speed)
        at++;
    if (at == DLR_TLS_PLACES_MAX)
        return n;
    if (n == DLR_TLS_PLACES_MAX)
        n--;
    memmove(places + at + 1, places + at, (n - at) * sizeof(*places));
    memmove(speeds + at + 1, speeds + at, (n - at) * sizeof(*speeds));
    memset(&places[at], 0, sizeof(places[at]));
    memcpy(&places[at], addr,
           addr->sa_family == AF_INET ? sizeof(places->v4) : sizeof(places->v6));
    speeds[at] = speed;
    return n + 1;
}

static unsigned list(const struct ifaddrs *all, const char *devices, bool loopback,
                     union dlr_tls_place *places)
{
    uint64_t speeds[DLR_TLS_PLACES_MAX];
    unsigned n = 0;

    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        char name[IF_NAMESIZE];

        base_name(i->ifa_name, name, sizeof(name));
        if (usable(i, loopback) && is_named(devices, name))
            n = insert(places, speeds, n, i->ifa_addr, dlr_nic_mbps("", name));
    }
    return n;
}

unsigned dlr_tls_places(const char *devices,
                        union dlr_tls_place places[DLR_TLS_PLACES_MAX])
{
    struct ifaddrs *all = NULL;
    unsigned n;

    if (getifaddrs(&all) < 0)
        return 0;
    n = list(all, devices, false, places);
    if (!n && is_named(devices, "lo"))
        n = list(all, "", true, places);
    freeifaddrs(all);
    return n;
}

static bool same_host(const struct sockaddr *a, const union dlr_tls_place *b)
{
    if (!a || a->sa_family != b->any.sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               b->v4.sin_addr.s_addr;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &b->v6.sin6_addr, 16) ==
               0;
}

void dlr_tls_device_of(const union dlr_tls_place *place, char *ret, size_t size)
{
    struct ifaddrs *all = NULL;

    ret[0] = '\0';
    if (getifaddrs(&all) < 0)
        return;
    for (const struct ifaddrs *i = all; i && !ret[0]; i = i->ifa_next)
        if (same_host(i->ifa_addr, place))
            base_name(i->ifa_name, ret, size);
    freeifaddrs(all);
}
