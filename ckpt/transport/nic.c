/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/transport/nic.h"

#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define NAME 64

/* Copies the word of a list that at stands on and moves on; false at its end. */
static bool next_word(const char **at, char ret[NAME])
{
    size_t n = strcspn(*at, ",");

    if (!**at)
        return false;
    snprintf(ret, NAME, "%.*s", (int)n, *at);
    *at += n + ((*at)[n] == ',');
    return true;
}

/* First number in a file of sysfs, 0 when there is none. */
static double read_number(const char *path)
{
    DLR_AUTO_FCLOSE FILE *f = fopen(path, "re");
    double value = 0;

    if (!f || fscanf(f, "%lf", &value) != 1 || value < 0)
        return 0;
    return value;
}

uint64_t dlr_nic_mbps(const char *root, const char *device)
{
    char path[PATH_MAX], name[NAME];
    const char *port = strchr(device, ':');
    double gbps;

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(device, ":"), device);
    snprintf(path, sizeof(path), "%s/sys/class/infiniband/%s/ports/%s/rate", root, name,
             port ? port + 1 : "1");
    gbps = read_number(path); /* "100 Gb/sec (4X EDR)" */
    if (gbps > 0)
        return (uint64_t)(gbps * 1000);
    snprintf(path, sizeof(path), "%s/sys/class/net/%s/speed", root, name);
    return (uint64_t)read_number(path);
}

static bool is_here(const char *root, const char *device)
{
    char path[PATH_MAX], name[NAME];

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(device, ":"), device);
    if (!name[0] || strchr(name, '/') || name[0] == '.')
        return false;
    snprintf(path, sizeof(path), "%s/sys/class/infiniband/%s", root, name);
    if (access(path, F_OK) == 0)
        return true;
    snprintf(path, sizeof(path), "%s/sys/class/net/%s", root, name);
    return access(path, F_OK) == 0;
}

static void add(char *list, size_t size, const char *word)
{
    size_t used = strlen(list);

    snprintf(list + used, size - used, "%s%s", used ? "," : "", word);
}

/* Calls for each device of a class; "lo" is none. */
static void list_class(const char *root, const char *class, char *ret, size_t size)
{
    char path[PATH_MAX];
    struct dirent *e;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/sys/class/%s", root, class);
    dir = opendir(path);
    while (dir && (e = readdir(dir)))
        if (e->d_name[0] != '.' && !dlr_streq(e->d_name, "lo"))
            add(ret, size, e->d_name);
    if (dir)
        closedir(dir);
}

int dlr_nic_setup(const char *devices, unsigned class, struct dlr_err *err)
{
    char word[NAME], have[1024] = "", number[16];
    const char *at = devices;

    while (next_word(&at, word)) {
        if (is_here("", word))
            continue;
        list_class("", "infiniband", have, sizeof(have));
        list_class("", "net", have, sizeof(have));
        return dlr_fail(err, -ENODEV,
                        "--dlrover-set=net: no device '%s' on this node, there are: %s",
                        word, have);
    }
    if (devices[0])
        setenv("UCX_NET_DEVICES", devices, 1);
    snprintf(number, sizeof(number), "%u", class);
    if (class)
        setenv("UCX_IB_TRAFFIC_CLASS", number, 1);
    return 0;
}

/* Every port of each device: "mlx5_0:1". */
static void list_ports(const char *root, char *ret, size_t size)
{
    char have[1024] = "", path[PATH_MAX], device[NAME], word[2 * NAME];
    const char *at = have;

    list_class(root, "infiniband", have, sizeof(have));
    while (next_word(&at, device)) {
        DLR_AUTO_CLOSEDIR DIR *dir = NULL;
        struct dirent *e;

        snprintf(path, sizeof(path), "%s/sys/class/infiniband/%s/ports", root, device);
        dir = opendir(path);
        while (dir && (e = readdir(dir)))
            if (e->d_name[0] != '.' &&
                dlr_format(word, sizeof(word), "%s:%s", device, e->d_name) >= 0)
                add(ret, size, word);
    }
}

/* A port (mlx5_0:1) is its device's. */
static bool holds(const char *list, const char *word)
{
    char one[NAME];

    while (next_word(&list, one)) {
        if (dlr_streq(one, word))
            return true;
        one[strcspn(one, ":")] = '\0';
        if (dlr_streq(one, word))
            return true;
    }
    return false;
}

