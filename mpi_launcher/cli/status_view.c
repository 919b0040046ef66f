/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_launcher/cli/status_view.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "mpi_launcher/journal/event_text.h"
#include "mpi_launcher/journal/text.h"

/* a journal quiet for so long may be that of a job that is gone */
#define SILENT_MS 60000
#define FEW_EVENTS 4 /* shown when there is no room for all nodes and events */
#define FIXED_ROWS 3 /* the head of the table, an empty line, the line of the cursor */

#define BOLD "\033[1m"
#define RED "\033[1;31m"
#define GREEN "\033[1;32m"
#define YELLOW "\033[1;33m"
#define DIM "\033[2m"
#define NORMAL ""

struct page {
    const struct dlr_cli_look *look;
    unsigned column, rows;
};

/* --- writing ---------------------------------------------------------------------- */

/* Whether the terminal has a line left; the cursor rests on its last one. */
static bool is_full(const struct page *p)
{
    return p->look->height && p->rows + 1 >= p->look->height;
}

/* Writes what of the text fits the line; continuation bytes of UTF-8 take no column. */
__attribute__((format(printf, 3, 4))) static void put(struct page *p, const char *style,
                                                      const char *fmt, ...)
{
    const struct dlr_cli_look *look = p->look;
    char text[DLR_JOURNAL_EVENT_TEXT + 256];
    size_t n = 0;
    va_list ap;

    if (is_full(p))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    dlr_cli_clean(text);
    for (; text[n]; n++) {
        bool first = ((unsigned char)text[n] & 0xc0) != 0x80;

        if (first && look->width && p->column >= look->width)
            break;
        p->column += first;
    }
    if (look->colour && style[0] && n)
        fprintf(look->out, "%s%.*s\033[0m", style, (int)n, text);
    else
        fwrite(text, 1, n, look->out);
}

static void end_line(struct page *p)
{
    if (is_full(p))
        return;
    if (p->look->live)
        fputs("\033[K", p->look->out);
    fputc('\n', p->look->out);
    p->column = 0;
    p->rows++;
}

static void pad_to(struct page *p, unsigned column)
{
    unsigned n = column > p->column ? column - p->column : 1;

    put(p, NORMAL, "%*s", (int)n, "");
}

static void label(struct page *p, const char *name)
{
    put(p, NORMAL, "%s", name);
    pad_to(p, 11);
}

/* --- head ------------------------------------------------------------------------- */

static const struct {
    const char *word, *style;
} conditions[] = {
    [DLR_CLI_STARTING] = {"STARTING", YELLOW},
    [DLR_CLI_RUNNING] = {"RUNNING", GREEN},
    [DLR_CLI_STALLED] = {"NO NEW STEP", RED},
    [DLR_CLI_RECOVERING] = {"RECOVERING", YELLOW},
    [DLR_CLI_SUSPENDED] = {"SUSPENDED", YELLOW},
    [DLR_CLI_REQUEUED] = {"REQUEUED", YELLOW},
    [DLR_CLI_DONE] = {"DONE", GREEN},
    [DLR_CLI_FAILED] = {"FAILED", RED},
};

static void put_title(struct page *p, const struct dlr_cli_state *s,
                      const struct dlr_cli_run *run, int64_t now_ms)
{
    char clock[32];

    dlr_cli_time_text(now_ms, clock, sizeof(clock));
    clock[19] = '\0';
    put(p, NORMAL, "job ");
    put(p, BOLD, "%s", s->job ? s->job : run->job);
    put(p, NORMAL, "  run %s", s->run ? s->run : run->run);
    if (s->incarnation)
        put(p, NORMAL, "  requeued %lld time%s", (long long)s->incarnation,
            s->incarnation == 1 ? "" : "s");
    if (run->others)
        put(p, DIM, "  (%u other run%s, see --run)", run->others,
            run->others == 1 ? "" : "s");
    put(p, NORMAL, "  ");
    if (p->look->width > p->column + 19)
        pad_to(p, p->look->width - 19);
    put(p, DIM, "%s", clock);
    end_line(p);
}

