/* SPDX-License-Identifier: Apache-2.0 */
/* What copies and parity survive: every failure of one thing is tried. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "hwloc_topo/holders.h"
#include "hwloc_topo/levels.h"
#include "hwloc_topo/names.h"

static const struct dlr_topo_node *node_at(const struct dlr_topo_sets *sets, size_t p)
{
    return &sets->nodes[sets->place ? sets->place[p] : p];
}

/* Adds one to what thing has of the set; seen says which set that is of. */
struct tally {
    unsigned *seen, *parts; /* [things] */
    unsigned char *bad;     /* [things] */
    unsigned most;
};

static void tally_done(struct tally *t)
{
    free(t->seen);
    free(t->parts);
    free(t->bad);
}

static void count(struct tally *t, unsigned set, unsigned thing, unsigned rows)
{
    if (t->seen[thing] != set + 1)
        t->parts[thing] = 0;
    t->seen[thing] = set + 1;
    if (++t->parts[thing] > rows)
        t->bad[thing] = 1;
    t->most = t->parts[thing] > t->most ? t->parts[thing] : t->most;
}

static void count_set(const struct dlr_topo_sets *sets, const unsigned *holder,
                      unsigned set, const unsigned *thing, struct tally *t)
{
    for (size_t p = set; p < sets->nplaces; p += sets->nsets)
        count(t, set, thing[p], sets->rows);
    for (unsigned row = 0; row < sets->rows; row++)
        count(t, set, thing[holder[(size_t)set * sets->rows + row]], sets->rows);
}

/* thing[p] is what place p fails with, of so many. */
static int try_each(const struct dlr_topo_sets *sets, const unsigned *holder,
                    const unsigned *thing, size_t things, struct dlr_topo_loss *ret)
{
    DLR_CLEANUP(tally_done)
    struct tally t = {calloc(things + 1, sizeof(*t.seen)),
                      calloc(things + 1, sizeof(*t.parts)), calloc(things + 1, 1), 0};

    if (!t.seen || !t.parts || !t.bad)
        return -ENOMEM;
    *ret = (struct dlr_topo_loss){.things = (unsigned)things};
    for (unsigned set = 0; set < sets->nsets; set++)
        count_set(sets, holder, set, thing, &t);
    ret->most = t.most;
    for (size_t p = sets->nplaces; p-- > 0;)
        ret->place = t.bad[thing[p]] ? (unsigned)p : ret->place;
    for (size_t i = 0; i < things; i++)
        ret->bad += t.bad[i];
    return 0;
}

static int try_switches(const struct dlr_topo_sets *sets, const unsigned *holder,
                        unsigned *thing, struct dlr_topo_survival *ret)
{
    int leaves = dlr_topo_number(sets->nodes, sets->place, sets->nplaces,
                                 dlr_topo_to_leaf, thing);
    int domains, rc = 0;

    if (leaves > 1 || (leaves == 1 && dlr_topo_to_leaf(node_at(sets, 0)) > 0))
        rc = try_each(sets, holder, thing, (size_t)leaves, &ret->leaf);
    domains =
        dlr_topo_number(sets->nodes, sets->place, sets->nplaces, dlr_topo_above, thing);
    if (rc < 0 || leaves < 0 || domains < 0)
        return -ENOMEM;
    return domains > leaves
               ? try_each(sets, holder, thing, (size_t)domains, &ret->domain)
               : 0;
}

int dlr_topo_survives(const struct dlr_topo_sets *sets, const unsigned *holder,
                      struct dlr_topo_survival *ret)
{
    DLR_AUTO_FREE unsigned *thing = calloc(sets->nplaces + 1, sizeof(*thing));
    struct dlr_topo_survival s = {0};
    struct dlr_topo_loss node;
    int rc;

    if (!thing)
        return -ENOMEM;
    for (size_t p = 0; p < sets->nplaces; p++)
        thing[p] = (unsigned)p;
    rc = try_each(sets, holder, thing, sets->nplaces, &node);
    if (rc == 0)
        rc = try_switches(sets, holder, thing, &s);
    if (rc < 0)
        return rc;
    s.nodes = node.most ? sets->rows / node.most : 0;
    *ret = s;
    return 0;
}

/* --- in words --------------------------------------------------------------------- */

static int add_loss(const struct dlr_topo_sets *sets, const struct dlr_topo_loss *loss,
                    const char *what, dlr_topo_bytes_fn *bytes, char *buf, size_t size)
{
    const struct dlr_topo_node *node = node_at(sets, loss->place);
    size_t used = strlen(buf), end = bytes(node), start = end;

    while (start > 0 && node->path[start - 1] != '.')
        start--;
    if (!loss->things)
        return 0;
    if (!loss->bad)
        return dlr_format(buf + used, size - used, ", any one %s", what);
    return dlr_format(buf + used, size - used, ", not %s '%.*s' (%u of %u)", what,
                      (int)(end - start), node->path + start, loss->bad, loss->things);
}

int dlr_topo_survival_text(const struct dlr_topo_sets *sets,
                           const struct dlr_topo_survival *s, char *buf, size_t size)
{
    int rc = s->nodes > 1
                 ? dlr_format(buf, size, "any %u nodes", s->nodes)
                 : dlr_format(buf, size, "%s", s->nodes ? "any one node" : "no loss");

    if (rc == 0)
        rc = add_loss(sets, &s->leaf, "leaf switch", dlr_topo_to_leaf, buf, size);
    if (rc == 0 && s->leaf.bad)
        rc = add_loss(sets, &s->domain, "domain below a leaf switch", dlr_topo_above,
                      buf, size);
    return rc;
}
