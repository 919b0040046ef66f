/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures over time, in columns: a column is so much of the run, and what happened in
 * it has its share of the height, so that a second is seen in a month's run, too.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "mpi_launcher/journal/text.h"
#include "mpi_launcher/report/escape.h"
#include "mpi_launcher/report/model.h"

#define COLUMNS 360
#define HEIGHT 96
#define CELLS 24000 /* of the picture of nodes */
#define LABELLED 64 /* so many rows have their names beside them */

/* The worst that was there is shown: an order. */
static const unsigned char badness[DLR_CLI_ROLES] = {
    [DLR_CLI_RELEASED] = 0, [DLR_CLI_TRAINING] = 1, [DLR_CLI_SPARE] = 2,
    [DLR_CLI_READY] = 3,    [DLR_CLI_WAITING] = 4,  [DLR_CLI_EXCLUDED] = 5,
    [DLR_CLI_DEAD] = 6,
};

/* --- causes ----------------------------------------------------------------------- */

struct columns {
    double part[COLUMNS][DLR_ACCOUNT_CAUSES];
};

static void fill(struct columns *c, const struct dlr_account_span *span,
                 int64_t from_ms, double column_ms)
{
    double from = (double)(span->from_ms - from_ms) / column_ms;
    double to = (double)(span->to_ms - from_ms) / column_ms;

    for (int i = (int)from; i < COLUMNS && i < to; i++) {
        double begin = from > i ? from : i, end = to < i + 1 ? to : i + 1;

        c->part[i][span->cause] += end - begin;
    }
}

/* From the bottom up to this cause, in pixels. */
static int64_t top_of(const double *part, int cause)
{
    double sum = 0;

    for (int i = 0; i <= cause; i++)
        sum += part[i];
    return (int64_t)(sum * HEIGHT + 0.5);
}

static void draw_cause(const struct columns *c, int cause, FILE *out)
{
    bool drawn = false;

    for (int i = 0; i < COLUMNS; i++) {
        int64_t top = top_of(c->part[i], cause);
        int64_t low = cause ? top_of(c->part[i], cause - 1) : 0;
        int64_t wide = 1;

        if (c->part[i][cause] > 0 && top == low)
            top++; /* seen, however short */
        if (top <= low)
            continue;
        while (i + wide < COLUMNS && c->part[i + wide][cause] > 0 &&
               top_of(c->part[i + wide], cause) == top &&
               (cause ? top_of(c->part[i + wide], cause - 1) : 0) == low)
            wide++;
        if (!drawn)
            dlr_page(out, "<path class=\"c-%s\" d=\"", dlr_account_cause_name(cause));
        drawn = true;
        dlr_page(out, "M%d %dh%dv%dh-%dz", (int64_t)i, HEIGHT - top, wide, top - low,
                 wide);
        i += (int)wide - 1;
    }
    if (drawn)
        dlr_page(out, "\"/>");
}

static void put_axis(const struct dlr_report *r, FILE *out)
{
    char from[32], to[32];

    dlr_cli_time_text(dlr_account_from_ms(r->account), from, sizeof(from));
    dlr_cli_time_text(dlr_account_to_ms(r->account), to, sizeof(to));
    dlr_page(out, "<p class=\"axis\"><span>%s</span> <span>%s</span></p>\n", from, to);
}

void dlr_report_draw_causes(const struct dlr_report *r, FILE *out)
{
    DLR_AUTO_FREE struct columns *c = calloc(1, sizeof(*c));
    int64_t from_ms = dlr_account_from_ms(r->account);
    int64_t wall = dlr_account_to_ms(r->account) - from_ms;
    const struct dlr_account_span *spans;
    size_t n;

    spans = dlr_account_spans(r->account, &n);
    if (!c || wall <= 0)
        return;
    for (size_t i = 0; i < n; i++)
        fill(c, &spans[i], from_ms, (double)wall / COLUMNS);
    dlr_page(out,
             "<svg class=\"causes\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
             "role=\"img\" aria-label=\"Causes over time; the table says how much each "
             "took\">",
             (int64_t)COLUMNS, (int64_t)HEIGHT);
    for (int cause = 0; cause < DLR_ACCOUNT_CAUSES; cause++)
        draw_cause(c, cause, out);
    dlr_page(out, "</svg>\n");
    put_axis(r, out);
}

/* --- nodes ------------------------------------------------------------------------ */

static enum dlr_cli_role worse(enum dlr_cli_role a, enum dlr_cli_role b)
{
    return badness[b] > badness[a] ? b : a;
}

/* The worst role of the node between two times. */
static enum dlr_cli_role worst(const struct dlr_report_node *n, int64_t from_ms,
                               int64_t to_ms, size_t *at)
{
    enum dlr_cli_role role = dlr_report_role_at(n, from_ms);

    while (*at < n->nturns && n->turns[*at].ms < to_ms) {
        role = worse(role, n->turns[*at].role);
        ++*at;
    }
    return role;
}

