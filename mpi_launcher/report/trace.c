/* SPDX-License-Identifier: Apache-2.0 */
/* A run as a trace: tracks that ui.perfetto.dev shows below each other, on one clock. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/journal/event_fields.h"
#include "mpi_launcher/journal/event_text.h"
#include "mpi_launcher/journal/text.h"
#include "mpi_launcher/report/model.h"

#define NS_PER_MS 1000000

enum track {
    TRACK_RUN = 1,
    TRACK_ROUNDS,
    TRACK_CAUSES,
    TRACK_INCIDENTS,
    TRACK_EVENTS,
    TRACK_STEP,
    TRACK_COMMITTED,
    TRACK_NODES,
    TRACK_FIRST_NODE = 1000,
};

/* --- what is kept of lines -------------------------------------------------------- */

void dlr_report_traced(struct dlr_report *r)
{
    r->traced = true;
}

/* Room for one more, doubled at each power of two; false without memory. */
static bool grow(void **list, size_t n, size_t size)
{
    void *more = *list;

    if ((n & (n - 1)) == 0)
        more = realloc(*list, (n ? 2 * n : 1) * size);
    if (more)
        *list = more;
    return more != NULL;
}

static void keep_sample(struct dlr_report *r, const json_t *e)
{
    const json_t *committed = json_array_get(json_object_get(e, "committed"), 1);

    if (!grow((void **)&r->samples, r->nsamples, sizeof(*r->samples)))
        return;
    r->samples[r->nsamples++] = (struct dlr_report_sample){
        .ms = r->ms,
        .step = dlr_cli_event_int(e, "step", -1),
        .committed = json_is_integer(committed) ? json_integer_value(committed) : -1,
    };
}

static void keep_mark(struct dlr_report *r, const json_t *e, const char *name)
{
    char text[DLR_JOURNAL_EVENT_TEXT];
    int64_t took_ms = dlr_cli_event_int(e, "took_ms", 0);
    struct dlr_report_mark *mark;

    if (!grow((void **)&r->marks, r->nmarks, sizeof(*r->marks)))
        return;
    dlr_journal_event_text(e, text, sizeof(text));
    mark = &r->marks[r->nmarks++];
    *mark = (struct dlr_report_mark){.ms = r->ms, .took_ms = took_ms > 0 ? took_ms : 0};
    dlr_cli_set_text(&mark->name, name);
    dlr_cli_set_text(&mark->text, text);
}

void dlr_report_trace_take(struct dlr_report *r, const json_t *e)
{
    const char *name = dlr_cli_event_text(e, "event");

    if (dlr_streq(name, "progress"))
        keep_sample(r, e);
    else
        keep_mark(r, e, name);
}

void dlr_report_trace_done(struct dlr_report *r)
{
    for (size_t i = 0; i < r->nmarks; i++) {
        free(r->marks[i].name);
        free(r->marks[i].text);
    }
    free(r->marks);
    free(r->samples);
}

/* --- tracks ----------------------------------------------------------------------- */

/* from_ms: what ended before is left out, what began before is cut. */
struct window {
    struct dlr_trace *t;
    int64_t from_ms, to_ms;
};

static void slice(const struct window *w, uint64_t track, int64_t from_ms,
                  int64_t to_ms, const char *name, const struct dlr_trace_arg *args)
{
    if (from_ms < w->from_ms)
        from_ms = w->from_ms;
    if (to_ms > w->to_ms)
        to_ms = w->to_ms;
    if (to_ms > from_ms)
        dlr_trace_slice(w->t, track, from_ms * NS_PER_MS, to_ms * NS_PER_MS, name,
                        args);
}

static bool within(const struct window *w, int64_t ms)
{
    return ms >= w->from_ms && ms <= w->to_ms;
}

static void draw_rounds(const struct dlr_report *r, const struct window *w)
{
    int64_t free_ms = 0;

    for (size_t i = 0; i < r->nrounds; i++) {
        const struct dlr_report_round *round = &r->rounds[i];
        int64_t from_ms = round->from_ms > free_ms ? round->from_ms : free_ms;
        const struct dlr_trace_arg args[] = {
            {.name = "first step", .number = round->first},
            {.name = "last step", .number = round->last},
            {.name = "restored step",
             .number = round->restore.set ? round->restore.step : -1},
            {.name = "ended by", .text = round->cause ? round->cause : ""},
            {.name = "why", .text = round->why ? round->why : ""},
            {0},
        };
        char name[48];

        dlr_format(name, sizeof(name), "round %lld", (long long)round->round);
        slice(w, TRACK_ROUNDS, from_ms, round->to_ms, name, args);
        free_ms = round->to_ms > free_ms ? round->to_ms : free_ms;
    }
}

static void draw_causes(const struct dlr_report *r, const struct window *w)
{
    size_t n;
    const struct dlr_account_span *spans = dlr_account_spans(r->account, &n);

    for (size_t i = 0; i < n; i++) {
        const struct dlr_trace_arg args[] = {
            {.name = "what", .text = dlr_account_cause_words(spans[i].cause)},
            {.name = "round", .number = spans[i].round},
            {0},
        };

        slice(w, TRACK_CAUSES, spans[i].from_ms, spans[i].to_ms,
              dlr_account_cause_name(spans[i].cause), args);
    }
}

