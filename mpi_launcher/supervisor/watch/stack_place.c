/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/supervisor/watch/stack_place.h"

#include <stdio.h>
#include <string.h>

#include "common/base/str.h"

#define WHAT_MAX 80 /* letters of what it waits in, and of its frame */

static const struct dlr_stack_node *above(const struct dlr_stack_tree *tree,
                                          const struct dlr_stack_node *node)
{
    return node->parent < 0 ? NULL : dlr_stack_tree_node(tree, (size_t)node->parent);
}

static bool is_python(const char *frame)
{
    return strstr(frame, ".py:");
}

/* Of the system's libraries: a call that waits, and what is around it. */
static bool is_library(const char *frame)
{
    return strstr(frame, "(libc.so") || strstr(frame, "(libc-") ||
           strstr(frame, "(ld-") || strstr(frame, "(libpthread");
}

/* The innermost frame that says most of the program. */
static const char *frame_of(const struct dlr_stack_tree *tree,
                            const struct dlr_stack_node *leaf)
{
    const char *own = NULL, *any = NULL;

    for (const struct dlr_stack_node *n = above(tree, leaf); n; n = above(tree, n)) {
        if (n->parent < 0)
            break; /* the program's name */
        if (is_python(n->frame))
            return n->frame;
        own = own || is_library(n->frame) ? own : n->frame;
        any = any ? any : n->frame;
    }
    return own ? own : any;
}

/* How much a leaf tells of its rank: the first thread, Python, and no shell that waits
 * for its child.
 */
static int worth(const struct dlr_stack_tree *tree, const struct dlr_stack_node *leaf)
{
    const struct dlr_stack_node *second = leaf;
    const char *frame = frame_of(tree, leaf);

    for (const struct dlr_stack_node *n = above(tree, leaf); n && n->parent >= 0;
         n = above(tree, n))
        second = n;
    return 4 * !dlr_after(second->frame, "thread '") +
           2 * !dlr_after(leaf->frame, "[wait") + (frame && is_python(frame));
}

static const struct dlr_stack_node *leaf_of(const struct dlr_stack_tree *tree,
                                            uint32_t rank)
{
    const struct dlr_stack_node *best = NULL;

    for (size_t i = 0; i < dlr_stack_tree_count(tree); i++) {
        const struct dlr_stack_node *node = dlr_stack_tree_node(tree, i);

        if (node->parent >= 0 && node->frame[0] == '[' &&
            dlr_rank_set_has(&node->ranks, rank) &&
            (!best || worth(tree, node) > worth(tree, best)))
            best = node;
    }
    return best;
}

void dlr_stack_place(const struct dlr_stack_tree *tree, uint32_t rank, bool one,
                     char *buf, size_t size)
{
    const struct dlr_stack_node *leaf = leaf_of(tree, rank);
    const char *frame = leaf ? frame_of(tree, leaf) : NULL;
    char who[24] = "it", what[WHAT_MAX + 2] = "";

    buf[0] = '\0';
    if (!leaf)
        return;
    if (!one)
        snprintf(who, sizeof(who), "rank %u", rank);
    if (dlr_after(leaf->frame, "[runs"))
        snprintf(what, sizeof(what), "runs%s", frame ? " in " : "");
    else if (dlr_after(leaf->frame, "[stopped") && frame)
        snprintf(what, sizeof(what), "is in ");
    else
        snprintf(what, sizeof(what), "is in %.*s%s", (int)strcspn(leaf->frame + 1, "]"),
                 leaf->frame + 1, frame ? ", " : "");
    snprintf(buf, size, "; %s %s%.*s", who, what, WHAT_MAX, frame ? frame : "");
}