static void put_condition(struct page *p, const struct dlr_cli_state *s, int64_t now_ms)
{
    enum dlr_run_condition condition = dlr_cli_state_condition(s, now_ms);
    char span[32], when[32];

    put(p, conditions[condition].style, "%s", conditions[condition].word);
    put(p, NORMAL, "  ");
    if (s->over) {
        dlr_cli_time_text(s->phase_ms, when, sizeof(when));
        dlr_cli_span((int64_t)(s->wall_s * 1000), span, sizeof(span));
        put(p, NORMAL, "at %.19s, %lld round%s in %s, exit code %lld", when,
            (long long)s->rounds, s->rounds == 1 ? "" : "s", span, (long long)s->code);
    } else if (condition == DLR_CLI_STALLED) {
        dlr_cli_span(now_ms - s->step_ms, span, sizeof(span));
        put(p, NORMAL, "for %s; round %lld", span, (long long)s->round);
    } else {
        dlr_cli_span(now_ms - s->phase_ms, span, sizeof(span));
        put(p, NORMAL, "%s, for %s", dlr_cli_phase_words(s->phase), span);
        if (s->round >= 0)
            put(p, NORMAL, "; round %lld", (long long)s->round);
    }
    end_line(p);
    if (s->why && condition != DLR_CLI_RUNNING && condition != DLR_CLI_STALLED) {
        label(p, "reason");
        put(p, NORMAL, "%s", s->why);
        end_line(p);
    }
    if (s->still && condition == DLR_CLI_STALLED) {
        label(p, "still");
        put(p, NORMAL, "%s", s->still);
        end_line(p);
    }
    if (p->look->waits_for && p->look->waits_for[0]) {
        label(p, "waits for");
        put(p, NORMAL, "%s", p->look->waits_for);
        end_line(p);
    }
}

static void put_step(struct page *p, const struct dlr_cli_state *s, int64_t now_ms)
{
    char span[32];

    if (s->step < 0)
        return;
    dlr_cli_span(now_ms - s->step_ms, span, sizeof(span));
    label(p, "step");
    put(p, BOLD, "%lld", (long long)s->step);
    if (s->rate > 0)
        put(p, NORMAL, ", %.3g steps/s", s->rate);
    if (!s->over)
        put(p, NORMAL, ", told %s ago", span);
    end_line(p);
}

static void put_committed(struct page *p, const struct dlr_cli_state *s, int64_t now_ms)
{
    char span[32];

    if (!s->committed.set && s->step < 0)
        return;
    label(p, "committed");
    if (s->committed.set)
        put(p, NORMAL, "step %lld of round %lld", (long long)s->committed.step,
            (long long)s->committed.round);
    else
        put(p, NORMAL, "nothing yet");
    if (s->commit_ms && !s->over) {
        dlr_cli_span(now_ms - s->commit_ms, span, sizeof(span));
        put(p, NORMAL, ", %s ago", span);
    }
    if (s->stake_ms && !s->over && s->step >= 0) {
        dlr_cli_span(now_ms - s->stake_ms, span, sizeof(span));
        put(p, NORMAL, ", would lose about %s now", span);
    }
    if (s->commits || s->aborts)
        put(p, NORMAL, " (%lld commits, %lld given up)", (long long)s->commits,
            (long long)s->aborts);
    end_line(p);
}

static void put_survives(struct page *p, const struct dlr_cli_state *s)
{
    if (!s->survives || s->over)
        return;
    label(p, "survives");
    put(p, NORMAL, "%s", s->survives);
    end_line(p);
}

static void put_unprotected(struct page *p, const struct dlr_cli_state *s,
                            int64_t now_ms)
{
    char span[32];

    if (!s->degraded_since_ms || s->over)
        return;
    dlr_cli_span(now_ms - s->degraded_since_ms, span, sizeof(span));
    label(p, "unprotected");
    put(p, BOLD, "for %s", span);
    put(p, NORMAL, ", since %s was lost: another loss may cost committed steps",
        s->degraded_node ? s->degraded_node : "a node");
    end_line(p);
}

/* What was said last of how saves go. */
static void put_told(struct page *p, const char *name, const json_t *event)
{
    char words[DLR_JOURNAL_EVENT_TEXT];

    if (!event)
        return;
    dlr_journal_event_text(event, words, sizeof(words));
    label(p, name);
    put(p, NORMAL, "%s", words);
    end_line(p);
}

/* What snapshots take of the fullest node's memory, and would without what is optional.
 */
static void put_memory(struct page *p, const json_t *e)
{
    const char *node = json_string_value(json_object_get(e, "node"));

    if (!node)
        return;
    label(p, "memory");
    put(p, NORMAL, "%.1f of %.1f MB on %s, the fullest node; %.1f at least",
        json_number_value(json_object_get(e, "taken_mb")),
        json_number_value(json_object_get(e, "limit_mb")), node,
        json_number_value(json_object_get(e, "least_mb")));
    end_line(p);
}

