/* SPDX-License-Identifier: Apache-2.0 */
/* The tree that dlrover topo shows, and how it looks: text, JSON, a graph, a picture. */
#ifndef DLR_MPI_LAUNCHER_CLI_TOPO_TREE_H
#define DLR_MPI_LAUNCHER_CLI_TOPO_TREE_H

#include <jansson.h>
#include <stdio.h>

#include "hwloc_topo/topo.h"

/* What a node does in a job; all texts are borrowed, "" where there is nothing to say. */
struct dlr_cli_seat {
    const char *role;    /* "training", "spare" ..., as in the journal */
    const char *ranks;   /* "0-3,8" */
    const char *partner; /* who keeps its copies */
    const char *reason;  /* why it has no place */
};

struct dlr_cli_links { /* those of a node that were measured */
    unsigned n;
    double least, most;       /* MB/s, of the slower direction of each */
    char peer[DLR_TOPO_NAME]; /* where the slowest leads */
};

struct dlr_cli_box { /* a switch, a domain or a node */
    const char *label;
    size_t nlabel;
    int node;              /* index, -1: it is none */
    int first, last, next; /* children and sibling in boxes, -1: none */
    double x, y, w, h;     /* of the picture */
};

struct dlr_cli_topo {
    const struct dlr_topo_node *nodes;
    const struct dlr_cli_seat *seats;  /* [n], or NULL: there is no job */
    const struct dlr_cli_links *links; /* [n], or NULL: none was measured */
    size_t n;
    const char *title, *source, *note; /* lines above; source and note may be "" */
    struct dlr_cli_box *box;           /* [nboxes], 0 is what is above all */
    size_t nboxes;
    unsigned leaves; /* switches that nodes hang on */
};

/* Makes the boxes; nodes stand as rank order has them. -ENOMEM. */
int dlr_cli_topo_make(struct dlr_cli_topo *t);
void dlr_cli_topo_done(struct dlr_cli_topo *t);

void dlr_cli_topo_text(const struct dlr_cli_topo *t, FILE *out);
void dlr_cli_topo_dot(const struct dlr_cli_topo *t, FILE *out);
void dlr_cli_topo_svg(struct dlr_cli_topo *t, FILE *out);
json_t *dlr_cli_topo_json(const struct dlr_cli_topo *t); /* NULL: out of memory */

#endif
