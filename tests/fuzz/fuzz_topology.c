/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=hwloc_topo */
/* A description of a network: topology.conf, what scontrol prints, what ibnetdiscover
 * prints. Paths that come out end with their node's name, and each node is listed once.
 * Reaches dlr_topo_paths_from_text(), dlr_topo_nodes_from_text(),
 * dlr_topo_paths_from_sources().
 */
#include "hwloc_topo/names.h"
#include "hwloc_topo/networks.h"
#include "tests/fuzz/fuzz.h"

#define LISTED_MAX 4096 /* more is slow and shows no more */

static void check(const struct dlr_topo_node *node)
{
    size_t path = strlen(node->path), name = strlen(node->name);

    FUZZ_CHECK(path >= name && strcmp(node->path + path - name, node->name) == 0);
    FUZZ_CHECK(path == name || node->path[path - name - 1] == '.');
    FUZZ_CHECK(path == name || dlr_topo_above(node) == path - name - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char fixed[] = "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n3\n";
    struct dlr_topo_node nodes[4] = {{"n1", ""}, {"n2", ""}, {"n3", ""}, {"x.y", ""}};
    struct dlr_topo_node *all = NULL;
    char *text = fuzz_text(data, size), note[DLR_TOPO_NOTE];
    struct dlr_topo_source sources[] = {{"text", text}, {"fixed", fixed}};
    struct dlr_err err;
    size_t n = 0, placed;

    if (dlr_topo_paths_from_text(text, nodes, 4, &placed, note, &err) == 0)
        FUZZ_CHECK(placed <= 4);
    for (size_t i = 0; i < 4; i++)
        check(&nodes[i]);
    FUZZ_CHECK(dlr_topo_paths_from_sources(sources, 2, nodes, 4, note) >= 0);
    if (size < LISTED_MAX && !memchr(data, '-', size) &&
        dlr_topo_nodes_from_text(text, &all, &n, note, &err) == 0) {
        for (size_t i = 0; i < n; i++)
            check(&all[i]);
        free(all);
    }
    free(text);
    return 0;
}
