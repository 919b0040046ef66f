/* SPDX-License-Identifier: Apache-2.0 */
/* The report as one page of HTML. */
#include <string.h>

#include "mpi_launcher/journal/event_fields.h"
#include "mpi_launcher/journal/event_text.h"
#include "mpi_launcher/journal/text.h"
#include "mpi_launcher/report/escape.h"
#include "mpi_launcher/report/model.h"

#define PLACE 64 /* bytes of "step 120 of round 0" and such */

static const char *span_text(int64_t ms, char buf[PLACE])
{
    if (ms < 0)
        snprintf(buf, PLACE, "-");
    else
        dlr_cli_span(ms, buf, PLACE);
    return buf;
}

static const char *version_text(const struct dlr_cli_version *v, char buf[PLACE])
{
    snprintf(buf, PLACE, "none");
    if (v->set)
        snprintf(buf, PLACE, "step %lld of round %lld", (long long)v->step,
                 (long long)v->round);
    return buf;
}

static const char *clock_text(int64_t ms, char buf[PLACE])
{
    dlr_cli_time_text(ms, buf, PLACE);
    if (strlen(buf) > 4)
        buf[strlen(buf) - 4] = '\0'; /* milliseconds */
    return buf;
}

/* --- sections --------------------------------------------------------------------- */

static void put_head(const struct dlr_report *r, const struct dlr_report_about *about,
                     FILE *out)
{
    const char *job = r->state.job ? r->state.job : about->job;
    char text[512], from[PLACE], to[PLACE];

    dlr_page(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "style-src 'unsafe-inline'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"robots\" content=\"noindex\">\n"
        "<title>Job %s: report</title>\n<style>",
        job);
    fputs(dlr_report_style, out);
    dlr_page(out, "</style></head><body>\n<header><h1>Job %s</h1>\n", job);
    dlr_report_headline(r, about, text, sizeof(text));
    dlr_page(out, "<p class=\"lead\">%s</p>\n", text);
    dlr_page(out, "<p class=\"soft\">Run %s, from %s to %s by the clock of its hosts",
             about->run, clock_text(dlr_account_from_ms(r->account), from),
             clock_text(dlr_account_to_ms(r->account), to));
    if (about->others)
        dlr_page(out, "; the job has %d other runs (--run)", (int64_t)about->others);
    dlr_page(out, ".</p></header>\n<main>\n");
}

static void put_time(const struct dlr_report *r, FILE *out)
{
    int64_t all = dlr_account_to_ms(r->account) - dlr_account_from_ms(r->account);
    char span[PLACE];

    dlr_page(out, "<section aria-labelledby=\"time\"><h2 id=\"time\">Where the time "
                  "went</h2>\n");
    dlr_report_draw_causes(r, out);
    dlr_page(out, "<table class=\"key\"><thead><tr><th scope=\"col\">cause</th><th "
                  "scope=\"col\" class=\"n\">time</th><th scope=\"col\" "
                  "class=\"n\">share</th></tr></thead><tbody>\n");
    for (int c = 0; c < DLR_ACCOUNT_CAUSES; c++) {
        int64_t ms = dlr_account_part(r->account, c);

        if (ms > 0)
            dlr_page(
                out,
                "<tr><th scope=\"row\"><svg viewBox=\"0 0 1 1\" aria-hidden=\"true\">"
                "<path class=\"c-%s\" d=\"M0 0h1v1h-1z\"/></svg>%s</th><td "
                "class=\"n\">%s</td><td class=\"n\">%f %%</td></tr>\n",
                dlr_account_cause_name(c), dlr_account_cause_words(c),
                span_text(ms, span), dlr_report_share(r, ms));
    }
    dlr_page(out,
             "<tr><th scope=\"row\">all of it</th><td class=\"n\">%s</td><td "
             "class=\"n\">%f %%</td></tr></tbody></table></section>\n",
             span_text(all, span), dlr_report_share(r, all));
}

