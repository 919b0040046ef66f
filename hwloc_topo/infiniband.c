/* SPDX-License-Identifier: Apache-2.0 */
/* A network as ibnetdiscover(8) finds it: each switch with what its ports lead to. */
#include "hwloc_topo/infiniband.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

#define NO_LEVEL (-1)
/* What switches add up in the network is a port like a host's. */
#define REDUCER "Aggregation Node"

struct sw {
    const char *id; /* "S-0002c90200410d05", into the text */
    char name[DLR_TOPO_NAME];
    int level;     /* 0: it has hosts */
    unsigned root; /* union-find */
};

struct port { /* of a switch, and what is at its other end */
    unsigned sw;
    const char *id, *description; /* into the text */
};

struct fabric {
    struct sw *sw;
    struct port *ports;
    size_t nsw, nports, sw_room, ports_room;
};

static void cleanup_fabric(struct fabric *f)
{
    free(f->sw);
    free(f->ports);
}

static bool is_host(const struct port *port)
{
    return port->id[0] == 'H' && !strstr(port->description, REDUCER);
}

/* --- reading ---------------------------------------------------------------------- */

bool dlr_topo_ib_is(const char *text)
{
    while (*text == '#' || *text == '\n' || *text == '\r')
        text += strcspn(text, "\n") + (text[strcspn(text, "\n")] == '\n');
    return dlr_after(text, "vendid=") || dlr_after(text, "Non-Chassis") ||
           dlr_after(text, "Chassis") || dlr_after(text, "Switch\t") ||
           dlr_after(text, "Switch ");
}

/* The next text between quotes; *at goes behind it. NULL: there is none in the line,
 * which ends at a NUL.
 */
static char *quoted(char **at)
{
    char *start = strchr(*at, '"'), *end = start ? strchr(start + 1, '"') : NULL;

    if (!end)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return start + 1;
}

static int grow(void **all, size_t n, size_t *room, size_t size)
{
    size_t more = *room ? *room * 2 : 64;
    void *p;

    if (n < *room)
        return 0;
    p = reallocarray(*all, more, size);
    if (!p)
        return -ENOMEM;
    *all = p;
    *room = more;
    return 0;
}

/* A managed switch is called "MF0;leaf1:MQM8700/U1"; others have the name of their kind
 * and are told apart by what they are.
 */
static void name_switch(const char *description, struct sw *sw)
{
    const char *name = strchr(description, ';'), *end = name ? strchr(name, ':') : NULL;

    name = end ? name + 1 : description;
    if (dlr_topo_component(name, end ? (size_t)(end - name) : strlen(name), sw->name) <
        0)
        dlr_topo_component(sw->id, strlen(sw->id), sw->name);
}

static int read_line(struct fabric *f, char *line, bool *in_switch)
{
    char *id, *description, *at = line;

    if (line[0] != '[' && line[0] != 'S') {
        *in_switch &= line[0] == '\0';
        return 0;
    }
    if (line[0] == 'S' && strncmp(line, "Switch", 6) != 0)
        return 0;
    id = quoted(&at);
    description = id ? quoted(&at) : NULL;
    if (!description)
        return line[0] == '[' && !*in_switch ? 0 : -EBADMSG;
    if (line[0] == 'S') {
        if (grow((void **)&f->sw, f->nsw, &f->sw_room, sizeof(*f->sw)) < 0)
            return -ENOMEM;
        f->sw[f->nsw] = (struct sw){.id = id, .level = NO_LEVEL};
        name_switch(description, &f->sw[f->nsw++]);
        *in_switch = true;
    } else if (*in_switch) {
        if (grow((void **)&f->ports, f->nports, &f->ports_room, sizeof(*f->ports)) < 0)
            return -ENOMEM;
        f->ports[f->nports++] = (struct port){f->nsw - 1, id, description};
    }
    return 0;
}

