/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/cli/topo_tree.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "hwloc_topo/rank_order.h"

/* Bytes of the switches' part of the path. */
static size_t above(const struct dlr_topo_node *node)
{
    size_t path = strlen(node->path), name = strlen(node->name);

    return path > name ? path - name - 1 : 0;
}

static int add_box(struct dlr_cli_topo *t, size_t *room, int parent, const char *label,
                   size_t nlabel, int node)
{
    struct dlr_cli_box *up;
    int at = (int)t->nboxes;

    if (t->nboxes == *room) {
        size_t more = *room ? 2 * *room : 64;
        struct dlr_cli_box *box = reallocarray(t->box, more, sizeof(*box));

        if (!box)
            return -ENOMEM;
        t->box = box;
        *room = more;
    }
    t->box[t->nboxes++] = (struct dlr_cli_box){.label = label,
                                               .nlabel = nlabel,
                                               .node = node,
                                               .first = -1,
                                               .last = -1,
                                               .next = -1};
    if (parent < 0)
        return at;
    up = &t->box[parent];
    if (up->last >= 0)
        t->box[up->last].next = at;
    else
        up->first = at;
    up->last = at;
    return at;
}

/* The last child, when it is the switch of this name: nodes of one stand together. */
static int last_child(const struct dlr_cli_topo *t, int parent, const char *label,
                      size_t n)
{
    int at = t->box[parent].last;

    return at >= 0 && t->box[at].node < 0 && t->box[at].nlabel == n &&
                   memcmp(t->box[at].label, label, n) == 0
               ? at
               : -1;
}

static int add_node(struct dlr_cli_topo *t, size_t *room, unsigned node)
{
    const char *path = t->nodes[node].path, *end = path + above(&t->nodes[node]);
    int at = 0, child;

    while (path < end) {
        const char *dot = memchr(path, '.', (size_t)(end - path));
        size_t n = (size_t)((dot ? dot : end) - path);

        child = last_child(t, at, path, n);
        at = child >= 0 ? child : add_box(t, room, at, path, n, -1);
        if (at < 0)
            return at;
        path += n + 1;
    }
    child = add_box(t, room, at, t->nodes[node].name, strlen(t->nodes[node].name),
                    (int)node);
    return child < 0 ? child : 0;
}

static void count_leaves(struct dlr_cli_topo *t)
{
    char leaf[DLR_TOPO_NAME], before[DLR_TOPO_NAME] = "";

    for (size_t i = 0; i < t->nboxes; i++) {
        if (t->box[i].node < 0)
            continue;
        dlr_topo_leaf(&t->nodes[t->box[i].node], leaf, sizeof(leaf));
        t->leaves += leaf[0] && !dlr_streq(leaf, before);
        memcpy(before, leaf, sizeof(before));
    }
}

int dlr_cli_topo_make(struct dlr_cli_topo *t)
{
    DLR_AUTO_FREE unsigned *order = calloc(t->n + 1, sizeof(*order));
    size_t room = 0;
    int rc;

    t->box = NULL;
    t->nboxes = t->leaves = 0;
    if (!order)
        return -ENOMEM;
    dlr_topo_order(t->nodes, t->n, order);
    rc = add_box(t, &room, -1, "", 0, -1);
    for (size_t i = 0; rc >= 0 && i < t->n; i++)
        rc = add_node(t, &room, order[i]);
    if (rc >= 0)
        count_leaves(t);
    return rc < 0 ? rc : 0;
}

void dlr_cli_topo_done(struct dlr_cli_topo *t)
{
    free(t->box);
    t->box = NULL;
}

/* --- text ------------------------------------------------------------------------- */

static void indent(FILE *out, unsigned depth)
{
    fprintf(out, "%*s", (int)(2 * depth), "");
}

/* Nodes of a switch that nothing more is to be said about, on one line. */
static int text_names(const struct dlr_cli_topo *t, int at, unsigned depth, FILE *out)
{
    const char *between = "";

    indent(out, depth);
    while (at >= 0 && t->box[at].node >= 0) {
        fprintf(out, "%s%s", between, t->box[at].label);
        between = " ";
        at = t->box[at].next;
    }
    fputc('\n', out);
    return at;
}

static void text_links(const struct dlr_cli_links *l, FILE *out)
{
    if (l->n == 1)
        fprintf(out, ", link %.0f MB/s (%s)", l->least, l->peer);
    else if (l->n)
        fprintf(out, ", %u links %.0f (%s) to %.0f MB/s", l->n, l->least, l->peer,
                l->most);
}

static int text_seat(const struct dlr_cli_topo *t, int at, unsigned depth, FILE *out)
{
    const struct dlr_cli_box *box = &t->box[at];
    const struct dlr_cli_seat *seat = &t->seats[box->node];

    indent(out, depth);
    fprintf(out, "%-10s  %s", box->label, seat->role);
    if (seat->ranks[0])
        fprintf(out, " %s %s", strpbrk(seat->ranks, ",-") ? "ranks" : "rank",
                seat->ranks);
    if (seat->partner[0])
        fprintf(out, ", copies on %s", seat->partner);
    if (t->links)
        text_links(&t->links[box->node], out);
    if (seat->reason[0])
        fprintf(out, ": %s", seat->reason);
    fputc('\n', out);
    return box->next;
}