static void put_incident(const struct dlr_report_incident *i, bool newest, FILE *out)
{
    char when[PLACE], span[PLACE];

    dlr_page(out, "<article><h3>%s: %s</h3>\n<p>%s</p>\n<p class=\"soft\">",
             clock_text(i->ms, when), dlr_report_words(i), i->why);
    if (i->node)
        dlr_page(out, "Node %s. ", i->node);
    if (i->round >= 0)
        dlr_page(out, "Round %d. ", i->round);
    if (i->outage_ms >= 0)
        dlr_page(out, "The next step came after %s. ", span_text(i->outage_ms, span));
    else
        dlr_page(out, newest ? "No step has come since. "
                             : "Something else came before the next step. ");
    if (i->redone >= 0)
        dlr_page(out, "Steps to be done again: %d.", i->redone);
    dlr_page(out,
             "</p>\n<p>%s</p>\n<details><summary>What the journal says (%d "
             "lines)</summary><ol class=\"lines\">\n",
             dlr_report_advice(i), (int64_t)i->nlines);
    for (unsigned n = 0; n < i->nlines; n++)
        dlr_page(out, "<li>%s</li>\n", i->lines[n]);
    dlr_page(out, "</ol></details></article>\n");
}

static void put_incidents(const struct dlr_report *r, FILE *out)
{
    dlr_page(out,
             "<section aria-labelledby=\"incidents\"><h2 id=\"incidents\">What went "
             "wrong</h2>\n");
    if (!r->nincidents)
        dlr_page(out, "<p>Nothing that the journal knows of.</p>\n");
    if (r->incidents_before)
        dlr_page(out, "<p>%d older ones are not shown.</p>\n",
                 (int64_t)r->incidents_before);
    for (size_t i = r->nincidents; i > 0; i--)
        put_incident(&r->incidents[i - 1], i == r->nincidents, out);
    dlr_page(out, "</section>\n");
}

static void put_rounds(const struct dlr_report *r, FILE *out)
{
    char from[PLACE], span[PLACE], version[PLACE];

    dlr_page(out,
             "<details><summary>Rounds (%d)</summary>\n<table "
             "class=\"stack\"><thead><tr><th "
             "scope=\"col\">round</th><th scope=\"col\">from</th><th scope=\"col\">took"
             "</th><th scope=\"col\">steps</th><th scope=\"col\">began with</th><th "
             "scope=\"col\">ended by</th></tr></thead><tbody>\n",
             (int64_t)(r->nrounds + r->rounds_before));
    for (size_t i = r->nrounds; i > 0; i--) {
        const struct dlr_report_round *round = &r->rounds[i - 1];

        dlr_page(out,
                 "<tr><th scope=\"row\" data-l=\"round\">round %d</th><td "
                 "data-l=\"from\">%s</td><td "
                 "data-l=\"took\">%s</td><td data-l=\"steps\">",
                 round->round, clock_text(round->from_ms, from),
                 span_text(round->to_ms - round->from_ms, span));
        if (round->first >= 0)
            dlr_page(out, "%d to %d", round->first,
                     round->last > round->first ? round->last : round->first);
        else
            dlr_page(out, "none");
        dlr_page(out,
                 "</td><td data-l=\"began with\">%s</td><td data-l=\"ended "
                 "by\">%s%s%s</td></tr>\n",
                 version_text(&round->restore, version),
                 round->cause ? round->cause : "",
                 round->cause && round->why ? ": " : "", round->why);
    }
    dlr_page(out, "</tbody></table></details>\n");
}

