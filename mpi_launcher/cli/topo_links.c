/* SPDX-License-Identifier: Apache-2.0 */
/* What the network's last measurement said of the links of each node: links.jsonl beside the journal. */
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/cli/topo_tree.h"

#define FILE_MAX (256u << 20)
#define JOURNAL "events.jsonl"

/* The last line of the file, which may be cut short by a death, as JSON; NULL. */
static json_t *last_line(const char *journal)
{
    size_t dir = strlen(journal) - strlen(JOURNAL), size;
    DLR_AUTO_FREE char *path = dlr_format_new("%.*slinks.jsonl", (int)dir, journal);
    DLR_AUTO_FREE char *text = NULL;
    json_t *j = NULL;

    if (!path || dlr_file_load_own(AT_FDCWD, path, FILE_MAX, &text, &size, NULL) < 0)
        return NULL;
    while (!j && size > 0) {
        char *line = memrchr(text, '\n', size);

        size = line ? (size_t)(line - text) : 0;
        j = json_loads(line ? line + 1 : text, JSON_REJECT_DUPLICATES, NULL);
        text[size] = '\0';
    }
    return j;
}

static long find(const struct dlr_cli_topo *t, const char *name)
{
    for (size_t i = 0; name && i < t->n; i++)
        if (dlr_streq(t->nodes[i].name, name))
            return (long)i;
    return -1;
}

/* Of the link to peer, the slower of its two directions. */
static void add(struct dlr_cli_links *l, double mbps, const char *peer)
{
    if (l->n == 0 || mbps > l->most)
        l->most = mbps;
    if (l->n == 0 || mbps < l->least) {
        l->least = mbps;
        dlr_format(l->peer, sizeof(l->peer), "%s", peer);
    }
    l->n++;
}

static double number(const json_t *link, size_t i)
{
    return json_number_value(json_array_get(link, i));
}

void dlr_cli_topo_links(struct dlr_cli_topo *t, const char *journal,
                        struct dlr_cli_links *ret)
{
    DLR_AUTO_JSON json_t *j = last_line(journal);
    const json_t *nodes = json_object_get(j, "nodes"), *link;
    size_t n = json_array_size(nodes), i;
    DLR_AUTO_FREE long *at = calloc(n + 1, sizeof(*at));

    for (i = 0; at && i < n; i++)
        at[i] = find(t, json_string_value(json_array_get(nodes, i)));
    json_array_foreach(json_object_get(j, "links"), i, link)
    {
        double a = number(link, 0), b = number(link, 1);
        double there = number(link, 3), back = number(link, 4);
        double mbps = there < back ? there : back;

        if (!at || !(a >= 0 && a < (double)n && b >= 0 && b < (double)n) || mbps <= 0)
            continue; /* 0: no data */
        if (at[(size_t)a] < 0 || at[(size_t)b] < 0)
            continue;
        add(&ret[at[(size_t)a]], mbps, t->nodes[at[(size_t)b]].name);
        add(&ret[at[(size_t)b]], mbps, t->nodes[at[(size_t)a]].name);
    }
    t->links = ret;
}
