/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong, with the lines of the journal that show it. */
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "mpi_launcher/journal/event_fields.h"
#include "mpi_launcher/journal/event_text.h"
#include "mpi_launcher/journal/text.h"
#include "mpi_launcher/report/model.h"

#define RECENT_MS 60000 /* an older line does not belong to what happens now */

enum part {
    NOTHING,
    EVIDENCE, /* belongs to the incident that is open, or to the next one */
    ANSWER,   /* what was done; belongs to the one that is open */
    BEGIN,    /* an incident of its own when none is open */
    ROUND_END,
    STEP, /* it goes on */
};

static const struct {
    const char *event;
    enum part part;
    const char *cause; /* of an incident that begins with it */
} table[] = {
    {"node_dead", EVIDENCE, NULL},
    {"lease_expired", EVIDENCE, NULL},
    {"worker_exit", EVIDENCE, NULL},
    {"term", EVIDENCE, NULL},
    {"warned", EVIDENCE, NULL},
    {"unprotected", EVIDENCE, NULL},
    {"restore_failed", EVIDENCE, NULL},
    {"copy_failed", EVIDENCE, NULL},
    {"ranks_missing", EVIDENCE, NULL},
    {"explained", EVIDENCE, NULL},
    {"inject", EVIDENCE, NULL},
    {"cleared", ANSWER, NULL},
    {"persist", ANSWER, NULL},
    {"plan", ANSWER, NULL},
    {"prepared", ANSWER, NULL},
    {"restored", ANSWER, NULL},
    {"gone_back", ANSWER, NULL},
    {"resized", ANSWER, NULL},
    {"start", ANSWER, NULL},
    {"requeued", ANSWER, NULL},
    {"controller_back", ANSWER, NULL},
    {"copy_remade", ANSWER, NULL},
    {"rendezvous_failed", BEGIN, "rendezvous"},
    {"requeue", BEGIN, "requeue"},
    {"requeue_failed", BEGIN, "requeue"},
    {"takeover", BEGIN, "control"},
    {"controller_away", BEGIN, "controller"},
    {"suspended", BEGIN, "suspended"},
    {"no_memory", BEGIN, "memory"},
    {"overdue", BEGIN, "saves"},
    {"torn", BEGIN, "torn"},
    {"copy_bad", BEGIN, "copy"},
    {"marked_bad", BEGIN, "version"},
    {"round_end", ROUND_END, NULL},
    {"first_step", STEP, NULL},
    {"progress", STEP, NULL},
    {"adopted", STEP, NULL},
    {"resumed", STEP, NULL},
};

static void free_incident(struct dlr_report_incident *i)
{
    free(i->cause);
    free(i->node);
    free(i->why);
    free(i->advice);
    for (unsigned n = 0; n < i->nlines; n++)
        free(i->lines[n]);
}

static char *line_of(const struct dlr_report *r, const json_t *e)
{
    char words[DLR_JOURNAL_EVENT_TEXT], when[32];

    dlr_cli_time_text(r->ms, when, sizeof(when));
    dlr_journal_event_text(e, words, sizeof(words));
    return dlr_format_new("%s  %s", when + 11, words);
}

static void add_line(struct dlr_report *r, const json_t *e)
{
    struct dlr_report_incident *i = &r->incidents[r->nincidents - 1];
    char *line = i->nlines < DLR_REPORT_LINES ? line_of(r, e) : NULL;

    if (line)
        i->lines[i->nlines++] = line;
}

static void forget_recent(struct dlr_report *r)
{
    for (unsigned n = 0; n < r->nrecent; n++)
        free(r->recent[n]);
    r->nrecent = 0;
    dlr_cli_set_text(&r->lost_node, NULL);
    dlr_cli_set_text(&r->said, NULL);
}

/* Ours are shorter; a page has its limit. */
static void take_advice(char **advice, const json_t *e)
{
    const char *text = dlr_cli_event_text(e, "advice");

    if (text && strlen(text) <= DLR_REPORT_ADVICE)
        dlr_cli_set_text(advice, text);
}

static void add_recent(struct dlr_report *r, const json_t *e)
{
    char *line;

    if (r->nrecent == DLR_REPORT_LINES / 2) {
        free(r->recent[0]);
        memmove(r->recent, r->recent + 1, --r->nrecent * sizeof(*r->recent));
        memmove(r->recent_ms, r->recent_ms + 1, r->nrecent * sizeof(*r->recent_ms));
    }
    if (!(line = line_of(r, e)))
        return;
    r->recent_ms[r->nrecent] = r->ms;
    r->recent[r->nrecent++] = line;
    if (dlr_cli_event_text(e, "node"))
        dlr_cli_set_text(&r->lost_node, dlr_cli_event_text(e, "node"));
    take_advice(&r->said, e);
}

/* Lines that led to it, as far as they are not old. */
static void take_recent(struct dlr_report *r, struct dlr_report_incident *i)
{
    for (unsigned n = 0; n < r->nrecent; n++) {
        if (r->ms - r->recent_ms[n] > RECENT_MS)
            continue;
        i->lines[i->nlines++] = r->recent[n];
        r->recent[n] = NULL;
    }
    if (i->nlines) {
        dlr_cli_set_text(&i->node, r->lost_node);
        dlr_cli_set_text(&i->advice, r->said);
    }
    forget_recent(r);
}

