/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of stacks as lines of JSON, as a node sends it:
 * docs/stacks.md. No line is longer than DLR_STACK_ROW, so that srun does not mix those
 * of several nodes.
 */
#ifndef DLR_MPI_LAUNCHER_STACKS_STACK_ROWS_H
#define DLR_MPI_LAUNCHER_STACKS_STACK_ROWS_H

#include <jansson.h>

#include "mpi_launcher/stacks/stack_tree.h"

#define DLR_STACK_ROW 1000 /* bytes, the end of the line included */
#define DLR_STACK_NOTES 64 /* that are kept of one node */

/* Prints one line for each node of the tree: [id, parent, frame, ranks, threads]. */
void dlr_stack_rows_write(const struct dlr_stack_tree *tree, FILE *out);
/* Prints a line {"note": text}: what could not be read, and why. */
void dlr_stack_rows_note(FILE *out, const char *text);
/* Prints the line that says that all was said. */
void dlr_stack_rows_end(FILE *out, const char *node);

/* Reads the lines of one node into a tree of all. */
struct dlr_stack_reader {
    struct dlr_stack_tree *tree;
    int *ids; /* of its rows in the tree, -1: lost */
    size_t n, room;
    bool ended;
    char node[64]; /* its name, "" until it ended */
    json_t *notes; /* an array of texts */
    uint64_t bad;  /* lines that were none of these */
};

void dlr_stack_reader_init(struct dlr_stack_reader *r, struct dlr_stack_tree *tree);
void dlr_stack_reader_done(struct dlr_stack_reader *r);
/* Takes a line; one that is wrong is counted. 0 or -ENOMEM.
 * Foreign bytes: fuzz target stacks.
 */
int dlr_stack_reader_take(struct dlr_stack_reader *r, const char *line, size_t size);

#endif
