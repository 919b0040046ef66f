/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/plan/rank_map.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"

#define WORLD_MAX (1u << 20)
#define NAMED_MAX 8 /* runs of ranks that a line names */
#define NOBODY (~0u)

struct word {
    struct dlr_rankmap_claim *claims;
    unsigned n;
    bool lost;
    bool awaited; /* until it says something */
};

struct dlr_rankmap {
    unsigned nnodes;
    struct word *words; /* [nnodes] */
};

struct dlr_rankmap *dlr_rankmap_new(unsigned nnodes)
{
    struct dlr_rankmap *map = calloc(1, sizeof(*map));

    if (map)
        map->words = calloc(nnodes ? nnodes : 1, sizeof(*map->words));
    if (!map || !map->words)
        return dlr_rankmap_free(map);
    map->nnodes = nnodes;
    return map;
}

struct dlr_rankmap *dlr_rankmap_free(struct dlr_rankmap *map)
{
    for (unsigned i = 0; map && i < map->nnodes; i++)
        free(map->words[i].claims);
    if (map)
        free(map->words);
    free(map);
    return NULL;
}

int dlr_rankmap_tell(struct dlr_rankmap *map, unsigned node,
                     const struct dlr_rankmap_claim *claims, unsigned n, bool lost)
{
    struct dlr_rankmap_claim *copy;

    if (node >= map->nnodes || n > WORLD_MAX)
        return -EINVAL;
    for (unsigned i = 0; i < n; i++)
        if (claims[i].world > WORLD_MAX || claims[i].rank >= claims[i].world)
            return -EINVAL;
    copy = calloc(n + 1, sizeof(*copy));
    if (!copy)
        return -ENOMEM;
    if (n)
        memcpy(copy, claims, n * sizeof(*copy));
    free(map->words[node].claims);
    map->words[node] = (struct word){copy, n, lost, false};
    return 0;
}

void dlr_rankmap_await(struct dlr_rankmap *map, unsigned node)
{
    if (node < map->nnodes)
        map->words[node].awaited = true;
}

bool dlr_rankmap_waits(const struct dlr_rankmap *map)
{
    for (unsigned i = 0; i < map->nnodes; i++)
        for (unsigned k = 0; k < map->words[i].n; k++)
            if (!map->words[i].claims[k].served)
                return true;
    return false;
}

__attribute__((format(printf, 2, 3))) static void add(char why[DLR_RANKMAP_TEXT],
                                                      const char *fmt, ...)
{
    size_t at = strlen(why);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why + at, DLR_RANKMAP_TEXT - at, fmt, ap);
    va_end(ap);
}

/* Processes of a start of the program that has ended in part do not count. */
static bool any_lost(const struct dlr_rankmap *map)
{
    for (unsigned i = 0; i < map->nnodes; i++)
        if (map->words[i].lost)
            return true;
    return false;
}

/* The number of ranks that all name, 0: they differ, which why says, or there are none.
 */
static unsigned common_world(const struct dlr_rankmap *map, bool lost,
                             const char *const *names, char why[DLR_RANKMAP_TEXT])
{
    unsigned world = 0, at = 0;

    for (unsigned i = 0; i < map->nnodes; i++)
        for (unsigned k = 0; k < map->words[i].n; k++) {
            const struct dlr_rankmap_claim *c = &map->words[i].claims[k];

            if (lost && c->served)
                continue;
            if (world && world != c->world) {
                add(why,
                    "on node %s a process says that it is one of %u ranks, on node %s "
                    "one "
                    "of %u",
                    names[at], world, names[i], c->world);
                return 0;
            }
            world = c->world;
            at = i;
        }
    return world;
}

/* "2-5, 9 and more" of the ranks that nobody claims; how many they are. */
static unsigned list_missing(const unsigned *nodes, unsigned world, char *text,
                             size_t size)
{
    unsigned missing = 0, runs = 0;
    size_t at = 0;

    text[0] = '\0';
    for (unsigned r = 0, end; r < world; r = end) {
        for (end = r + 1;
             end < world && (nodes[end] == NOBODY) == (nodes[r] == NOBODY);)
            end++;
        if (nodes[r] != NOBODY)
            continue;
        missing += end - r;
        if (++runs > NAMED_MAX + 1)
            continue;
        if (runs > NAMED_MAX)
            at += snprintf(text + at, size - at, " and more");
        else if (end - r > 1)
            at += snprintf(text + at, size - at, "%s%u-%u", runs > 1 ? ", " : "", r,
                           end - 1);
        else
            at += snprintf(text + at, size - at, "%s%u", runs > 1 ? ", " : "", r);
    }
    return missing;
}

struct pass {
    unsigned *nodes; /* [world] */
    unsigned old;    /* claims of a former start, which do not count */
    bool twice;
    unsigned rank, one, other; /* the first that is there twice, and where */
};

static void place(const struct dlr_rankmap *map, bool lost, struct pass *p)
{
    for (unsigned i = 0; i < map->nnodes; i++)
        for (unsigned k = 0; k < map->words[i].n; k++) {
            const struct dlr_rankmap_claim *c = &map->words[i].claims[k];

            if (lost && c->served) {
                p->old++;
                continue;
            }
            if (p->nodes[c->rank] != NOBODY && !p->twice) {
                p->twice = true;
                p->rank = c->rank;
                p->one = p->nodes[c->rank];
                p->other = i;
            }
            p->nodes[c->rank] = i;
        }
}

/* The first node that has yet to speak, nnodes: none. */
static unsigned first_awaited(const struct dlr_rankmap *map)
{
    unsigned i = 0;

    while (i < map->nnodes && !map->words[i].awaited)
        i++;
    return i;
}

int dlr_rankmap_look(const struct dlr_rankmap *map, const char *const *names,
                     unsigned **ret_nodes, unsigned *ret_world,
                     char why[DLR_RANKMAP_TEXT])
{
    bool lost = any_lost(map);
    unsigned silent = first_awaited(map);
    unsigned world = (why[0] = '\0', common_world(map, lost, names, why)), missing;
    DLR_AUTO_FREE unsigned *nodes = NULL;
    char list[200];
    struct pass p = {0};

    if (!world)
        return DLR_RANKMAP_OPEN;
    nodes = malloc(world * sizeof(*nodes));
    if (!nodes)
        return -ENOMEM;
    for (unsigned r = 0; r < world; r++)
        nodes[r] = NOBODY;
    p.nodes = nodes;
    place(map, lost, &p);
    missing = list_missing(nodes, world, list, sizeof(list));
    if (missing)
        add(why, "%u of %u ranks have not opened their checkpoint: rank%s %s", missing,
            world, missing > 1 ? "s" : "", list);
    else if (p.old)
        add(why,
            "%u processes of a former start of the program have their checkpoint open "
            "still",
            p.old);
    else if (silent < map->nnodes)
        add(why, "node %s has not said which ranks it has", names[silent]);
    if (p.twice)
        add(why, "%srank %u of %u is there twice, on node %s and on node %s",
            why[0] ? "; " : "", p.rank, world, names[p.one], names[p.other]);
    if (why[0])
        return !missing && p.twice ? DLR_RANKMAP_TORN : DLR_RANKMAP_OPEN;
    *ret_nodes = DLR_STEAL(nodes);
    *ret_world = world;
    return DLR_RANKMAP_WHOLE;
}
