/* SPDX-License-Identifier: Apache-2.0 */
/* The picture: boxes in boxes. A node is a cell, a switch the frame around what hangs on
 * it; frames are filled row by row so that the whole is about as wide as a screen is.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/cli/topo_tree.h"

#define LETTER 7.3 /* width of one at the size of text, monospace */
#define LINE 15.0
#define PAD 8.0
#define GAP 6.0
#define TITLE 20.0
#define HEAD 66.0
#define KEY_WIDTH 950.0 /* with links */
#define ASPECT 1.7
#define NAME_MAX_LETTERS 28
#define LINK_LETTERS 64 /* "12500 MB/s to n7" */

struct cell {
    double w, h;
    size_t letters;
    double slow; /* MB/s: a slower link is marked; 0: none was measured */
};

static const struct {
    const char *role, *fill, *line;
} colours[] = {
    {"training", "#dbeafe", "#2563eb"}, {"spare", "#dcfce7", "#16a34a"},
    {"ready", "#f8fafc", "#64748b"},    {"waiting", "#f8fafc", "#64748b"},
    {"left out", "#fef3c7", "#d97706"}, {"dead", "#fee2e2", "#dc2626"},
    {"", "#f8fafc", "#64748b"},
};
#define NCOLOURS (sizeof(colours) / sizeof(*colours))

static void put(const char *text, size_t n, size_t most, FILE *out)
{
    for (size_t i = 0; i < n && i < most; i++) {
        char c = text[i];

        if (n > most && i + 1 == most)
            fputs("&#8230;", out);
        else if (c == '<' || c == '>' || c == '&' || c == '"')
            fprintf(out, "&#%d;", c);
        else
            fputc(c >= ' ' && c <= '~' ? c : '?', out);
    }
}

/* --- measured links --------------------------------------------------------------- */