static void put_counts(struct page *p, const struct dlr_cli_state *s)
{
    bool any = false;

    label(p, "nodes");
    for (int role = 0; role < DLR_CLI_ROLES; role++) {
        unsigned n = dlr_cli_state_count(s, role);

        if (n)
            put(p, role == DLR_CLI_DEAD ? RED : NORMAL, "%s%u %s", any ? ", " : "", n,
                dlr_cli_role_name(role));
        any = any || n;
    }
    put(p, NORMAL, "; %lld ranks", (long long)s->world);
    end_line(p);
    label(p, "restarts");
    put(p, NORMAL, "%lld of %lld used", (long long)s->restarts,
        (long long)s->max_restarts);
    end_line(p);
}

static void put_doubts(struct page *p, const struct dlr_cli_state *s, int64_t now_ms)
{
    bool quiet = now_ms - s->last_ms > SILENT_MS && !s->over &&
                 s->phase != DLR_CLI_RUN && s->phase != DLR_CLI_REQUEUE;
    char span[32];

    if (quiet) {
        dlr_cli_span(now_ms - s->last_ms, span, sizeof(span));
        put(p, YELLOW,
            "the journal's last word is %s old: is the job still there? "
            "(squeue -j %s)",
            span, s->job ? s->job : "ID");
        end_line(p);
    }
    if (s->no_memory_why && !s->over) {
        put(p, YELLOW, "nothing is saved in this round (%lld ranks without memory): %s",
            (long long)s->no_memory, s->no_memory_why);
        end_line(p);
    }
    if (s->bad_lines || s->dropped_lines) {
        put(p, YELLOW,
            "the journal has %llu lines that are no events and has lost %lld",
            (unsigned long long)s->bad_lines, (long long)s->dropped_lines);
        end_line(p);
    }
}

/* --- nodes ------------------------------------------------------------------------ */

struct widths {
    unsigned leaf, node, role, ranks;
};

static unsigned wider(unsigned width, const char *text)
{
    size_t n = text ? strlen(text) : 0;

    return n > width ? (unsigned)n : width;
}

static void ranks_text(const struct dlr_cli_node *n, char *buf, size_t size)
{
    if (n->tasks < 1)
        snprintf(buf, size, "-");
    else
        dlr_cli_ranks(n->ranks, n->first, n->tasks, buf, size);
}

static struct widths measure(const struct dlr_cli_state *s)
{
    struct widths w = {4, 4, 4, 5};
    char ranks[48];

    for (size_t i = 0; i < s->nnodes; i++) {
        ranks_text(&s->nodes[i], ranks, sizeof(ranks));
        w.leaf = wider(w.leaf, s->nodes[i].leaf);
        w.node = wider(w.node, s->nodes[i].name);
        w.role = wider(w.role, dlr_cli_role_name(dlr_cli_state_role(s, &s->nodes[i])));
        w.ranks = wider(w.ranks, ranks);
    }
    return w;
}

static const char *role_style(enum dlr_cli_role role)
{
    switch (role) {
    case DLR_CLI_TRAINING:
        return GREEN;
    case DLR_CLI_DEAD:
    case DLR_CLI_EXCLUDED:
        return RED;
    case DLR_CLI_RELEASED:
        return NORMAL;
    default:
        return YELLOW;
    }
}

static void put_node(struct page *p, const struct dlr_cli_state *s,
                     const struct widths *w, const struct dlr_cli_node *n,
                     bool same_leaf)
{
    enum dlr_cli_role role = dlr_cli_state_role(s, n);
    char ranks[48];

    ranks_text(n, ranks, sizeof(ranks));
    put(p, NORMAL, "%-*s  %-*s  ", (int)w->leaf,
        same_leaf               ? ""
        : n->leaf && n->leaf[0] ? n->leaf
                                : "-",
        (int)w->node, n->name);
    put(p, role_style(role), "%-*s", (int)w->role, dlr_cli_role_name(role));
    put(p, NORMAL, "  %-*s  ", (int)w->ranks, ranks);
    if (n->moved)
        put(p, YELLOW, "took over; ");
    if (n->partner)
        put(p, NORMAL, "%s on %s", n->parity ? "parity" : "copies", n->partner);
    if (n->reason)
        put(p, NORMAL, "%s", n->reason);
    end_line(p);
}

static const struct dlr_cli_state *sorted_state; /* qsort(3) hands nothing over */

