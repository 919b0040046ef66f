/* SPDX-License-Identifier: Apache-2.0 */
/* The tree as people read it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "mpi_launcher/stacks/stack_tree.h"

#define RANKS_TEXT 160
#define INDENT_MAX 40 /* columns */

/* What is printed, and the children of each node: kids[first[i]] up to first[i + 1], of
 * the root those of first[count].
 */
struct printer {
    const struct dlr_stack_tree *tree;
    FILE *out;
    size_t *first;
    struct kid {
        size_t node, ranks;
        uint32_t first; /* of the ranks */
    } * kids;
};

static int by_ranks(const void *a, const void *b)
{
    const struct kid *x = a, *y = b;

    if (x->ranks != y->ranks)
        return x->ranks < y->ranks ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static size_t place_of(const struct dlr_stack_tree *tree, size_t i)
{
    int parent = dlr_stack_tree_node(tree, i)->parent;

    return parent < 0 ? dlr_stack_tree_count(tree) : (size_t)parent;
}

static int sort_kids(struct printer *p)
{
    size_t n = dlr_stack_tree_count(p->tree);
    DLR_AUTO_FREE size_t *next = calloc(n + 2, sizeof(*next));

    p->first = calloc(n + 2, sizeof(*p->first));
    p->kids = calloc(n + 1, sizeof(*p->kids));
    if (!next || !p->first || !p->kids)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        p->first[place_of(p->tree, i) + 1]++;
    for (size_t i = 1; i < n + 2; i++)
        p->first[i] += p->first[i - 1];
    memcpy(next, p->first, (n + 2) * sizeof(*next));
    for (size_t i = 0; i < n; i++) {
        const struct dlr_rank_set *ranks = &dlr_stack_tree_node(p->tree, i)->ranks;

        p->kids[next[place_of(p->tree, i)]++] =
            (struct kid){.node = i,
                         .ranks = dlr_rank_set_count(ranks),
                         .first = ranks->n ? ranks->ranges[0].first : 0};
    }
    for (size_t i = 0; i <= n; i++)
        qsort(p->kids + p->first[i], p->first[i + 1] - p->first[i], sizeof(*p->kids),
              by_ranks);
    return 0;
}

static void print_who(const struct printer *p, const struct dlr_stack_node *node,
                      int indent)
{
    char ranks[RANKS_TEXT];
    size_t count = dlr_rank_set_count(&node->ranks);
    bool whole = dlr_rank_set_text(&node->ranks, ranks, sizeof(ranks));

    fprintf(p->out, "%*srank%s %s", indent, "", count == 1 ? "" : "s", ranks);
    if (!whole)
        fprintf(p->out, " (%zu)", count);
    if (node->threads != count)
        fprintf(p->out, ", %llu threads", (unsigned long long)node->threads);
    fputc('\n', p->out);
}

static bool same(const struct dlr_stack_node *a, const struct dlr_stack_node *b)
{
    return a->threads == b->threads && dlr_rank_set_equal(&a->ranks, &b->ranks);
}

static void print_kids(const struct printer *p, size_t place, int indent);

/* A branch: who is in it, then its frames until some of them go another way. */
static void print_branch(const struct printer *p, size_t i, int indent)
{
    const struct dlr_stack_node *node = dlr_stack_tree_node(p->tree, i);
    int inner = indent + 2 > INDENT_MAX ? INDENT_MAX : indent + 2;

    print_who(p, node, indent);
    for (;;) {
        const struct dlr_stack_node *kid;

        fprintf(p->out, "%*s%s\n", inner, "", node->frame);
        if (p->first[i + 1] - p->first[i] != 1)
            break;
        kid = dlr_stack_tree_node(p->tree, p->kids[p->first[i]].node);
        if (!same(node, kid))
            break;
        i = p->kids[p->first[i]].node;
        node = kid;
    }
    print_kids(p, i, inner);
}

static void print_kids(const struct printer *p, size_t place, int indent)
{
    for (size_t i = p->first[place]; i < p->first[place + 1]; i++)
        print_branch(p, p->kids[i].node, indent);
}

int dlr_stack_tree_print(const struct dlr_stack_tree *tree, FILE *out)
{
    struct printer p = {.tree = tree, .out = out};
    int rc = sort_kids(&p);

    if (rc == 0)
        print_kids(&p, dlr_stack_tree_count(tree), 0);
    if (rc == 0 && dlr_stack_tree_lost(tree))
        fprintf(out, "%llu frames more than fit are left out\n",
                (unsigned long long)dlr_stack_tree_lost(tree));
    free(p.first);
    free(p.kids);
    return rc;
}