bool dlr_nic_named(const char *list, const char *device)
{
    char word[NAME], path[PATH_MAX];

    if (holds(list, device))
        return true;
    while (next_word(&list, word)) {
        snprintf(path, sizeof(path), "/sys/class/infiniband/%.*s/device/net/%s",
                 (int)strcspn(word, ":"), word, device);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/* Adds the NUMA node of a device, once; those that are on none, or not of hardware,
 * have none.
 */
static void add_numa(const char *root, const char *device, char *list, size_t size)
{
    static const char *const classes[] = {"infiniband", "net"};
    char path[PATH_MAX], name[NAME], word[16];
    int node = -1;

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(device, ":"), device);
    for (unsigned i = 0; i < 2 && node < 0; i++) {
        DLR_AUTO_FCLOSE FILE *f = NULL;

        snprintf(path, sizeof(path), "%s/sys/class/%s/%s/device/numa_node", root,
                 classes[i], name);
        f = fopen(path, "re");
        if (f && fscanf(f, "%d", &node) != 1)
            node = -1;
    }
    snprintf(word, sizeof(word), "%d", node);
    if (node >= 0 && !holds(list, word))
        add(list, size, word);
}

/* Lines such as "   lane[0]:  2:tcp/eth0.0 md[1]  -> addr[1]..."; .0 is a path of the
 * device.
 */
void dlr_nic_parse(const char *info, char *ret_devices, size_t size)
{
    const char *lane = info;

    ret_devices[0] = '\0';
    while ((lane = strstr(lane, "lane["))) {
        const char *end = lane + strcspn(lane, "\n");
        const char *slash = strchr(lane, '/');
        char device[NAME], *dot;

        lane = end;
        if (!slash || slash > end)
            continue;
        snprintf(device, sizeof(device), "%.*s", (int)strcspn(slash + 1, " \n"),
                 slash + 1);
        dot = strrchr(device, '.');
        if (dot && dot[1] && dot[1 + strspn(dot + 1, "0123456789")] == '\0')
            *dot = '\0';
        if (!holds(ret_devices, device))
            add(ret_devices, size, device);
    }
}

void dlr_nic_outward(const char *root, char *ret, size_t size)
{
    const unsigned wanted = IFF_UP | IFF_RUNNING;
    struct ifaddrs *all = NULL;

    ret[0] = '\0';
    list_ports(root, ret, size);
    if (getifaddrs(&all) == 0)
        for (const struct ifaddrs *i = all; i; i = i->ifa_next)
            if (i->ifa_addr && (i->ifa_flags & (wanted | IFF_LOOPBACK)) == wanted &&
                (i->ifa_addr->sa_family == AF_INET ||
                 i->ifa_addr->sa_family == AF_INET6) &&
                !holds(ret, i->ifa_name))
                add(ret, size, i->ifa_name);
    freeifaddrs(all);
    if (strlen(ret) + 1 == size) /* it may be cut */
        ret[0] = '\0';
}

static bool says(const char *path, const char *word)
{
    DLR_AUTO_FCLOSE FILE *f = fopen(path, "re");
    char line[32] = "";

    return f && fgets(line, sizeof(line), f) && strstr(line, word);
}

static bool is_up(const char *root, const char *device)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/sys/class/infiniband/%s/ports/1/state", root,
             device);
    if (says(path, "ACTIVE")) /* "4: ACTIVE" */
        return true;
    snprintf(path, sizeof(path), "%s/sys/class/net/%s/operstate", root, device);
    return says(path, "up");
}

bool dlr_nic_rdma(const char *root, const char *list)
{
    char have[1024] = "", word[NAME], path[PATH_MAX];
    const char *at = have;

    if (!list[0] || dlr_streq(list, "all"))
        list_class(root, "infiniband", have, sizeof(have));
    else
        at = list;
    while (next_word(&at, word)) {
        snprintf(path, sizeof(path), "%s/sys/class/infiniband/%.*s/ports/%s/state",
                 root, (int)strcspn(word, ":"), word,
                 strchr(word, ':') ? strchr(word, ':') + 1 : "1");
        if (!strchr(word, '/') && says(path, "ACTIVE"))
            return true;
    }
    return false;
}

void dlr_nic_report(const char *root, const char *devices, char *ret, size_t size)
{
    char have[1024] = "", word[NAME], faster[NAME] = "", numa[NAME] = "";
    const char *at = devices;
    uint64_t best = 0, above;

    while (next_word(&at, word)) {
        if (dlr_nic_mbps(root, word) > best)
            best = dlr_nic_mbps(root, word);
        add_numa(root, word, numa, sizeof(numa));
    }
    above = best;
    list_class(root, "net", have, sizeof(have));
    list_class(root, "infiniband", have, sizeof(have));
    at = have;
    while (best && next_word(&at, word)) {
        if (holds(devices, word) || !is_up(root, word) ||
            dlr_nic_mbps(root, word) <= above)
            continue;
        above = dlr_nic_mbps(root, word);
        snprintf(faster, sizeof(faster), "%s", word);
    }
    snprintf(ret, size,
             "{\"uses\":\"%s\",\"mbps\":%llu,\"faster\":\"%s\",\"numa\":[%s]}", devices,
             (unsigned long long)best, faster, numa);
}
