/* SPDX-License-Identifier: Apache-2.0 */
/* Networks as others describe them, and the paths of nodes that follow. */
#ifndef DLR_HWLOC_TOPO_NETWORKS_H
#define DLR_HWLOC_TOPO_NETWORKS_H

#include "hwloc_topo/topo.h"

/* Reads a text that describes a network and writes the path of each node in nodes (name
 * given, path filled; the bare name when the text has it on no switch). What it is shows
 * by itself:
 *  - lines of topology.conf, or of `scontrol show topology`: topology/tree (22.05 to
 *    25.11) and topology/block (23.11 to 25.11; a block is a leaf)
 *  - the output of ibnetdiscover (infiniband.h says how its levels are found)
 * The lines may come in any order. *ret_placed is how many of the nodes have a switch.
 * ret_note (DLR_TOPO_NOTE bytes) says in one line what is odd and how it was taken: a
 * node on two switches, a switch below two, nodes on none; "" when nothing is.
 * -EBADMSG, all paths bare, with the line's number on a text of another kind, malformed
 * lists, switches in a ring. Foreign bytes: fuzz target topology.
 */
#define DLR_TOPO_NOTE 512
int dlr_topo_paths_from_text(const char *text, struct dlr_topo_node *nodes, size_t n,
                             size_t *ret_placed, char *ret_note, struct dlr_err *err);

/* The same for all nodes that the text names, in natural name order; the caller frees
 * *ret_nodes.
 */
int dlr_topo_nodes_from_text(const char *text, struct dlr_topo_node **ret_nodes,
                             size_t *ret_n, char *ret_note, struct dlr_err *err);

/* A source of the switch tree. */
struct dlr_topo_source {
    const char *name; /* for people: "Slurm", "/etc/topology.conf" */
    const char *text; /* NULL: there is none */
};
/* Takes the tree, whole, from the first source (those trusted most come first) that has a
 * switch for any of the nodes, and writes their paths; two are never mixed. Returns the
 * source's index, -1 when none has (paths bare), -ENOMEM. ret_note: as above, and which
 * source was passed over and why, and where a later one contradicts it, by nodes that
 * share a leaf in one alone.
 */
int dlr_topo_paths_from_sources(const struct dlr_topo_source *sources,
                                unsigned nsources, struct dlr_topo_node *nodes,
                                size_t n, char *ret_note);

#endif