static void text_boxes(const struct dlr_cli_topo *t, int at, unsigned depth, FILE *out)
{
    while (at >= 0) {
        const struct dlr_cli_box *box = &t->box[at];

        if (box->node >= 0) {
            at =
                t->seats ? text_seat(t, at, depth, out) : text_names(t, at, depth, out);
            continue;
        }
        indent(out, depth);
        fprintf(out, "%.*s\n", (int)box->nlabel, box->label);
        text_boxes(t, box->first, depth + 1, out);
        at = box->next;
    }
}

void dlr_cli_topo_text(const struct dlr_cli_topo *t, FILE *out)
{
    fprintf(out, "%s\n", t->title);
    if (t->source[0])
        fprintf(out, "%zu node%s on %u leaf switch%s, by %s\n", t->n,
                t->n == 1 ? "" : "s", t->leaves, t->leaves == 1 ? "" : "es", t->source);
    else
        fprintf(out, "%zu node%s; no switches are known\n", t->n, t->n == 1 ? "" : "s");
    if (t->note[0])
        fprintf(out, "note: %s\n", t->note);
    fputc('\n', out);
    text_boxes(t, t->box[0].first, 0, out);
}

/* --- JSON ------------------------------------------------------------------------- */

static json_t *node_json(const struct dlr_cli_topo *t, unsigned i)
{
    json_t *j =
        json_pack("{s:s,s:s}", "node", t->nodes[i].name, "path", t->nodes[i].path);
    const struct dlr_cli_seat *seat = t->seats ? &t->seats[i] : NULL;

    if (j && seat)
        json_object_update_new(
            j, json_pack("{s:s,s:s*,s:s*,s:s*}", "role", seat->role, "ranks",
                         seat->ranks[0] ? seat->ranks : NULL, "partner",
                         seat->partner[0] ? seat->partner : NULL, "reason",
                         seat->reason[0] ? seat->reason : NULL));
    if (j && t->links && t->links[i].n)
        json_object_set_new(j, "links",
                            json_pack("{s:i,s:f,s:s,s:f}", "measured",
                                      (int)t->links[i].n, "slowest_mbps",
                                      t->links[i].least, "slowest_to", t->links[i].peer,
                                      "fastest_mbps", t->links[i].most));
    return j;
}

json_t *dlr_cli_topo_json(const struct dlr_cli_topo *t)
{
    json_t *nodes = json_array();

    for (size_t i = 0; i < t->nboxes; i++)
        if (t->box[i].node >= 0)
            json_array_append_new(nodes, node_json(t, (unsigned)t->box[i].node));
    return json_pack("{s:s*,s:s,s:i,s:o}", "source", t->source[0] ? t->source : NULL,
                     "note", t->note, "leaves", (int)t->leaves, "nodes", nodes);
}

/* --- graphviz --------------------------------------------------------------------- */

static void dot_text(const char *text, size_t n, FILE *out)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"' || text[i] == '\\')
            fputc('\\', out);
        fputc(text[i], out);
    }
}

static void dot_box(const struct dlr_cli_topo *t, int at, FILE *out)
{
    const struct dlr_cli_box *box = &t->box[at];
    const struct dlr_cli_seat *seat =
        t->seats && box->node >= 0 ? &t->seats[box->node] : NULL;

    fprintf(out, "  b%d [label=\"", at);
    dot_text(box->label, box->nlabel, out);
    if (seat) {
        fputs("\\n", out);
        dot_text(seat->ranks[0] ? seat->ranks : seat->role,
                 strlen(seat->ranks[0] ? seat->ranks : seat->role), out);
    }
    fprintf(out, "\"%s%s];\n", box->node < 0 ? ", shape=box" : "",
            seat && !seat->ranks[0] ? ", style=dashed" : "");
    for (int child = box->first; child >= 0; child = t->box[child].next)
        fprintf(out, "  b%d -- b%d;\n", at, child);
}

void dlr_cli_topo_dot(const struct dlr_cli_topo *t, FILE *out)
{
    fputs("graph topology {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n", out);
    for (size_t i = 1; i < t->nboxes; i++)
        dot_box(t, (int)i, out);
    for (size_t i = 1; t->seats && i < t->nboxes; i++) {
        const char *partner =
            t->box[i].node < 0 ? "" : t->seats[t->box[i].node].partner;

        for (size_t k = 1; partner[0] && k < t->nboxes; k++)
            if (t->box[k].node >= 0 && dlr_streq(t->box[k].label, partner))
                fprintf(out,
                        "  b%zu -- b%zu [style=dotted, dir=forward, "
                        "constraint=false];\n",
                        i, k);
    }
    fputs("}\n", out);
}
