/* SPDX-License-Identifier: Apache-2.0 */
/* A network as Slurm describes it: topology.conf, and what scontrol prints of it. Formats:
 * topology.conf(5), src/plugins/topology/{tree,block} of 22.05 to 25.11.
 */
#include "hwloc_topo/slurm_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define DEPTH_MAX (DLR_TOPO_PATH / 2) /* a deeper switch has no path */
#define NO_PARENT (-1)

struct unit { /* a switch or a block */
    char name[DLR_TOPO_NAME];
    const char *nodes, *below; /* lists, into the text */
    size_t nnodes, nbelow;     /* their bytes */
    unsigned line;
    unsigned long long size; /* of a block, in nodes; more than any other's: unknown */
    bool block, aggregated;
    int parent;
    unsigned depth; /* switches above it */
};

struct units {
    struct unit *all;
    size_t n, room;
    struct dlr_topo_placing *p;
    size_t current; /* the one whose list is read */
};

static void cleanup_units(struct units *u)
{
    free(u->all);
}

/* --- lines ------------------------------------------------------------------------ */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The value of "key=VALUE" in a line, its bytes in *ret_size; NULL when absent. */
static const char *field(const char *line, size_t size, const char *key,
                         size_t *ret_size)
{
    size_t nkey = strlen(key), i, n;

    for (i = 0; i + nkey <= size; i++) {
        if ((i && !is_blank(line[i - 1])) || strncasecmp(line + i, key, nkey) != 0)
            continue;
        i += nkey;
        for (n = 0; i + n < size && !is_blank(line[i + n]); n++)
            ;
        *ret_size = n;
        return line + i;
    }
    return NULL;
}

/* What a line is begins it. */
static const char *first_field(const char *line, size_t size, const char *key,
                               size_t *ret_size)
{
    const char *value = field(line, size, key, ret_size);

    return value == line + strlen(key) ? value : NULL;
}

static int read_unit(const char *line, size_t size, struct unit *ret)
{
    size_t n = 0, nsize = 0;
    const char *name = first_field(line, size, "SwitchName=", &n), *bytes;

    if (!name)
        ret->block = (name = first_field(line, size, "BlockName=", &n)) ||
                     (name = first_field(line, size, "AggregatedBlock=", &n));
    if (!name || dlr_topo_component(name, n, ret->name) < 0)
        return -EBADMSG;
    ret->aggregated = (line[0] | ' ') == 'a';
    ret->nodes = field(line, size, "Nodes=", &ret->nnodes);
    ret->below = field(line, size, "Switches=", &ret->nbelow);
    bytes = field(line, size, "BlockSize=", &nsize);
    ret->size = bytes ? strtoull(bytes, NULL, 10) : 0; /* it ends at a blank */
    ret->parent = NO_PARENT;
    return 0;
}

static int add_unit(struct units *u, const char *line, size_t size, unsigned number,
                    struct dlr_err *err)
{
    struct unit unit = {.line = number};
    size_t ignored;

    if (first_field(line, size, "BlockSizes=", &ignored))
        return 0;
    if (u->n == u->room) {
        size_t room = u->room ? u->room * 2 : 64;
        struct unit *more = reallocarray(u->all, room, sizeof(*more));

        if (!more)
            return dlr_fail(err, -ENOMEM, "out of memory");
        u->all = more;
        u->room = room;
    }
    if (read_unit(line, size, &unit) < 0 || (u->n && u->all[0].block != unit.block))
        return dlr_fail(err, -EBADMSG,
                        "line %u is not a %s ('SwitchName=NAME ...' or "
                        "'BlockName=NAME ...')",
                        number,
                        u->n ? "switch or block as those before"
                             : "switch or block of Slurm's");
    u->all[u->n++] = unit;
    return 0;
}

/* Joins what a backslash continues; lines that go empty follow, so that their numbers
 * stay.
 */
static void join_lines(char *text)
{
    char *to = text;
    size_t joined = 0;

    for (const char *from = text; *from; from++) {
        if (from[0] == '\\' && from[1] == '\n') {
            joined++;
            from++;
            continue;
        }
        *to++ = *from;
        for (; *from == '\n' && joined; joined--)
            *to++ = '\n';
    }
    *to = '\0';
}

static int read_lines(struct units *u, char *text, struct dlr_err *err)
{
    unsigned number = 0;

    join_lines(text);
    while (*text) {
        size_t size = strcspn(text, "\n"), end = strcspn(text, "#\n"), skip;
        int rc;

        number++;
        skip = strspn(text, " \t\r");
        while (end && is_blank(text[end - 1]))
            end--;
        rc = skip < end ? add_unit(u, text + skip, end - skip, number, err) : 0;
        if (rc < 0)
            return rc;
        text += size + (text[size] == '\n');
    }
    return u->n ? 0
                : dlr_fail(err, -EBADMSG, "line 1 is not a switch or block of Slurm's");
}

static int bad_list(const struct unit *unit, int rc, struct dlr_err *err)
{
    return dlr_fail(err, rc, "line %u has a malformed list", unit->line);
}

/* --- topology/tree ---------------------------------------------------------------- */

static int by_unit_name(const void *a, const void *b)
{
    return strcmp(((const struct unit *)a)->name, ((const struct unit *)b)->name);
}

/* A switch that is not described has no level of its own: it is skipped. */
static int link_switch(const char *name, void *arg)
{
    struct units *u = arg;
    struct unit key, *child;

    if (dlr_topo_component(name, strlen(name), key.name) < 0)
        return -EBADMSG;
    child = bsearch(&key, u->all, u->n, sizeof(*u->all), by_unit_name);
    if (!child || child == &u->all[u->current])
        return 0;
    if (child->parent == NO_PARENT)
        child->parent = (int)u->current;
    else if (child->parent != (int)u->current)
        dlr_topo_odd(u->p, "switch %s is below %s and %s: the first counts",
                     child->name, u->all[child->parent].name, u->all[u->current].name);
    return 0;
}