static void put_node_row(const struct dlr_report *r, const struct dlr_report_node *n,
                         FILE *out)
{
    const struct dlr_cli_node *seat = dlr_report_seat(r, n->name);
    enum dlr_cli_role role =
        seat ? dlr_cli_state_role(&r->state, seat) : DLR_CLI_RELEASED;
    char ranks[256] = "";

    if (seat && seat->tasks > 0)
        dlr_cli_ranks(seat->ranks, seat->first, seat->tasks, ranks, sizeof(ranks));
    dlr_page(out,
             "<tr><th scope=\"row\">%s</th><td data-l=\"ranks\">%s</td><td "
             "data-l=\"role\">%s%s%s</td><td "
             "data-l=\"leaf\">%s</td><td data-l=\"copies on\">%s</td></tr>\n",
             n->name, ranks, dlr_cli_role_name(role), seat && seat->reason ? ": " : "",
             seat ? seat->reason : NULL, n->leaf, seat ? seat->partner : NULL);
}

static void put_leaf_row(const struct dlr_report *r, const struct dlr_report_row *row,
                         FILE *out)
{
    int64_t count[DLR_CLI_ROLES] = {0}, least = -1, most = -1;

    for (size_t i = 0; i < row->n; i++) {
        const struct dlr_cli_node *seat =
            dlr_report_seat(r, r->nodes[row->nodes[i]].name);

        count[seat ? dlr_cli_state_role(&r->state, seat) : DLR_CLI_RELEASED]++;
        if (!seat || seat->tasks <= 0)
            continue;
        least = least < 0 || seat->first < least ? seat->first : least;
        most =
            seat->first + seat->tasks - 1 > most ? seat->first + seat->tasks - 1 : most;
    }
    dlr_page(out,
             "<tr><th scope=\"row\">%s</th><td data-l=\"nodes\">%d</td><td "
             "data-l=\"ranks\">",
             row->name, (int64_t)row->n);
    if (least >= 0)
        dlr_page(out, "%d to %d", least, most);
    dlr_page(out, "</td><td data-l=\"roles\">");
    for (int role = 0, n = 0; role < DLR_CLI_ROLES; role++)
        if (count[role])
            dlr_page(out, "%s%d %s", n++ ? ", " : "", count[role],
                     dlr_cli_role_name(role));
    dlr_page(out, "</td></tr>\n");
}

/* Where rows are leaves: the nodes that one looks for. */
static void put_named(const struct dlr_report *r, FILE *out)
{
    size_t n = 0;

    dlr_page(out, "<p>Dead or left out:</p>\n<ul>\n");
    for (size_t i = 0; i < r->nnodes; i++) {
        const struct dlr_cli_node *seat = dlr_report_seat(r, r->nodes[i].name);

        if (!seat || (seat->role != DLR_CLI_DEAD && seat->role != DLR_CLI_EXCLUDED))
            continue;
        if (n++ < DLR_REPORT_NAMED)
            dlr_page(out, "<li>%s: %s%s%s</li>\n", seat->name,
                     dlr_cli_role_name(seat->role), seat->reason ? ", " : "",
                     seat->reason);
    }
    if (n > DLR_REPORT_NAMED)
        dlr_page(out, "<li>%d more</li>\n", (int64_t)(n - DLR_REPORT_NAMED));
    dlr_page(out, n ? "</ul>\n" : "<li>none</li></ul>\n");
}