/* What each column of a row shows. */
static void fill_row(const struct dlr_report *r, const struct dlr_report_row *row,
                     unsigned char *roles, size_t columns)
{
    int64_t from_ms = dlr_account_from_ms(r->account);
    int64_t wall = dlr_account_to_ms(r->account) - from_ms;

    memset(roles, DLR_CLI_RELEASED, columns);
    for (size_t i = 0; i < row->n; i++) {
        const struct dlr_report_node *n = &r->nodes[row->nodes[i]];
        size_t at = 0;

        for (size_t c = 0; c < columns; c++) {
            int64_t begin = from_ms + wall / (int64_t)columns * (int64_t)c;
            int64_t end = c + 1 < columns ? begin + wall / (int64_t)columns + 1
                                          : from_ms + wall + 1;

            roles[c] = (unsigned char)worse(roles[c], worst(n, begin, end, &at));
        }
    }
}

static void draw_row(const unsigned char *roles, size_t columns, enum dlr_cli_role role,
                     int64_t y, int64_t high, bool *drawn, FILE *out)
{
    for (size_t c = 0; c < columns; c++) {
        size_t wide = 0;

        while (c + wide < columns && roles[c + wide] == role)
            wide++;
        if (!wide)
            continue;
        if (!*drawn)
            dlr_page(out, "<path class=\"r-%d\" d=\"", (int64_t)role);
        *drawn = true;
        dlr_page(out, "M%d %dh%dv%dh-%dz", (int64_t)c, y, (int64_t)wide, high,
                 (int64_t)wide);
        c += wide;
    }
}

/* A picture for each row, beside its name. */
static void draw_labelled(const struct dlr_report_rows *rows,
                          const unsigned char *roles, size_t columns, FILE *out)
{
    dlr_page(out,
             "<table class=\"lanes\"><caption class=\"hidden\">Roles of nodes over "
             "time</caption><tbody>\n");
    for (size_t i = 0; i < rows->n; i++) {
        dlr_page(out,
                 "<tr><th scope=\"row\">%s</th><td><svg viewBox=\"0 0 %d 10\" "
                 "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"at the end: "
                 "%s\">",
                 rows->list[i].name, (int64_t)columns,
                 dlr_cli_role_name(roles[i * columns + columns - 1]));
        for (int role = 0; role < DLR_CLI_ROLES; role++) {
            bool drawn = false;

            draw_row(roles + i * columns, columns, role, 0, 10, &drawn, out);
            dlr_page(out, drawn ? "\"/>" : "");
        }
        dlr_page(out, "</svg></td></tr>\n");
    }
    dlr_page(out, "</tbody></table>\n");
}

static void draw_many(const struct dlr_report_rows *rows, const unsigned char *roles,
                      size_t columns, FILE *out)
{
    dlr_page(
        out,
        "<svg class=\"many\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
        "role=\"img\" aria-label=\"Roles over time, a line for each %s in the order "
        "of ranks\">",
        (int64_t)columns, (int64_t)rows->n, rows->leaves ? "leaf switch" : "node");
    for (int role = 0; role < DLR_CLI_ROLES; role++) {
        bool drawn = false;

        for (size_t i = 0; i < rows->n; i++)
            draw_row(roles + i * columns, columns, role, (int64_t)i, 1, &drawn, out);
        dlr_page(out, drawn ? "\"/>" : "");
    }
    dlr_page(out, "</svg>\n");
}

static void put_legend(const unsigned char *roles, size_t n, FILE *out)
{
    bool there[DLR_CLI_ROLES] = {false};

    for (size_t i = 0; i < n; i++)
        there[roles[i]] = true;
    dlr_page(out, "<ul class=\"legend\">");
    for (int role = 0; role < DLR_CLI_ROLES; role++)
        if (there[role])
            dlr_page(out,
                     "<li><svg viewBox=\"0 0 1 1\" aria-hidden=\"true\"><path "
                     "class=\"r-%d\" "
                     "d=\"M0 0h1v1h-1z\"/></svg>%s</li>",
                     (int64_t)role, dlr_cli_role_name(role));
    dlr_page(out, "</ul>\n");
}

void dlr_report_draw_nodes(const struct dlr_report *r,
                           const struct dlr_report_rows *rows, FILE *out)
{
    size_t columns = rows->n ? CELLS / rows->n : 0;
    DLR_AUTO_FREE unsigned char *roles = NULL;

    columns = columns < 40 ? 40 : columns > COLUMNS ? COLUMNS : columns;
    roles = calloc(rows->n + 1, columns);
    if (!roles || !rows->n)
        return;
    for (size_t i = 0; i < rows->n; i++)
        fill_row(r, &rows->list[i], roles + i * columns, columns);
    if (rows->n <= LABELLED)
        draw_labelled(rows, roles, columns, out);
    else
        draw_many(rows, roles, columns, out);
    put_axis(r, out);
    put_legend(roles, rows->n * columns, out);
}
