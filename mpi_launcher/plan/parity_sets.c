/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/plan/parity_sets.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"

static unsigned size_of(const struct dlr_parity_sets *s, unsigned set)
{
    return (s->nplaces - set + s->nsets - 1) / s->nsets;
}

int dlr_parity_sets_init(struct dlr_parity_sets *sets, unsigned nplaces,
                         const unsigned *tasks, const unsigned *ranks, unsigned members,
                         unsigned rows)
{
    memset(sets, 0, sizeof(*sets));
    if (!members || members > DLR_PARITY_DATA_MAX || !rows ||
        rows > DLR_PARITY_ROWS_MAX || nplaces <= rows)
        return -EINVAL;
    sets->nplaces = nplaces;
    sets->rows = rows;
    sets->first = calloc(nplaces + 1, sizeof(*sets->first));
    if (!sets->first)
        return -ENOMEM;
    for (unsigned p = 0; p < nplaces; p++)
        sets->first[p + 1] = sets->first[p] + tasks[p];
    sets->world = sets->first[nplaces];
    sets->ranks = calloc(sets->world + 1, sizeof(*sets->ranks));
    sets->at = calloc(sets->world + 1, sizeof(*sets->at));
    if (!sets->ranks || !sets->at) {
        dlr_parity_sets_done(sets);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < sets->world; i++) {
        sets->ranks[i] = ranks ? ranks[i] : i;
        sets->at[sets->ranks[i]] = i;
    }
    sets->nsets = 1;
    while (size_of(sets, 0) > members || nplaces - size_of(sets, 0) < rows)
        sets->nsets++;
    return 0;
}

void dlr_parity_sets_done(struct dlr_parity_sets *sets)
{
    free(sets->first);
    free(sets->ranks);
    free(sets->at);
    sets->first = sets->ranks = sets->at = NULL;
}

