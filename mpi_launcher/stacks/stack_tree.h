/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of many threads and ranks as one tree: what begins in the same way is one
 * branch, with the ranks that are in it. Pure.
 */
#ifndef DLR_MPI_LAUNCHER_STACKS_STACK_TREE_H
#define DLR_MPI_LAUNCHER_STACKS_STACK_TREE_H

#include <stdint.h>
#include <stdio.h>

#include "mpi_launcher/stacks/rank_set.h"

#define DLR_STACK_FRAME 256        /* bytes of a frame's text, NUL included */
#define DLR_STACK_BYTES (1u << 20) /* of a tree, unless said otherwise */
#define DLR_STACK_DEPTH 600        /* frames from the root down */
#define DLR_STACK_ROOT (-1)        /* the parent of what stands at the top */

struct dlr_stack_tree;

/* An empty tree that holds at most max_bytes of frames, and four ranges of ranks for
 * each; NULL without memory.
 */
struct dlr_stack_tree *dlr_stack_tree_new(size_t max_bytes);
struct dlr_stack_tree *dlr_stack_tree_free(struct dlr_stack_tree *tree);

/* So many threads of these ranks are in frame, called by parent (a node or
 * DLR_STACK_ROOT). What is not printable in the text becomes '?'. *ret_node is the node
 * to hang what it calls on. -ENOSPC when the tree is full or too deep, which it counts;
 * -ENOMEM.
 */
int dlr_stack_tree_put(struct dlr_stack_tree *tree, int parent, const char *frame,
                       const struct dlr_rank_set *ranks, uint64_t threads,
                       int *ret_node);

/* The same for a whole stack, the outermost frame first; what does not fit is left out
 * at the inner end. 0 or -ENOMEM.
 */
int dlr_stack_tree_add(struct dlr_stack_tree *tree, const char *const frames[],
                       size_t n, uint32_t rank);

struct dlr_stack_node {
    int parent;
    const char *frame;
    struct dlr_rank_set ranks;
    uint64_t threads;
};

/* Node i < count, parents before children. The tree owns it until it changes. */
size_t dlr_stack_tree_count(const struct dlr_stack_tree *tree);
const struct dlr_stack_node *dlr_stack_tree_node(const struct dlr_stack_tree *tree,
                                                 size_t i);
/* How often something did not fit. */
uint64_t dlr_stack_tree_lost(const struct dlr_stack_tree *tree);

/* Prints the tree for people, the branches with the fewest ranks first. 0 or -ENOMEM.
 */
int dlr_stack_tree_print(const struct dlr_stack_tree *tree, FILE *out);

#endif