static int by_rate(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Half of what the slowest link of a node in the middle has; 0: nothing was measured. */
static double slow_link(const struct dlr_cli_topo *t)
{
    DLR_AUTO_FREE double *least = calloc(t->n + 1, sizeof(*least));
    size_t n = 0;

    for (size_t i = 0; t->links && least && i < t->n; i++)
        if (t->links[i].n)
            least[n++] = t->links[i].least;
    if (n == 0)
        return 0;
    qsort(least, n, sizeof(*least), by_rate);
    return least[n / 2] / 2;
}

/* The slowest one of a node and where it leads, "" of none. */
static const char *link_text(const struct dlr_cli_topo *t, size_t node,
                             char buf[LINK_LETTERS])
{
    const struct dlr_cli_links *l = t->links ? &t->links[node] : NULL;

    buf[0] = '\0';
    if (l && l->n)
        snprintf(buf, LINK_LETTERS, "%.0f MB/s to %.*s", l->least, NAME_MAX_LETTERS,
                 l->peer);
    return buf;
}

/* --- where things are ------------------------------------------------------------- */

static size_t longer(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* One size for all, so that the eye finds them. */
static struct cell cell_of(const struct dlr_cli_topo *t)
{
    struct cell c = {0, LINE + PAD, 4, slow_link(t)};
    char text[LINK_LETTERS];
    size_t letters = 4;

    for (size_t i = 0; i < t->n; i++) {
        letters = longer(letters, strlen(t->nodes[i].name));
        letters = longer(letters, strlen(link_text(t, i, text)));
        if (!t->seats)
            continue;
        letters = longer(letters, strlen(t->seats[i].ranks) + strlen("ranks "));
        letters = longer(letters, strlen(t->seats[i].role));
        if (t->seats[i].partner[0])
            letters = longer(letters, strlen(t->seats[i].partner) + strlen("-> "));
    }
    c.letters = letters < NAME_MAX_LETTERS ? letters : NAME_MAX_LETTERS;
    c.w = (double)c.letters * LETTER + PAD;
    if (t->seats)
        c.h += 2 * LINE;
    if (c.slow > 0)
        c.h += LINE;
    return c;
}

/* Sets children side by side in rows no wider than limit; the size of all. */
static void flow(struct dlr_cli_topo *t, int at, double limit, double *ret_w,
                 double *ret_h)
{
    double x = 0, y = 0, row = 0, widest = 0;

    for (int c = t->box[at].first; c >= 0; c = t->box[c].next) {
        struct dlr_cli_box *box = &t->box[c];

        if (x > 0 && x + box->w > limit) {
            x = 0;
            y += row + GAP;
            row = 0;
        }
        box->x = x;
        box->y = y;
        x += box->w + GAP;
        row = fmax(row, box->h);
        widest = fmax(widest, x - GAP);
    }
    *ret_w = widest;
    *ret_h = y + row;
}

/* Sizes from below; x and y are within the parent. */
static void measure(struct dlr_cli_topo *t, int at, const struct cell *cell)
{
    double area = 0, widest = 0, w, h;

    if (t->box[at].node >= 0) {
        t->box[at].w = cell->w;
        t->box[at].h = cell->h;
        return;
    }
    for (int c = t->box[at].first; c >= 0; c = t->box[c].next) {
        measure(t, c, cell);
        area += (t->box[c].w + GAP) * (t->box[c].h + GAP);
        widest = fmax(widest, t->box[c].w);
    }
    flow(t, at, fmax(sqrt(area * ASPECT), widest) + 1, &w, &h);
    t->box[at].w = fmax(w, (double)t->box[at].nlabel * LETTER) + 2 * PAD;
    t->box[at].h = h + TITLE + 2 * PAD;
}

/* --- drawing ---------------------------------------------------------------------- */

static void line(double x, double y, const char *class, const char *prefix,
                 const char *text, size_t most, FILE *out)
{
    size_t used = strlen(prefix);

    fprintf(out, "<text class='%s' x='%.1f' y='%.1f'>", class, x, y);
    put(prefix, used, used, out);
    put(text, strlen(text), most > used ? most - used : 0, out);
    fputs("</text>", out);
}

static void draw_node(const struct dlr_cli_topo *t, const struct dlr_cli_box *box,
                      double x, double y, const struct cell *cell, FILE *out)
{
    const struct dlr_cli_seat *seat = t->seats ? &t->seats[box->node] : NULL;
    char text[LINK_LETTERS];
    size_t c = 0, letters = cell->letters;

    while (c + 1 < NCOLOURS && !(seat && dlr_streq(colours[c].role, seat->role)))
        c++;
    fprintf(out,
            "<g><rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' "
            "rx='3' fill='%s' stroke='%s'/>",
            x, y, box->w, box->h, colours[c].fill, colours[c].line);
    line(x + PAD / 2, y + LINE, "n", "", box->label, letters, out);
    if (seat) {
        bool several = strpbrk(seat->ranks, ",-") != NULL;

        line(x + PAD / 2, y + 2 * LINE, "r",
             !seat->ranks[0] ? ""
             : several       ? "ranks "
                             : "rank ",
             seat->ranks[0] ? seat->ranks : seat->role, letters, out);
        if (seat->partner[0])
            line(x + PAD / 2, y + 3 * LINE, "r", "-> ", seat->partner, letters, out);
    }
    if (link_text(t, (size_t)box->node, text)[0])
        line(x + PAD / 2, y + box->h - PAD,
             t->links[box->node].least < cell->slow ? "x" : "r", "", text, letters,
             out);
    fputs("</g>\n", out);
}

static void draw(const struct dlr_cli_topo *t, int at, double x, double y,
                 const struct cell *cell, unsigned depth, FILE *out)
{
    const struct dlr_cli_box *box = &t->box[at];

    x += box->x;
    y += box->y;
    if (box->node >= 0) {
        draw_node(t, box, x, y, cell, out);
        return;
    }
    if (at) {
        fprintf(out,
                "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' rx='5' "
                "fill='%s' stroke='#94a3b8'%s/><text class='s' x='%.1f' y='%.1f'>",
                x, y, box->w, box->h, depth % 2 ? "#ffffff" : "#f1f5f9",
                box->label[0] == DLR_TOPO_DOMAIN ? " stroke-dasharray='5 3'" : "",
                x + PAD, y + LINE + 1);
        put(box->label, box->nlabel, box->nlabel, out);
        fputs("</text>\n", out);
    }
    for (int c = box->first; c >= 0; c = t->box[c].next)
        draw(t, c, x + PAD, y + TITLE + PAD, cell, depth + 1, out);
}

static void draw_key(bool links, double y, FILE *out)
{
    static const char copies[] = "-> who keeps its copies";
    static const char *const shown[] = {"training", "spare", "left out", "dead"};
    double x = PAD;

    for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++)
        for (size_t c = 0; c < NCOLOURS; c++) {
            if (!dlr_streq(colours[c].role, shown[i]))
                continue;
            fprintf(out,
                    "<rect x='%.1f' y='%.1f' width='12' height='12' fill='%s' "
                    "stroke='%s'/>",
                    x, y - 10, colours[c].fill, colours[c].line);
            line(x + 17, y, "r", "", shown[i], 20, out);
            x += 17 + (double)strlen(shown[i]) * LETTER + 2 * PAD;
        }
    line(x, y, "r", "", copies, 40, out);
    x += (double)strlen(copies) * LETTER + 2 * PAD;
    if (links)
        line(x, y, "r", "", "MB/s: its slowest link, red: under half of the usual", 60,
             out);
    fputc('\n', out);
}

void dlr_cli_topo_svg(struct dlr_cli_topo *t, FILE *out)
{
    struct cell cell = cell_of(t);
    char under[1024];
    double w, h;

    snprintf(under, sizeof(under), "%zu nodes, %u leaf switches%s%s%s%s", t->n,
             t->leaves, t->source[0] ? ", by " : "", t->source, t->note[0] ? "; " : "",
             t->note);
    measure(t, 0, &cell);
    w = fmax(t->box[0].w,
             fmax(cell.slow > 0 ? KEY_WIDTH : 560, (double)strlen(t->title) * 10)) +
        2 * PAD;
    w = fmax(w, (double)strlen(under) * LETTER + 2 * PAD);
    h = t->box[0].h - TITLE + HEAD;
    fprintf(out,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' "
            "viewBox='0 0 %.0f %.0f'>\n"
            "<style>text{font-family:monospace;font-size:12px;fill:#0f172a}"
            ".n{font-weight:bold}.r{fill:#334155}.s{font-weight:bold;fill:#475569}"
            ".x{font-weight:bold;fill:#dc2626}"
            ".t{font-size:15px;font-weight:bold}</style>\n"
            "<rect width='100%%' height='100%%' fill='#ffffff'/>\n",
            w, h, w, h);
    line(PAD, 20, "t", "", t->title, 200, out);
    line(PAD, 38, "r", "", under, strlen(under), out);
    if (t->seats)
        draw_key(cell.slow > 0, 56, out);
    draw(t, 0, 0, HEAD - TITLE - PAD, &cell, 0, out);
    fputs("</svg>\n", out);
}
