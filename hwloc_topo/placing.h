/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of a described network share: the nodes that are looked for, and what
 * is odd about the text. Private.
 */
#ifndef DLR_HWLOC_TOPO_PLACING_H
#define DLR_HWLOC_TOPO_PLACING_H

#include "hwloc_topo/names.h"
#include "hwloc_topo/networks.h"

#define DLR_TOPO_NOWHERE (-1)

struct dlr_topo_placing {
    struct dlr_topo_node *nodes; /* [n] their paths begin as their names */
    size_t n;
    unsigned *by_name; /* [n] indices into nodes, by the bytes of names */
    int *at;           /* [n] where a reader has put it, its own number; NOWHERE */
    char note[DLR_TOPO_NOTE]; /* the first that was odd */
    unsigned more;            /* odd ones after it */
};

/* Makes nodes' paths bare. 0, -ENOMEM; done() in every case. */
int dlr_topo_placing_init(struct dlr_topo_placing *p, struct dlr_topo_node *nodes,
                          size_t n);
void dlr_topo_placing_done(struct dlr_topo_placing *p);

/* Index of the node with this name, or -1: nobody asked about it. */
long dlr_topo_placing_find(const struct dlr_topo_placing *p, const char *name);

/* Puts a switch above all that the path has. -EBADMSG: it becomes too long. */
int dlr_topo_put_above(struct dlr_topo_node *node, const char *name);

/* The name as a component of a path: neither '.' nor anything that does not print, and
 * no domain. -EBADMSG: empty or too long.
 */
int dlr_topo_component(const char *name, size_t size, char *ret /* DLR_TOPO_NAME */);

__attribute__((format(printf, 2, 3))) void dlr_topo_odd(struct dlr_topo_placing *p,
                                                        const char *format, ...);

#endif