static int find_depths(struct units *u, struct dlr_err *err)
{
    for (size_t i = 0; i < u->n; i++)
        for (int at = u->all[i].parent; at != NO_PARENT; at = u->all[at].parent)
            if (++u->all[i].depth > DEPTH_MAX)
                return dlr_fail(err, -EBADMSG, "the switch of line %u is below itself",
                                u->all[i].line);
    return 0;
}

static int link_all(struct units *u, struct dlr_err *err)
{
    qsort(u->all, u->n, sizeof(*u->all), by_unit_name);
    for (size_t i = 1; i < u->n; i++)
        if (dlr_streq(u->all[i - 1].name, u->all[i].name))
            return dlr_fail(err, -EBADMSG, "switch %s has two lines", u->all[i].name);
    for (u->current = 0; u->current < u->n; u->current++) {
        const struct unit *unit = &u->all[u->current];
        int rc = unit->nbelow
                     ? dlr_topo_expand(unit->below, unit->nbelow, link_switch, u)
                     : 0;

        if (rc < 0)
            return bad_list(unit, rc, err);
    }
    return find_depths(u, err);
}

static bool is_above(const struct units *u, size_t unit, int at)
{
    while (at != NO_PARENT && at != (int)unit)
        at = u->all[at].parent;
    return at == (int)unit;
}

/* Switches above a leaf may name its nodes, too. */
static int place_node(const char *name, void *arg)
{
    struct units *u = arg;
    long i = dlr_topo_placing_find(u->p, name);
    int rc = 0;

    if (i < 0)
        return 0;
    if (u->p->at[i] != DLR_TOPO_NOWHERE) {
        if (!is_above(u, u->current, u->p->at[i]))
            dlr_topo_odd(u->p, "node %s is on %s and %s: the first counts", name,
                         u->all[u->p->at[i]].name, u->all[u->current].name);
        return 0;
    }
    u->p->at[i] = (int)u->current;
    for (int at = (int)u->current; rc == 0 && at != NO_PARENT; at = u->all[at].parent)
        rc = dlr_topo_put_above(&u->p->nodes[i], u->all[at].name);
    return rc;
}

static int by_depth(const void *a, const void *b, void *arg)
{
    const struct units *u = arg;
    unsigned i = *(const unsigned *)a, j = *(const unsigned *)b;

    if (u->all[i].depth != u->all[j].depth)
        return u->all[i].depth > u->all[j].depth ? -1 : 1;
    return i < j ? -1 : i > j;
}

/* --- topology/block --------------------------------------------------------------- */

/* Blocks first, then those made of them, the smallest first: each goes above what its
 * nodes have.
 */
static int by_size(const void *a, const void *b, void *arg)
{
    const struct units *u = arg;
    const struct unit *x = &u->all[*(const unsigned *)a],
                      *y = &u->all[*(const unsigned *)b];

    if (x->aggregated != y->aggregated)
        return x->aggregated ? 1 : -1;
    if (x->aggregated && x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int place_in_block(const char *name, void *arg)
{
    struct units *u = arg;
    long i = dlr_topo_placing_find(u->p, name);
    const struct unit *unit = &u->all[u->current], *before;

    if (i < 0)
        return 0;
    before = u->p->at[i] == DLR_TOPO_NOWHERE ? NULL : &u->all[u->p->at[i]];
    if (before && before->aggregated == unit->aggregated &&
        (!unit->aggregated || before->size == unit->size)) {
        if (before != unit)
            dlr_topo_odd(u->p, "node %s is in %s and %s: the first counts", name,
                         before->name, unit->name);
        return 0;
    }
    u->p->at[i] = (int)u->current;
    return dlr_topo_put_above(&u->p->nodes[i], unit->name);
}

/* --- both ------------------------------------------------------------------------- */

int dlr_topo_slurm_place(char *text, struct dlr_topo_placing *p, struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_units) struct units u = {.p = p};
    DLR_AUTO_FREE unsigned *order = NULL;
    bool blocks;
    int rc = read_lines(&u, text, err);

    if (rc < 0)
        return rc;
    blocks = u.all[0].block;
    if (!blocks && (rc = link_all(&u, err)) < 0)
        return rc;
    order = calloc(u.n, sizeof(*order));
    if (!order)
        return dlr_fail(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < u.n; i++)
        order[i] = (unsigned)i;
    qsort_r(order, u.n, sizeof(*order), blocks ? by_size : by_depth, &u);
    for (size_t i = 0; i < u.n; i++) {
        const struct unit *unit = &u.all[u.current = order[i]];

        rc = unit->nnodes ? dlr_topo_expand(unit->nodes, unit->nnodes,
                                            blocks ? place_in_block : place_node, &u)
                          : 0;
        if (rc < 0)
            return bad_list(unit, rc, err);
    }
    return 0;
}

int dlr_topo_slurm_names(char *text, dlr_topo_name_fn fn, void *arg,
                         struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_units) struct units u = {0};
    int rc = read_lines(&u, text, err);

    for (size_t i = 0; rc == 0 && i < u.n; i++) {
        const struct unit *unit = &u.all[i];

        if (unit->nnodes && dlr_topo_expand(unit->nodes, unit->nnodes, fn, arg) < 0)
            rc = bad_list(unit, -EBADMSG, err);
    }
    return rc;
}