static int read_fabric(struct fabric *f, char *text, struct dlr_err *err)
{
    bool in_switch = false;
    unsigned number = 0;

    while (*text) {
        size_t size = strcspn(text, "\n");
        bool last = !text[size];
        int rc;

        number++;
        text[size] = '\0';
        rc = read_line(f, text, &in_switch);
        if (rc < 0)
            return dlr_fail(err, rc, "line %u is not of ibnetdiscover: %s", number,
                            rc == -ENOMEM ? "out of memory"
                                          : "it has no two texts in quotes");
        text += size + !last;
    }
    return f->nsw ? 0 : dlr_fail(err, -EBADMSG, "no switch is in it");
}

/* --- switches --------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct sw *)a)->id, ((const struct sw *)b)->id);
}

static int by_sw_name(const void *a, const void *b)
{
    return strcmp((*(const struct sw *const *)a)->name,
                  (*(const struct sw *const *)b)->name);
}

/* Index of the switch at the other end, or -1. */
static long other_end(const struct fabric *f, const struct port *port)
{
    struct sw key = {.id = port->id};
    const struct sw *found = bsearch(&key, f->sw, f->nsw, sizeof(*f->sw), by_id);

    return found ? found - f->sw : -1;
}

/* Sorts switches by what they are; their ports go on naming them. */
static int sort_switches(struct fabric *f)
{
    DLR_AUTO_FREE const char **ids = calloc(f->nsw, sizeof(*ids));
    DLR_AUTO_FREE struct sw **named = calloc(f->nsw, sizeof(*named));

    if (!ids || !named)
        return -ENOMEM;
    for (size_t i = 0; i < f->nsw; i++)
        ids[i] = f->sw[i].id;
    qsort(f->sw, f->nsw, sizeof(*f->sw), by_id);
    for (size_t i = 0; i < f->nports; i++) {
        struct port key = {.id = ids[f->ports[i].sw]};

        f->ports[i].sw = (unsigned)other_end(f, &key);
    }
    for (size_t i = 0; i < f->nsw; i++)
        named[i] = &f->sw[i];
    qsort(named, f->nsw, sizeof(*named), by_sw_name);
    for (size_t i = 0, same; i < f->nsw; i = same) { /* a name for one alone */
        for (same = i + 1; same < f->nsw && by_sw_name(&named[i], &named[same]) == 0;)
            same++;
        for (size_t k = i; same - i > 1 && k < same; k++)
            dlr_topo_component(named[k]->id, strlen(named[k]->id), named[k]->name);
    }
    return 0;
}

/* Returns the highest level. */
static int find_levels(struct fabric *f)
{
    bool found = true;
    int level = 0;

    for (size_t i = 0; i < f->nports; i++)
        if (is_host(&f->ports[i]))
            f->sw[f->ports[i].sw].level = 0;
    while (found) {
        found = false;
        for (size_t i = 0; i < f->nports; i++) {
            long to = other_end(f, &f->ports[i]);

            if (to < 0 || f->sw[f->ports[i].sw].level != level ||
                f->sw[to].level != NO_LEVEL)
                continue;
            f->sw[to].level = level + 1;
            found = true;
        }
        level += found;
    }
    return level;
}

static unsigned find_root(struct fabric *f, unsigned i)
{
    while (f->sw[i].root != i)
        i = f->sw[i].root = f->sw[f->sw[i].root].root;
    return i;
}

/* Joins what links up to this level join. */
static void join(struct fabric *f, int level)
{
    for (size_t i = 0; i < f->nports; i++) {
        unsigned from = f->ports[i].sw;
        long to = other_end(f, &f->ports[i]);
        unsigned a, b;

        if (to < 0 || f->sw[from].level > level || f->sw[to].level > level ||
            f->sw[from].level == NO_LEVEL || f->sw[to].level == NO_LEVEL)
            continue;
        a = find_root(f, from);
        b = find_root(f, (unsigned)to);
        f->sw[a > b ? a : b].root = a > b ? b : a;
    }
}

