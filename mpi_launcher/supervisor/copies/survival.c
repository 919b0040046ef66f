/* SPDX-License-Identifier: Apache-2.0 */
/* What the copies of a round survive, as far as its switches are known. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "hwloc_topo/holders.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"

static int survival(const struct dlr_sup_copies *copies, char *buf, size_t size)
{
    unsigned n = copies->plan->nplaces;
    DLR_AUTO_FREE struct dlr_topo_node *nodes = calloc(n + 1, sizeof(*nodes));
    struct dlr_topo_sets sets = {nodes, NULL, n, n, dlr_sup_copies(copies)};
    struct dlr_topo_survival s;
    int rc;

    if (!nodes)
        return -ENOMEM;
    for (unsigned p = 0; p < n; p++)
        nodes[p] = copies->plan->places[p].node;
    if (copies->sets.rows > 0)
        sets = dlr_parity_sets_places(&copies->sets, nodes);
    /* Place p's holders are those of set p mod nsets: the first nsets are all. */
    rc = dlr_topo_survives(&sets, copies->holders, &s);
    return rc < 0 ? rc : dlr_topo_survival_text(&sets, &s, buf, size);
}

void dlr_sup_put_survival(struct dlr_sup_copies *copies, json_t *row)
{
    char text[DLR_TOPO_SURVIVAL_TEXT];

    if (!copies->holders || dlr_sup_copies(copies) == 0 ||
        survival(copies, text, sizeof(text)) < 0 || dlr_streq(text, copies->survives))
        return;
    memcpy(copies->survives, text, sizeof(text));
    json_object_set_new(row, "survives", json_string(text));
}