static unsigned place_of(const struct dlr_parity_sets *s, unsigned index)
{
    unsigned low = 0, high = s->nplaces - 1;

    while (low < high) {
        unsigned mid = (low + high + 1) / 2;

        if (s->first[mid] <= index)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

unsigned dlr_parity_sets_group(const struct dlr_parity_sets *sets, unsigned rank,
                               unsigned ret_ranks[DLR_PARITY_DATA_MAX])
{
    unsigned place = place_of(sets, sets->at[rank]);
    unsigned at = sets->at[rank] - sets->first[place], n = 0;

    for (unsigned p = place % sets->nsets; p < sets->nplaces; p += sets->nsets)
        if (sets->first[p] + at < sets->first[p + 1])
            ret_ranks[n++] = sets->ranks[sets->first[p] + at];
    return n;
}

unsigned dlr_parity_sets_shard(const struct dlr_parity_sets *sets,
                               unsigned first_of_group, unsigned row)
{
    return (1 + row) * sets->world + first_of_group;
}

/* --- who holds what --------------------------------------------------------------- */

struct dlr_topo_sets dlr_parity_sets_places(const struct dlr_parity_sets *sets,
                                            const struct dlr_topo_node *nodes)
{
    return (struct dlr_topo_sets){nodes, NULL, sets->nplaces, sets->nsets, sets->rows};
}

int dlr_parity_sets_holders(const struct dlr_parity_sets *sets,
                            const struct dlr_topo_node *nodes, unsigned *ret_holder)
{
    const struct dlr_topo_sets places = dlr_parity_sets_places(sets, nodes);
    DLR_AUTO_FREE unsigned *holder =
        calloc((size_t)sets->nsets * sets->rows + 1, sizeof(*holder));
    int rc = holder ? dlr_topo_holders(&places, holder) : -ENOMEM;

    for (size_t p = 0; rc == 0 && p < sets->nplaces; p++)
        memcpy(ret_holder + p * sets->rows, holder + p % sets->nsets * sets->rows,
               sets->rows * sizeof(*holder));
    return rc;
}

/* --- what is made of what --------------------------------------------------------- */

static int write_terms(const unsigned *slot, const unsigned char *coef, unsigned n,
                       char *buf, size_t size)
{
    size_t used = 0;

    for (unsigned i = 0; i < n; i++) {
        int rc = dlr_format(buf + used, size - used, "%s%u*%u", i ? " " : "", slot[i],
                            coef[i]);

        if (rc < 0)
            return rc;
        used += strlen(buf + used);
    }
    return 0;
}

int dlr_parity_sets_parity_terms(const struct dlr_parity_sets *sets, unsigned rank,
                                 unsigned row, char *buf, size_t size)
{
    unsigned ranks[DLR_PARITY_DATA_MAX], n = dlr_parity_sets_group(sets, rank, ranks);
    unsigned char coef[DLR_PARITY_DATA_MAX];
    int rc = dlr_parity_row(n, sets->rows, n + row, coef);

    return rc < 0 ? rc : write_terms(ranks, coef, n, buf, size);
}

/* The number in the code of what is in that slot. */
static unsigned shard_of(const struct dlr_parity_sets *sets, const unsigned *ranks,
                         unsigned n, unsigned slot)
{
    if (slot >= sets->world)
        return n + slot / sets->world - 1;
    for (unsigned i = 0; i < n; i++)
        if (ranks[i] == slot)
            return i;
    return DLR_PARITY_DATA_MAX + DLR_PARITY_ROWS_MAX;
}

int dlr_parity_sets_rebuild_terms(const struct dlr_parity_sets *sets, unsigned lost,
                                  const unsigned *have, char *buf, size_t size)
{
    unsigned ranks[DLR_PARITY_DATA_MAX], n = dlr_parity_sets_group(sets, lost, ranks);
    unsigned char coef[DLR_PARITY_DATA_MAX];
    unsigned shard[DLR_PARITY_DATA_MAX];
    int rc;

    for (unsigned i = 0; i < n; i++)
        shard[i] = shard_of(sets, ranks, n, have[i]);
    rc = dlr_parity_rebuild(n, sets->rows, shard_of(sets, ranks, n, lost), shard, coef);
    return rc < 0 ? rc : write_terms(have, coef, n, buf, size);
}

int dlr_parity_sets_sources(const struct dlr_parity_sets *sets, unsigned lost,
                            dlr_parity_sets_node_fn *node_of, void *arg, char *buf,
                            size_t size)
{
    unsigned ranks[DLR_PARITY_DATA_MAX], n = dlr_parity_sets_group(sets, lost, ranks);
    unsigned found = 0;
    size_t used = 0;

    for (unsigned i = 0; i < n + sets->rows && found < n; i++) {
        unsigned slot = i < n ? ranks[i] : dlr_parity_sets_shard(sets, ranks[0], i - n);
        const char *node = slot == lost ? NULL : node_of(arg, slot);
        int rc;

        if (!node)
            continue;
        rc = dlr_format(buf + used, size - used, "%s%u@%s", found ? " " : "", slot,
                        node);
        if (rc < 0)
            return rc;
        used += strlen(buf + used);
        found++;
    }
    return found == n ? 0 : -ENOENT;
}

unsigned dlr_parity_sets_read_sources(const char *text,
                                      unsigned ret_slot[DLR_PARITY_DATA_MAX],
                                      char ret_node[DLR_PARITY_DATA_MAX][DLR_TOPO_NAME])
{
    unsigned n = 0;
    int used;

    static_assert(DLR_TOPO_NAME == 256, "the width of a name below");
    while (n < DLR_PARITY_DATA_MAX &&
           sscanf(text, "%u@%255[^ ]%n", &ret_slot[n], ret_node[n], &used) == 2) {
        n++;
        text += used + (text[used] == ' ');
    }
    return n;
}

unsigned dlr_parity_sets_maker(const struct dlr_parity_sets *sets, unsigned rank,
                               unsigned n, dlr_parity_sets_lost_fn *is_lost, void *arg)
{
    unsigned ranks[DLR_PARITY_DATA_MAX], k = 0;
    unsigned members = dlr_parity_sets_group(sets, rank, ranks);

    for (unsigned i = 0; i < members && ranks[i] != rank; i++)
        k += is_lost(arg, ranks[i]);
    return n == members && k < n ? k : n;
}
