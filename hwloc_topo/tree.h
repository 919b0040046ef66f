/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of a described network share: the nodes that are looked for, and what
 * is odd about the text. Private.
 */
#ifndef DLR_HWLOC_TOPO_TREE_H
#define DLR_HWLOC_TOPO_TREE_H

#include <stdbool.h>

#include "hwloc_topo/names.h"
#include "hwloc_topo/topo.h"

#define DLR_TOPO_NOWHERE (-1)

struct dlr_topo_placing {
    struct dlr_topo_node *nodes; /* [n] their paths begin as their names */
    size_t n;
    unsigned *by_name; /* [n] indices into nodes, by the bytes of names */
    int *at;           /* [n] where a reader has put it, its own number; NOWHERE */
    char note[DLR_TOPO_NOTE]; /* the first that was odd */
    unsigned more;            /* odd ones after it */
};

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

/* Lines of topology.conf or of `scontrol show topology`; the text is changed. */
int dlr_topo_slurm_place(char *text, struct dlr_topo_placing *p, struct dlr_err *err);
int dlr_topo_slurm_names(char *text, dlr_topo_name_fn fn, void *arg,
                         struct dlr_err *err);

/* The output of ibnetdiscover. The levels of a fabric that is no tree: a switch with
 * hosts is a leaf, of level 0; another one is a level above the lowest that it is linked
 * to. What links of switches up to a level join is one switch of that level, named after
 * the first of them that is there. A node with ports on several leaves, as in a fabric
 * with rails, is on that of its first adapter by name.
 */
int dlr_topo_ib_place(char *text, struct dlr_topo_placing *p, struct dlr_err *err);
int dlr_topo_ib_names(char *text, dlr_topo_name_fn fn, void *arg, struct dlr_err *err);
/* Whether the text is of that kind. */
bool dlr_topo_ib_is(const char *text);

#endif
