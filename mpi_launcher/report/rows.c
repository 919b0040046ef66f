/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes as rows of a picture and of a table: one each, or one for a leaf of them. */
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/report/model.h"

struct key {
    int64_t rank; /* its first; beyond all ranks when it does not train */
    size_t node;
};

static int by_rank(const void *a, const void *b)
{
    const struct key *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

/* The places of all nodes, in the order of their ranks; the caller's. */
static struct key *sort_nodes(const struct dlr_report *r)
{
    struct key *keys = calloc(r->nnodes + 1, sizeof(*keys));

    for (size_t i = 0; keys && i < r->nnodes; i++) {
        const struct dlr_cli_node *seat = dlr_report_seat(r, r->nodes[i].name);

        keys[i].node = i;
        keys[i].rank = seat && seat->role == DLR_CLI_TRAINING ? seat->first : INT64_MAX;
    }
    if (keys)
        qsort(keys, r->nnodes, sizeof(*keys), by_rank);
    return keys;
}

static void add_to(struct dlr_report_row *row, size_t node)
{
    size_t *more = row->nodes;

    if ((row->n & (row->n - 1)) == 0)
        more = realloc(row->nodes, (row->n ? 2 * row->n : 1) * sizeof(*more));
    if (!more)
        return;
    row->nodes = more;
    row->nodes[row->n++] = node;
}

/* Leaves beyond the last row that there may be share rows with their neighbours. */
static size_t row_of(struct dlr_report_rows *rows, json_t *leaves, const char *leaf)
{
    const json_t *at = json_object_get(leaves, leaf);
    size_t n = json_object_size(leaves);

    if (at)
        return (size_t)json_integer_value(at);
    if (n >= DLR_REPORT_ROWS)
        n = n % DLR_REPORT_ROWS;
    json_object_set_new(leaves, leaf, json_integer((json_int_t)n));
    if (n == rows->n)
        rows->list[rows->n++].name = leaf;
    else
        rows->list[n].name = "several leaves";
    return n;
}

void dlr_report_rows_init(const struct dlr_report *r, struct dlr_report_rows *ret)
{
    DLR_AUTO_FREE struct key *keys = sort_nodes(r);
    json_t *leaves = json_object();

    *ret = (struct dlr_report_rows){.leaves = r->nnodes > DLR_REPORT_ROWS};
    ret->list = calloc(DLR_REPORT_ROWS, sizeof(*ret->list));
    for (size_t i = 0; keys && leaves && ret->list && i < r->nnodes; i++) {
        const struct dlr_report_node *n = &r->nodes[keys[i].node];
        size_t at = ret->n;

        if (ret->leaves)
            at = row_of(ret, leaves, n->leaf ? n->leaf : "no leaf switch known");
        else
            ret->list[ret->n++].name = n->name;
        add_to(&ret->list[at], keys[i].node);
    }
    json_decref(leaves);
}

void dlr_report_rows_done(struct dlr_report_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        free(rows->list[i].nodes);
    free(rows->list);
    *rows = (struct dlr_report_rows){0};
}