static int by_leaf(const void *a, const void *b)
{
    const struct dlr_cli_node *x = &sorted_state->nodes[*(const size_t *)a];
    const struct dlr_cli_node *y = &sorted_state->nodes[*(const size_t *)b];
    int order = strverscmp(x->leaf ? x->leaf : "", y->leaf ? y->leaf : "");

    return order ? order : strverscmp(x->name, y->name);
}

/* When not all fit, what is out of the ordinary comes first. */
static int by_role(const void *a, const void *b)
{
    int x = sorted_state->nodes[*(const size_t *)a].role != DLR_CLI_TRAINING;
    int y = sorted_state->nodes[*(const size_t *)b].role != DLR_CLI_TRAINING;

    return x != y ? y - x : by_leaf(a, b);
}

static void put_nodes(struct page *p, const struct dlr_cli_state *s, size_t room)
{
    DLR_AUTO_FREE size_t *order = calloc(s->nnodes + 1, sizeof(*order));
    struct widths w = measure(s);
    size_t shown = s->nnodes > room ? room : s->nnodes;
    const char *leaf = NULL;

    if (!order || s->nnodes == 0)
        return;
    for (size_t i = 0; i < s->nnodes; i++)
        order[i] = i;
    sorted_state = s;
    if (shown < s->nnodes)
        qsort(order, s->nnodes, sizeof(*order), by_role);
    qsort(order, shown, sizeof(*order), by_leaf);
    put(p, DIM, "%-*s  %-*s  %-*s  %-*s", (int)w.leaf, "LEAF", (int)w.node, "NODE",
        (int)w.role, "ROLE", (int)w.ranks, "RANKS");
    end_line(p);
    for (size_t i = 0; i < shown; i++) {
        const struct dlr_cli_node *n = &s->nodes[order[i]];

        put_node(p, s, &w, n, n->leaf && dlr_streq(n->leaf, leaf));
        leaf = n->leaf;
    }
    if (shown < s->nnodes) {
        put(p, DIM, "... and %zu more", s->nnodes - shown);
        end_line(p);
    }
}

/* --- all -------------------------------------------------------------------------- */

static void put_events(struct page *p, const struct dlr_cli_state *s, size_t n,
                       int64_t now_ms)
{
    for (uint64_t i = s->nlast - n; i < s->nlast; i++) {
        const json_t *e = s->last[i % DLR_CLI_LAST];
        const char *time = json_string_value(json_object_get(e, "time"));
        char words[DLR_JOURNAL_EVENT_TEXT], when[32] = "?";
        int64_t ms;

        if (dlr_cli_time_parse(time, &ms) == 0)
            dlr_cli_time_brief(ms, now_ms, when, sizeof(when));
        dlr_journal_event_text(e, words, sizeof(words));
        put(p, DIM, "%s  ", when);
        put(p, NORMAL, "%s", words);
        end_line(p);
    }
}

/* Nodes come before old events; a table that does not fit needs a line to say so. */
static void share_rows(size_t rows, size_t nodes, size_t *room, size_t *events)
{
    if (nodes > rows)
        nodes = rows + 1; /* does not fit, by how much is no matter */
    if (nodes + *events <= rows)
        return;
    if (*events > FEW_EVENTS)
        *events = rows > nodes + FEW_EVENTS ? rows - nodes : FEW_EVENTS;
    if (nodes + *events > rows)
        *room = rows > *events + 1 ? rows - *events - 1 : 1;
}

void dlr_cli_view(const struct dlr_cli_look *look, const struct dlr_cli_state *s,
                  const struct dlr_cli_run *run, int64_t now_ms)
{
    struct page page = {.look = look}, *p = &page;
    size_t events = s->nlast < DLR_CLI_LAST ? (size_t)s->nlast : DLR_CLI_LAST;
    size_t room = SIZE_MAX;

    put_title(p, s, run, now_ms);
    put_condition(p, s, now_ms);
    put_step(p, s, now_ms);
    put_committed(p, s, now_ms);
    put_survives(p, s);
    put_unprotected(p, s, now_ms);
    if (!s->over) {
        put_memory(p, s->saving);
        put_told(p, "saves", s->cadence);
        put_told(p, "", s->every_step);
        put_told(p, "disk", s->persisted);
        put_told(p, "network", s->network);
    }
    put_counts(p, s);
    put_doubts(p, s, now_ms);
    end_line(p);
    if (look->height)
        share_rows(look->height > p->rows + FIXED_ROWS
                       ? look->height - p->rows - FIXED_ROWS
                       : 0,
                   s->nnodes, &room, &events);
    put_nodes(p, s, room);
    end_line(p);
    put_events(p, s, events, now_ms);
}