static void put_nodes(const struct dlr_report *r, FILE *out)
{
    struct dlr_report_rows rows;

    dlr_report_rows_init(r, &rows);
    dlr_page(out,
             "<section aria-labelledby=\"nodes\"><h2 id=\"nodes\">Rounds, nodes and "
             "ranks</h2>\n");
    dlr_report_draw_nodes(r, &rows, out);
    put_rounds(r, out);
    if (rows.leaves)
        put_named(r, out);
    dlr_page(out,
             "<details%s><summary>%s (%d)</summary>\n<table class=\"stack\"><thead><tr>"
             "<th scope=\"col\">%s</th>",
             rows.n <= 16 ? " open" : "", rows.leaves ? "Leaf switches" : "Nodes",
             (int64_t)rows.n, rows.leaves ? "leaf" : "node");
    if (rows.leaves)
        dlr_page(out, "<th scope=\"col\">nodes</th><th scope=\"col\">ranks</th><th "
                      "scope=\"col\">roles</th></tr></thead><tbody>\n");
    else
        dlr_page(out,
                 "<th scope=\"col\">ranks</th><th scope=\"col\">role</th><th "
                 "scope=\"col\">leaf</th><th scope=\"col\">copies on</th></tr></thead>"
                 "<tbody>\n");
    for (size_t i = 0; i < rows.n; i++)
        if (rows.leaves)
            put_leaf_row(r, &rows.list[i], out);
        else
            put_node_row(r, &r->nodes[rows.list[i].nodes[0]], out);
    dlr_page(out, "</tbody></table></details></section>\n");
    dlr_report_rows_done(&rows);
}

/* A row of a name and what an event says. */
static void put_event(const char *name, const json_t *e, FILE *out)
{
    char words[DLR_JOURNAL_EVENT_TEXT];

    if (!e)
        return;
    dlr_journal_event_text(e, words, sizeof(words));
    dlr_page(out, "<tr><th scope=\"row\">%s</th><td>%s</td></tr>\n", name, words);
}

static void put_saves(const struct dlr_report *r, FILE *out)
{
    char version[PLACE];

    dlr_page(out,
             "<section aria-labelledby=\"saves\"><h2 id=\"saves\">Checkpoints</h2>\n"
             "<table class=\"facts\"><tbody>\n<tr><th "
             "scope=\"row\">committed</th><td>%s; %d in all, "
             "%d given up</td></tr>\n",
             version_text(&r->state.committed, version), r->state.commits,
             r->state.aborts);
    dlr_page(out,
             "<tr><th scope=\"row\">restored</th><td>%d times</td></tr>\n"
             "<tr><th scope=\"row\">on the disk</th><td>%d written</td></tr>\n",
             r->restores, r->npersisted);
    put_event("newest on the disk", r->persisted, out);
    put_event("how often", r->state.cadence, out);
    put_event("room", r->state.saving, out);
    if (r->state.survives)
        dlr_page(out, "<tr><th scope=\"row\">survives</th><td>%s</td></tr>\n",
                 r->state.survives);
    dlr_page(out, "</tbody></table></section>\n");
}

static void put_network(const struct dlr_report *r, FILE *out)
{
    const char *node;
    json_t *e;
    size_t n = 0;

    if (!r->links && json_object_size(r->networks) == 0)
        return;
    dlr_page(out,
             "<section aria-labelledby=\"network\"><h2 id=\"network\">Network</h2>\n"
             "<table><tbody>\n");
    put_event("links", r->links, out);
    json_object_foreach(r->networks, node, e) if (n++ < DLR_REPORT_NAMED)
        put_event(node, e, out);
    if (n > DLR_REPORT_NAMED)
        dlr_page(out, "<tr><th scope=\"row\">more</th><td>%d nodes</td></tr>\n",
                 (int64_t)(n - DLR_REPORT_NAMED));
    dlr_page(out, "</tbody></table></section>\n");
}

void dlr_report_html(const struct dlr_report *r, const struct dlr_report_about *about,
                     FILE *out)
{
    put_head(r, about, out);
    put_time(r, out);
    put_incidents(r, out);
    put_nodes(r, out);
    put_saves(r, out);
    put_network(r, out);
    dlr_page(out,
             "</main>\n<footer class=\"soft\"><p>From the journal of the run alone.");
    if (r->state.bad_lines)
        dlr_page(out, " %d of its lines are no events.", (int64_t)r->state.bad_lines);
    if (r->state.dropped_lines > 0)
        dlr_page(out, " %d lines were lost when they were written.",
                 r->state.dropped_lines);
    dlr_page(out, " dlrover %s</p></footer>\n</body></html>\n", r->state.suite);
}
