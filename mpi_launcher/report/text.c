/* SPDX-License-Identifier: Apache-2.0 */
/* The report as a terminal shows it. */
#include <string.h>

#include "mpi_launcher/journal/event_text.h"
#include "mpi_launcher/journal/text.h"
#include "mpi_launcher/report/model.h"

#define ROOM 512
#define SHOWN 16 /* nodes by name, incidents, rounds */

/* What strangers wrote, harmless; cut to the buffer. */
static const char *plain(const char *text, char buf[ROOM])
{
    snprintf(buf, ROOM, "%s", text ? text : "-");
    dlr_cli_clean(buf);
    return buf;
}

static void put_time(const struct dlr_report *r, FILE *out)
{
    char span[32];

    fputs("\nwhere the time went\n", out);
    for (int c = 0; c < DLR_ACCOUNT_CAUSES; c++) {
        int64_t ms = dlr_account_part(r->account, c);

        if (ms <= 0)
            continue;
        dlr_cli_span(ms, span, sizeof(span));
        fprintf(out, "  %-46s%14s%9.2f %%\n", dlr_account_cause_words(c), span,
                dlr_report_share(r, ms));
    }
}

static void put_incident(const struct dlr_report_incident *i, bool newest, FILE *out)
{
    char when[32], span[32], cause[ROOM], why[ROOM], node[ROOM];

    dlr_cli_time_text(i->ms, when, sizeof(when));
    fprintf(out, "  %.19s  %s: %s\n", when, plain(dlr_report_words(i), cause),
            plain(i->why, why));
    if (i->node)
        fprintf(out, "    node %s\n", plain(i->node, node));
    if (i->outage_ms >= 0) {
        dlr_cli_span(i->outage_ms, span, sizeof(span));
        fprintf(out, "    the next step came after %s", span);
    } else {
        fputs(newest ? "    no step has come since"
                     : "    something else came before the next step",
              out);
    }
    if (i->redone >= 0)
        fprintf(out, "; steps to be done again: %lld", (long long)i->redone);
    fputc('\n', out);
    for (unsigned n = 0; n < i->nlines; n++)
        fprintf(out, "    | %s\n", plain(i->lines[n], why));
    fprintf(out, "    %s\n", plain(dlr_report_advice(i), why));
}

static void put_incidents(const struct dlr_report *r, FILE *out)
{
    size_t first = r->nincidents > SHOWN ? r->nincidents - SHOWN : 0;

    fputs("\nwhat went wrong\n", out);
    if (!r->nincidents)
        fputs("  nothing that the journal knows of\n", out);
    if (first + r->incidents_before)
        fprintf(out, "  (%zu older ones: --html, --json)\n",
                first + r->incidents_before);
    for (size_t i = first; i < r->nincidents; i++)
        put_incident(&r->incidents[i], i + 1 == r->nincidents, out);
}

static void put_rounds(const struct dlr_report *r, FILE *out)
{
    size_t first = r->nrounds > SHOWN ? r->nrounds - SHOWN : 0;
    char from[32], span[32], why[ROOM];

    fputs("\nrounds\n", out);
    for (size_t i = first; i < r->nrounds; i++) {
        const struct dlr_report_round *round = &r->rounds[i];

        dlr_cli_time_text(round->from_ms, from, sizeof(from));
        dlr_cli_span(round->to_ms - round->from_ms, span, sizeof(span));
        fprintf(out, "  %3lld  %.19s  %12s", (long long)round->round, from, span);
        if (round->first >= 0)
            fprintf(
                out, "  steps %lld to %lld", (long long)round->first,
                (long long)(round->last > round->first ? round->last : round->first));
        if (round->why)
            fprintf(out, "  %s", plain(round->why, why));
        fputc('\n', out);
    }
}

static void put_nodes(const struct dlr_report *r, FILE *out)
{
    struct dlr_report_rows rows;
    char name[ROOM], ranks[256], why[ROOM];
    size_t told = 0;

    dlr_report_rows_init(r, &rows);
    fputs("\nnodes\n", out);
    for (size_t i = 0; i < rows.n; i++)
        for (size_t k = 0; k < rows.list[i].n; k++) {
            const struct dlr_report_node *n = &r->nodes[rows.list[i].nodes[k]];
            const struct dlr_cli_node *seat = dlr_report_seat(r, n->name);
            bool well =
                !seat || (seat->role != DLR_CLI_DEAD && seat->role != DLR_CLI_EXCLUDED);

            if ((well && r->nnodes > SHOWN) || told++ >= DLR_REPORT_NAMED)
                continue;
            ranks[0] = '\0';
            if (seat && seat->tasks > 0)
                dlr_cli_ranks(seat->ranks, seat->first, seat->tasks, ranks,
                              sizeof(ranks));
            fprintf(out, "  %-16s%-10s%-12s%s\n", plain(n->name, name),
                    seat ? dlr_cli_role_name(dlr_cli_state_role(&r->state, seat)) : "",
                    ranks, seat && seat->reason ? plain(seat->reason, why) : "");
        }
    if (r->nnodes > SHOWN)
        fprintf(out, "  %zu nodes in all; shown are those that are dead or left out\n",
                r->nnodes);
    dlr_report_rows_done(&rows);
}

static void put_event(const json_t *e, FILE *out)
{
    char words[DLR_JOURNAL_EVENT_TEXT];

    if (!e)
        return;
    dlr_journal_event_text(e, words, sizeof(words));
    fprintf(out, "  %s\n", words);
}

static void put_saves(const struct dlr_report *r, FILE *out)
{
    const struct dlr_cli_version *v = &r->state.committed;

    fputs("\ncheckpoints\n", out);
    if (v->set)
        fprintf(out, "  committed: step %lld of round %lld", (long long)v->step,
                (long long)v->round);
    else
        fputs("  committed: none", out);
    fprintf(out,
            "; %lld in all, %lld given up; %lld restored, %lld written to the disk\n",
            (long long)r->state.commits, (long long)r->state.aborts,
            (long long)r->restores, (long long)r->npersisted);
    put_event(r->persisted, out);
    put_event(r->state.cadence, out);
    put_event(r->links, out);
}

void dlr_report_text(const struct dlr_report *r, const struct dlr_report_about *about,
                     FILE *out)
{
    char text[ROOM], job[ROOM], run[ROOM];

    fprintf(out, "job %s, run %s", plain(r->state.job ? r->state.job : about->job, job),
            plain(about->run, run));
    if (about->others)
        fprintf(out, " (%u other run%s: --run)", about->others,
                about->others == 1 ? "" : "s");
    dlr_report_headline(r, about, text, sizeof(text));
    fprintf(out, "\n%s\n", text);
    put_time(r, out);
    put_incidents(r, out);
    put_rounds(r, out);
    put_nodes(r, out);
    put_saves(r, out);
    if (r->state.bad_lines)
        fprintf(out, "\n%llu lines of the journal are no events\n",
                (unsigned long long)r->state.bad_lines);
}
