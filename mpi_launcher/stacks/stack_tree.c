/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/stacks/stack_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/hash.h"
#include "common/base/str.h"

/* Texts are what is printed; ranges of ragged sets are cut there, and may be more. */
#define RANGES_PER_BYTE 4

struct node {
    struct dlr_stack_node public;
    unsigned depth;
};

struct dlr_stack_tree {
    struct node *nodes;
    size_t n, room;
    int *slots; /* a hash table of nodes by parent and frame, -1: free */
    size_t nslots;
    size_t bytes, max_bytes;
    size_t nranges; /* of all sets of ranks */
    uint64_t lost;
};

struct dlr_stack_tree *dlr_stack_tree_new(size_t max_bytes)
{
    struct dlr_stack_tree *tree = calloc(1, sizeof(*tree));

    if (tree)
        tree->max_bytes = max_bytes;
    return tree;
}

struct dlr_stack_tree *dlr_stack_tree_free(struct dlr_stack_tree *tree)
{
    if (!tree)
        return NULL;
    for (size_t i = 0; i < tree->n; i++) {
        free((char *)tree->nodes[i].public.frame);
        dlr_rank_set_done(&tree->nodes[i].public.ranks);
    }
    free(tree->nodes);
    free(tree->slots);
    free(tree);
    return NULL;
}

/* Where the node stands in the table, or the free place for it. */
static size_t slot_of(const struct dlr_stack_tree *tree, int parent, const char *frame)
{
    size_t mask = tree->nslots - 1;
    size_t at =
        (dlr_hash(frame, strlen(frame)) ^ (uint32_t)parent * 2654435761u) & mask;

    while (tree->slots[at] >= 0) {
        const struct dlr_stack_node *node = &tree->nodes[tree->slots[at]].public;

        if (node->parent == parent && dlr_streq(node->frame, frame))
            break;
        at = (at + 1) & mask;
    }
    return at;
}

/* Room for one more node, and a table that is at most half full. */
static int grow(struct dlr_stack_tree *tree)
{
    size_t room = tree->room ? 2 * tree->room : 64;
    struct node *nodes;
    int *slots;

    if (tree->n < tree->room)
        return 0;
    nodes = reallocarray(tree->nodes, room, sizeof(*nodes));
    if (!nodes)
        return -ENOMEM;
    tree->nodes = nodes;
    slots = reallocarray(tree->slots, 2 * room, sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    tree->slots = slots;
    tree->room = room;
    tree->nslots = 2 * room;
    memset(slots, 0xff, tree->nslots * sizeof(*slots));
    for (size_t i = 0; i < tree->n; i++) {
        const struct dlr_stack_node *node = &tree->nodes[i].public;

        slots[slot_of(tree, node->parent, node->frame)] = (int)i;
    }
    return 0;
}

static void plain(const char *frame, char text[DLR_STACK_FRAME])
{
    size_t len = strnlen(frame, DLR_STACK_FRAME - 1);

    memcpy(text, frame, len);
    text[len] = '\0';
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}

static int lose(struct dlr_stack_tree *tree)
{
    tree->lost++;
    return -ENOSPC;
}

static int new_node(struct dlr_stack_tree *tree, int parent, const char *text,
                    unsigned depth)
{
    size_t bytes = sizeof(struct node) + strlen(text) + 1;
    struct node *node;
    char *frame;

    if (depth > DLR_STACK_DEPTH || tree->bytes + bytes > tree->max_bytes)
        return lose(tree);
    frame = grow(tree) == 0 ? strdup(text) : NULL;
    if (!frame)
        return -ENOMEM;
    node = &tree->nodes[tree->n];
    *node = (struct node){.public = {.parent = parent, .frame = frame}, .depth = depth};
    tree->slots[slot_of(tree, parent, text)] = (int)tree->n;
    tree->bytes += bytes;
    return (int)tree->n++;
}

int dlr_stack_tree_put(struct dlr_stack_tree *tree, int parent, const char *frame,
                       const struct dlr_rank_set *ranks, uint64_t threads,
                       int *ret_node)
{
    unsigned depth = parent < 0 ? 1 : tree->nodes[parent].depth + 1;
    char text[DLR_STACK_FRAME];
    struct dlr_stack_node *node;
    int id = -1;
    size_t before;

    plain(frame, text);
    if (tree->n)
        id = tree->slots[slot_of(tree, parent, text)];
    if (id < 0)
        id = new_node(tree, parent, text, depth);
    if (id < 0)
        return id;
    node = &tree->nodes[id].public;
    before = node->ranks.n;
    if (tree->nranges + ranks->n > RANGES_PER_BYTE * tree->max_bytes)
        return lose(tree);
    if (dlr_rank_set_add_all(&node->ranks, ranks) < 0)
        return -ENOMEM;
    tree->nranges += node->ranks.n - before;
    node->threads += threads;
    *ret_node = id;
    return 0;
}

int dlr_stack_tree_add(struct dlr_stack_tree *tree, const char *const frames[],
                       size_t n, uint32_t rank)
{
    struct dlr_rank_range one = {rank, rank};
    const struct dlr_rank_set ranks = {.ranges = &one, .n = 1};
    int at = DLR_STACK_ROOT, rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = dlr_stack_tree_put(tree, at, frames[i], &ranks, 1, &at);
    return rc == -ENOSPC ? 0 : rc;
}

size_t dlr_stack_tree_count(const struct dlr_stack_tree *tree)
{
    return tree->n;
}

const struct dlr_stack_node *dlr_stack_tree_node(const struct dlr_stack_tree *tree,
                                                 size_t i)
{
    return &tree->nodes[i].public;
}

uint64_t dlr_stack_tree_lost(const struct dlr_stack_tree *tree)
{
    return tree->lost;
}
