/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes keep a snapshot beside its own: --dlrover-redundancy against the plan's places. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "mpi_launcher/sup.h"

unsigned dlr_sup_copies(const struct dlr_sup *s)
{
    return s->step.nplaces > 1 ? s->conf.redundancy.copies : 0;
}

int dlr_sup_redundancy_check(const struct dlr_sup *s, struct dlr_err *err)
{
    unsigned copies = s->conf.redundancy.copies;

    if (copies < 2 || s->step.nplaces > copies)
        return 0;
    return dlr_fail(err, -EINVAL,
                    "--dlrover-redundancy=partner:%u needs at least %u training nodes, "
                    "this run has %u: ask for more nodes, or for at most partner:%u",
                    copies, copies + 1, s->step.nplaces,
                    s->step.nplaces > 1 ? s->step.nplaces - 1 : 1);
}

/* What was kept where stays known until the next round is prepared: former. */
int dlr_sup_holders_make(struct dlr_sup *s)
{
    unsigned n = s->plan.nplaces, copies = dlr_sup_copies(s);
    DLR_AUTO_FREE struct dlr_topo_node *nodes = calloc(n, sizeof(*nodes));
    DLR_AUTO_FREE unsigned *place = calloc(n, sizeof(*place));
    DLR_AUTO_FREE unsigned *holder = calloc((size_t)n * copies + 1, sizeof(*holder));

    if (!nodes || !place || !holder)
        return -ENOMEM;
    for (unsigned p = 0; p < n; p++) {
        nodes[p] = s->plan.places[p].node;
        place[p] = p;
    }
    if (copies)
        dlr_topo_copies(nodes, place, n, copies, holder);
    for (unsigned p = 0; p < n; p++)
        s->plan.places[p].partner = copies ? holder[(size_t)p * copies] : p;
    free(s->holders);
    s->holders = DLR_STEAL(holder);
    return 0;
}

unsigned dlr_sup_holder(const struct dlr_sup *s, unsigned place, unsigned k)
{
    return s->holders[(size_t)place * dlr_sup_copies(s) + k - 1];
}

int dlr_sup_holder_node(const struct dlr_sup *s, unsigned place, unsigned k)
{
    return dlr_sup_node_of(s, k ? dlr_sup_holder(s, place, k) : place);
}

int dlr_sup_holder_of(const struct dlr_sup *s, unsigned place, unsigned node)
{
    for (unsigned k = 0; k <= dlr_sup_copies(s); k++)
        if (dlr_sup_holder_node(s, place, k) == (int)node)
            return (int)k;
    return -1;
}

void dlr_sup_holders_keep(struct dlr_sup *s)
{
    unsigned each = dlr_sup_copies(s) + 1;

    free(s->kept);
    s->kept = calloc((size_t)s->plan.nplaces * each, sizeof(*s->kept));
    for (unsigned p = 0; s->kept && p < s->plan.nplaces; p++)
        for (unsigned k = 0; k < each; k++)
            s->kept[(size_t)p * each + k] = dlr_sup_holder_node(s, p, k);
}

bool dlr_sup_holder_kept(const struct dlr_sup *s, unsigned place, unsigned k)
{
    const int *kept = s->kept;
    size_t at = (size_t)place * (dlr_sup_copies(s) + 1);

    return kept && kept[at] == dlr_sup_node_of(s, place) &&
           kept[at + k] == dlr_sup_holder_node(s, place, k);
}

json_t *dlr_sup_holder_names(const struct dlr_sup *s, unsigned place)
{
    json_t *names = json_array();

    for (unsigned k = 1; k <= dlr_sup_copies(s); k++)
        json_array_append_new(
            names, json_string(s->plan.places[dlr_sup_holder(s, place, k)].node.name));
    return names;
}