static void begin(struct dlr_report *r, const json_t *e, const char *cause)
{
    struct dlr_report_incident *more, *i;
    const char *why = dlr_cli_event_text(e, "why");

    if (r->nincidents == DLR_REPORT_INCIDENTS) {
        free_incident(&r->incidents[0]);
        memmove(r->incidents, r->incidents + 1,
                --r->nincidents * sizeof(*r->incidents));
        r->incidents_before++;
    }
    more = realloc(r->incidents, (r->nincidents + 1) * sizeof(*more));
    r->open = false;
    if (!more)
        return;
    r->incidents = more;
    i = &r->incidents[r->nincidents++];
    *i = (struct dlr_report_incident){
        .ms = r->ms, .round = r->state.round, .redone = -1, .outage_ms = -1};
    dlr_cli_set_text(&i->cause, cause ? cause : "unknown");
    dlr_cli_set_text(&i->why, why ? why : dlr_cli_event_text(e, "event"));
    take_recent(r, i);
    if (dlr_cli_event_text(e, "node"))
        dlr_cli_set_text(&i->node, dlr_cli_event_text(e, "node"));
    add_line(r, e);
    r->open = true;
}

static void on_evidence(struct dlr_report *r, const json_t *e)
{
    struct dlr_report_incident *i = r->open ? &r->incidents[r->nincidents - 1] : NULL;

    if (!i) {
        add_recent(r, e);
        return;
    }
    if (!i->node && dlr_cli_event_text(e, "node"))
        dlr_cli_set_text(&i->node, dlr_cli_event_text(e, "node"));
    take_advice(&i->advice, e);
    if (dlr_streq(dlr_cli_event_text(e, "event"), "explained")) {
        dlr_cli_set_text(&i->cause, dlr_cli_event_text(e, "cause"));
        dlr_cli_set_text(&i->why, dlr_cli_event_text(e, "why"));
    }
    add_line(r, e);
}

/* The first step since: what it cost is known. */
static void on_step(struct dlr_report *r, const json_t *e)
{
    struct dlr_report_incident *i = r->open ? &r->incidents[r->nincidents - 1] : NULL;

    if (i && i->outage_ms < 0)
        i->outage_ms = r->ms > i->ms ? r->ms - i->ms : 0;
    r->open = false;
    forget_recent(r);
}

/* How far the round was, against what is restored. */
static void count_redone(struct dlr_report *r)
{
    struct dlr_report_incident *i = &r->incidents[r->nincidents - 1];
    const struct dlr_report_round *before = NULL;

    if (r->nrounds > 1)
        before = &r->rounds[r->nrounds - 2];
    if (before && before->last >= 0 && i->redone < 0) {
        int64_t from = r->state.restore.set ? r->state.restore.step : 0;

        i->redone = before->last > from ? before->last - from : 0;
    }
}

static void on_health(struct dlr_report *r, const json_t *e)
{
    const char *verdict = dlr_cli_event_text(e, "verdict");

    if (!dlr_streq(verdict, "fail") && !dlr_streq(verdict, "drain"))
        return;
    if (r->open) {
        add_line(r, e);
        return;
    }
    begin(r, e, "health");
    if (r->open)
        dlr_cli_set_text(&r->incidents[r->nincidents - 1].why,
                         dlr_cli_event_text(e, "reason"));
    r->open = false;
}

static void on_end(struct dlr_report *r, const json_t *e)
{
    if (dlr_cli_event_int(e, "code", 0) != 0 && !r->open)
        begin(r, e, "end");
    else if (r->open)
        add_line(r, e);
    r->open = false;
}

void dlr_report_incidents_take(struct dlr_report *r, const json_t *e)
{
    const char *name = dlr_cli_event_text(e, "event");
    enum part part = NOTHING;
    size_t n = 0;

    while (n < sizeof(table) / sizeof(*table) && !dlr_streq(table[n].event, name))
        n++;
    if (n < sizeof(table) / sizeof(*table))
        part = table[n].part;
    if (dlr_streq(name, "check"))
        on_health(r, e);
    else if (dlr_streq(name, "end"))
        on_end(r, e);
    else if (part == EVIDENCE)
        on_evidence(r, e);
    else if (part == ROUND_END)
        begin(r, e, dlr_cli_event_text(e, "cause"));
    else if (part == BEGIN && !r->open)
        begin(r, e, table[n].cause);
    else if ((part == ANSWER || part == BEGIN) && r->open)
        add_line(r, e);
    else if (part == STEP)
        on_step(r, e);
    if (dlr_streq(name, "plan") && r->open)
        count_redone(r);
}

void dlr_report_incidents_done(struct dlr_report *r)
{
    forget_recent(r);
    for (size_t i = 0; i < r->nincidents; i++)
        free_incident(&r->incidents[i]);
    free(r->incidents);
}
