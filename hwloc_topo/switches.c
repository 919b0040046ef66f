/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of nodes in the switch tree. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "hwloc_topo/topo.h"

/* The component that ends at *end, which lies at a dot or at the path's begin: *end goes
 * to its start, its length is returned.
 */
static size_t step_up(const char *path, const char **end)
{
    const char *last = *end;

    while (*end > path && (*end)[-1] != '.')
        (*end)--;
    return (size_t)(last - *end);
}

/* The lowest switch (or, wanted, the lowest domain) above the node. */
static int lowest(const char *path, bool domain, char *buf, size_t size)
{
    const char *at = strrchr(path, '.');

    while (at) {
        size_t n = step_up(path, &at);

        if (n && (*at == DLR_TOPO_DOMAIN) == domain)
            return dlr_format(buf, size, "%.*s", (int)n - domain, at + domain);
        at = at > path ? at - 1 : NULL;
    }
    return dlr_format(buf, size, "%s", "");
}

int dlr_topo_leaf(const char *path, char *buf, size_t size)
{
    return lowest(path, false, buf, size);
}

int dlr_topo_domain(const char *path, char *buf, size_t size)
{
    return lowest(path, true, buf, size);
}

unsigned dlr_topo_common(const char *path_a, const char *path_b)
{
    unsigned n = 0;

    for (;;) {
        const char *a = strchr(path_a, '.'), *b = strchr(path_b, '.');

        if (!a || !b || a - path_a != b - path_b ||
            memcmp(path_a, path_b, (size_t)(a - path_a)) != 0)
            return n;
        n++;
        path_a = a + 1;
        path_b = b + 1;
    }
}