static void draw_incidents(const struct dlr_report *r, const struct window *w)
{
    int64_t free_ms = 0;

    for (size_t i = 0; i < r->nincidents; i++) {
        const struct dlr_report_incident *in = &r->incidents[i];
        int64_t from_ms = in->ms > free_ms ? in->ms : free_ms;
        int64_t to_ms = in->outage_ms < 0 ? w->to_ms : in->ms + in->outage_ms;
        const struct dlr_trace_arg args[] = {
            {.name = "node", .text = in->node ? in->node : ""},
            {.name = "why", .text = in->why ? in->why : ""},
            {.name = "steps to do again", .number = in->redone},
            {.name = "advice", .text = dlr_report_advice(in)},
            {0},
        };

        if (i + 1 < r->nincidents && to_ms > r->incidents[i + 1].ms)
            to_ms = r->incidents[i + 1].ms;
        slice(w, TRACK_INCIDENTS, from_ms, to_ms, dlr_report_words(in), args);
        free_ms = to_ms > free_ms ? to_ms : free_ms;
    }
}

static void draw_marks(const struct dlr_report *r, const struct window *w)
{
    for (size_t i = 0; i < r->nmarks; i++) {
        const struct dlr_report_mark *mark = &r->marks[i];
        const struct dlr_trace_arg args[] = {
            {.name = "text", .text = mark->text ? mark->text : ""},
            {.name = "took_ms", .number = mark->took_ms},
            {0},
        };

        if (within(w, mark->ms))
            dlr_trace_instant(w->t, TRACK_EVENTS, mark->ms * NS_PER_MS,
                              mark->name ? mark->name : "", args);
    }
}

static void draw_samples(const struct dlr_report *r, const struct window *w)
{
    for (size_t i = 0; i < r->nsamples; i++) {
        const struct dlr_report_sample *s = &r->samples[i];

        if (!within(w, s->ms))
            continue;
        if (s->step >= 0)
            dlr_trace_count(w->t, TRACK_STEP, s->ms * NS_PER_MS, s->step);
        if (s->committed >= 0)
            dlr_trace_count(w->t, TRACK_COMMITTED, s->ms * NS_PER_MS, s->committed);
    }
}

static void draw_node(const struct dlr_report_node *n, uint64_t track,
                      const struct window *w)
{
    const struct dlr_trace_arg args[] = {
        {.name = "leaf switch", .text = n->leaf ? n->leaf : ""}, {0}};

    dlr_trace_track(w->t, track, TRACK_NODES, n->name, NULL);
    for (size_t i = 0; i < n->nturns; i++) {
        int64_t to_ms = i + 1 < n->nturns ? n->turns[i + 1].ms : w->to_ms;

        slice(w, track, n->turns[i].ms, to_ms, dlr_cli_role_name(n->turns[i].role),
              args);
    }
}

static void draw(const struct dlr_report *r, const char *title, const struct window *w)
{
    static const struct {
        enum track track;
        const char *name, *unit;
    } tracks[] = {
        {TRACK_ROUNDS, "rounds", NULL},
        {TRACK_CAUSES, "where the time went", NULL},
        {TRACK_INCIDENTS, "incidents", NULL},
        {TRACK_EVENTS, "journal", NULL},
        {TRACK_STEP, "step", "steps"},
        {TRACK_COMMITTED, "committed step", "steps"},
        {TRACK_NODES, "nodes", NULL},
    };

    dlr_trace_track(w->t, TRACK_RUN, 0, title, NULL);
    for (size_t i = 0; i < sizeof(tracks) / sizeof(*tracks); i++)
        dlr_trace_track(w->t, tracks[i].track, TRACK_RUN, tracks[i].name,
                        tracks[i].unit);
    draw_rounds(r, w);
    draw_causes(r, w);
    draw_incidents(r, w);
    draw_marks(r, w);
    draw_samples(r, w);
    for (size_t i = 0; i < r->nnodes; i++)
        draw_node(&r->nodes[i], TRACK_FIRST_NODE + i, w);
}

/* How many there are at most; spans and turns of nodes are not looked at one by one. */
static uint64_t count(const struct dlr_report *r, const struct window *w)
{
    size_t spans;
    uint64_t n;

    dlr_account_spans(r->account, &spans);
    n = spans + r->nrounds + r->nincidents;
    for (size_t i = 0; i < r->nmarks; i++)
        n += within(w, r->marks[i].ms) ? 1 : 0;
    for (size_t i = 0; i < r->nsamples; i++)
        n += within(w, r->samples[i].ms) ? 2 : 0;
    for (size_t i = 0; i < r->nnodes; i++)
        n += r->nodes[i].nturns;
    return n;
}

int dlr_report_trace(const struct dlr_report *r, const struct dlr_report_about *about,
                     enum dlr_trace_format format, int64_t last_ms, uint64_t max,
                     FILE *out)
{
    struct dlr_trace t;
    struct window w = {.t = &t,
                       .from_ms = dlr_account_from_ms(r->account),
                       .to_ms = dlr_account_to_ms(r->account)};
    char title[600];

    if (last_ms && w.to_ms - last_ms > w.from_ms)
        w.from_ms = w.to_ms - last_ms;
    if (max && count(r, &w) > max)
        return -E2BIG;
    dlr_format(title, sizeof(title), "job %s, run %s", about->job, about->run);
    dlr_trace_begin(&t, out, format);
    draw(r, title, &w);
    dlr_trace_end(&t);
    return 0;
}