/* --- hosts ------------------------------------------------------------------------ */

/* "node1 mlx5_0" and "node1.example.org HCA-1" -> node1 */
static long find_host(const struct dlr_topo_placing *p, const char *description)
{
    size_t n = strcspn(description, " \t");
    char name[DLR_TOPO_NAME];
    long i;

    if (dlr_format(name, sizeof(name), "%.*s", (int)n, description) < 0)
        return -1;
    i = dlr_topo_placing_find(p, name);
    if (i >= 0 || !strchr(name, '.'))
        return i;
    *strchr(name, '.') = '\0';
    return dlr_topo_placing_find(p, name);
}

/* By its first adapter, then by the first leaf. */
static bool is_before(const struct fabric *f, const struct port *a,
                      const struct port *b)
{
    int rc = dlr_topo_name_cmp(a->description, strlen(a->description), b->description,
                               strlen(b->description));

    return rc ? rc < 0 : strcmp(f->sw[a->sw].name, f->sw[b->sw].name) < 0;
}

/* Chooses each node's port. */
static void choose_ports(struct fabric *f, struct dlr_topo_placing *p)
{
    for (size_t k = 0; k < f->nports; k++) {
        long i = is_host(&f->ports[k]) ? find_host(p, f->ports[k].description) : -1;

        if (i >= 0 && (p->at[i] == DLR_TOPO_NOWHERE ||
                       is_before(f, &f->ports[k], &f->ports[p->at[i]])))
            p->at[i] = (int)k;
    }
}

/* The first by name of those of this level that are joined, by their root. */
static void choose_first(struct fabric *f, int level, const char **ret_first)
{
    memset(ret_first, 0, f->nsw * sizeof(*ret_first));
    for (size_t i = 0; i < f->nsw; i++) {
        const char **first = &ret_first[find_root(f, (unsigned)i)];

        if (f->sw[i].level == level && (!*first || strcmp(f->sw[i].name, *first) < 0))
            *first = f->sw[i].name;
    }
}

static int put_level(struct fabric *f, struct dlr_topo_placing *p, const char **first)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < p->n; i++) {
        const char *name;

        if (p->at[i] == DLR_TOPO_NOWHERE)
            continue;
        name = first[find_root(f, f->ports[p->at[i]].sw)];
        if (name)
            rc = dlr_topo_put_above(&p->nodes[i], name);
    }
    return rc;
}

int dlr_topo_ib_place(char *text, struct dlr_topo_placing *p, struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_fabric) struct fabric f = {0};
    DLR_AUTO_FREE const char **first = NULL;
    int rc = read_fabric(&f, text, err), highest;

    if (rc < 0)
        return rc;
    first = calloc(f.nsw, sizeof(*first));
    if (!first || sort_switches(&f) < 0)
        return dlr_fail(err, -ENOMEM, "out of memory");
    highest = find_levels(&f);
    choose_ports(&f, p);
    for (size_t i = 0; i < f.nsw; i++)
        f.sw[i].root = (unsigned)i;
    for (int level = 0; rc == 0 && level <= highest; level++) {
        if (level)
            join(&f, level);
        choose_first(&f, level, first);
        rc = put_level(&f, p, first);
    }
    return rc < 0 ? dlr_fail(err, rc, "a path through it is too long") : 0;
}

int dlr_topo_ib_names(char *text, dlr_topo_name_fn fn, void *arg, struct dlr_err *err)
{
    DLR_CLEANUP(cleanup_fabric) struct fabric f = {0};
    int rc = read_fabric(&f, text, err);

    for (size_t i = 0; rc == 0 && i < f.nports; i++) {
        char name[DLR_TOPO_NAME];

        if (is_host(&f.ports[i]) &&
            dlr_format(name, sizeof(name), "%.*s",
                       (int)strcspn(f.ports[i].description, " \t"),
                       f.ports[i].description) == 0)
            rc = fn(name, arg);
    }
    return rc;
}
