/* SPDX-License-Identifier: Apache-2.0 */
#include "health/run/drain.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"

/* --- what Slurm says -------------------------------------------------------------- */

/* -N and a partition in the format make one line for each node in each partition, of
 * hidden ones (-a), too. The reason comes last: it may hold anything.
 */
const char *const dlr_drain_view_argv[] = {"sinfo",          "-h", "-a", "-N", "-o",
                                           "%N|%R|%T|%H|%E", NULL};

/* Comments have no letter of -o; -O pads and cuts. */
#define NODE_COLUMN 64u
const char *const dlr_drain_comments_argv[] = {
    "sinfo", "-h", "-a", "-N", "-O", "NodeList:64,Comment:256", NULL};

static bool read_row(char *line, struct dlr_drain_row *row)
{
    char *since;

    row->node = strsep(&line, "|");
    row->partition = strsep(&line, "|");
    row->state = strsep(&line, "|");
    since = strsep(&line, "|");
    row->reason = line;
    row->since_s = since ? strtoll(since, NULL, 10) : 0;
    return line && row->node[0] && row->partition[0];
}

int dlr_drain_view_parse(char *text, struct dlr_drain_view *ret)
{
    struct dlr_drain_row *rows;
    size_t lines = 1;
    char *line;

    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    rows = calloc(lines, sizeof(*rows));
    if (!rows)
        return -ENOMEM;
    ret->rows = rows;
    ret->n = 0;
    while ((line = strsep(&text, "\n")))
        if (read_row(line, &rows[ret->n]))
            ret->n++;
    return 0;
}

static void cut_blanks(char *s)
{
    size_t n = strlen(s);

    while (n && s[n - 1] == ' ')
        s[--n] = '\0';
}

/* Both lists have one order, so what belongs to a line is near the one before. */
void dlr_drain_comments_parse(char *text, struct dlr_drain_view *view)
{
    size_t at = 0;
    char *line;

    while ((line = strsep(&text, "\n"))) {
        char *comment = line + NODE_COLUMN;

        if (strlen(line) <= NODE_COLUMN)
            continue;
        cut_blanks(comment);
        comment[-1] = '\0';
        cut_blanks(line);
        if (!comment[0] || dlr_streq(comment, "(null)"))
            continue;
        for (size_t i = 0; i < view->n; i++, at++) {
            struct dlr_drain_row *row = &view->rows[at % view->n];

            if (dlr_streq(row->node, line) && !row->comment) {
                row->comment = comment;
                break;
            }
        }
    }
}

/* text begins with begin and "check=NAME,". */
static bool is_of_check(const char *text, const char *begin, const char *check)
{
    const char *at = text ? dlr_after(text, begin) : NULL;

    at = at ? dlr_after(at, "check=") : NULL;
    at = at ? dlr_after(at, check) : NULL;
    return at && (*at == ',' || !*at);
}

static bool has_word(const struct dlr_drain_row *row, const char *check)
{
    return is_of_check(row->comment, DLR_DRAIN_SITE_MARK, check);
}

static bool is_out(const struct dlr_drain_row *row)
{
    return strstr(row->state, "drain") || strstr(row->state, "down") ||
           strstr(row->state, "fail");
}

/* This node's row; it has one for each partition, which say the same of it. */
static const struct dlr_drain_row *find_self(const struct dlr_drain_case *c)
{
    for (size_t i = 0; i < c->view->n; i++)
        if (dlr_streq(c->view->rows[i].node, c->node))
            return &c->view->rows[i];
    return NULL;
}

/* --- a partition ------------------------------------------------------------------ */

/* What of a partition's other nodes is drained by us. */
struct share {
    unsigned nodes, allowed;
    unsigned recent;                    /* within the window, and before us if we are */
    unsigned same;                      /* of these for the same check */
    const struct dlr_drain_row *oldest; /* of these */
    bool marked;                        /* one carries the word for this check */
    char back[DLR_DRAIN_NODES];         /* the nodes of same, as many as fit */
};

static bool is_before(const struct dlr_drain_row *a, const struct dlr_drain_row *b)
{
    if (a->since_s != b->since_s)
        return a->since_s < b->since_s;
    return strcmp(a->node, b->node) < 0;
}

static void count_one(const struct dlr_drain_case *c, const char *check,
                      const struct dlr_drain_row *row,
                      const struct dlr_drain_row *taken, struct share *s)
{
    size_t used = strlen(s->back);

    s->nodes++;
    if (has_word(row, check))
        s->marked = true;
    if (dlr_streq(row->node, c->node) || !is_out(row) ||
        !dlr_after(row->reason, DLR_DRAIN_MARK))
        return;
    if (c->now_s - row->since_s >= DLR_DRAIN_WINDOW_S ||
        (taken && !is_before(row, taken)))
        return;
    s->recent++;
    if (!is_of_check(row->reason, DLR_DRAIN_MARK " ", check))
        return;
    s->same++;
    if (dlr_format(s->back + used, sizeof(s->back) - used, "%s%s", used ? "," : "",
                   row->node) < 0)
        s->back[used] = '\0'; /* it gives itself back */
    if (!s->oldest || is_before(row, s->oldest))
        s->oldest = row;
}

/* taken: our own row, if we have drained ourselves already; NULL: all others count. */
static struct share share_of(const struct dlr_drain_case *c, const char *check,
                             const char *partition, const struct dlr_drain_row *taken)
{
    struct share s = {0};

    for (size_t i = 0; i < c->view->n; i++)
        if (dlr_streq(c->view->rows[i].partition, partition))
            count_one(c, check, &c->view->rows[i], taken, &s);
    s.allowed = s.nodes * DLR_DRAIN_SHARE / 100;
    s.allowed = s.allowed ? s.allowed : 1;
    return s;
}

#define SITE "site fault? " /* how we say why we hold or give back for it */
#define BEHIND " // "       /* a node's own comment, when ours is before it */

/* --- deciding --------------------------------------------------------------------- */

static void say(struct dlr_drain_decision *d, enum dlr_drain_deed deed,
                const char *text)
{
    d->deed = deed;
    dlr_format(d->text, sizeof(d->text), "%.*s", (int)sizeof(d->text) - 1, text);
}

__attribute__((format(printf, 3, 4))) static void hold(struct dlr_drain_decision *d,
                                                       bool taken, const char *fmt, ...)
{
    va_list ap;

    d->deed = taken ? DLR_DRAIN_BACK : DLR_DRAIN_HOLD;
    va_start(ap, fmt);
    vsnprintf(d->text, sizeof(d->text), fmt, ap);
    va_end(ap);
}

/* The word goes to the oldest of those that are drained for it, in front of what its
 * comment has been; then all of these are resumed.
 */
static void site_fault(const struct share *s, struct dlr_drain_decision *d)
{
    const char *was = dlr_after(s->oldest->reason, DLR_DRAIN_MARK " "),
               *comment = s->oldest->comment;

    snprintf(d->mark_comment, sizeof(d->mark_comment),
             DLR_DRAIN_SITE_MARK "%.160s%s%.60s", was, comment ? BEHIND : "",
             comment ? comment : "");
    dlr_plain(d->mark_comment);
    snprintf(d->mark, sizeof(d->mark), "%s", s->oldest->node);
    memcpy(d->back, s->back, sizeof(d->back));
}

/* Whether one of the node's partitions speaks against it; then *d says so. */
static bool is_held(const struct dlr_drain_case *c, const char *check,
                    const struct dlr_drain_row *taken, struct dlr_drain_decision *d)
{
    for (size_t i = 0; i < c->view->n; i++) {
        const char *partition = c->view->rows[i].partition;
        struct share s;

        if (!dlr_streq(c->view->rows[i].node, c->node))
            continue;
        s = share_of(c, check, partition, taken);
        if (s.marked)
            hold(d, taken, SITE "check=%s, a node of partition %s has the word", check,
                 partition);
        else if (s.recent < s.allowed)
            continue;
        else
            hold(d, taken,
                 "%scheck=%s, in partition %s %u nodes were drained within the hour, "
                 "allowed are %u",
                 s.same == s.recent ? SITE : "limit: ", check, partition, s.recent,
                 s.allowed);
        if (!s.marked && s.same == s.recent)
            site_fault(&s, d);
        return true;
    }
    return false;
}

/* Our deeds are rows of one check; their verdict says which it was. */
static const enum dlr_health_verdict verdict_of[] = {
    [DLR_DRAIN_TAKE] = DLR_HEALTH_WARN, [DLR_DRAIN_KEEP] = DLR_HEALTH_DRAIN,
    [DLR_DRAIN_BACK] = DLR_HEALTH_FAIL, [DLR_DRAIN_HOLD] = DLR_HEALTH_FAIL,
    [DLR_DRAIN_RESUME] = DLR_HEALTH_OK, [DLR_DRAIN_OVER] = DLR_HEALTH_OK,
};

void dlr_drain_note(struct dlr_history *h, const struct dlr_drain_decision *d,
                    int64_t now_s)
{
    if (d->deed > DLR_DRAIN_LOOK)
        dlr_history_add(h, DLR_DRAIN_DEED, verdict_of[d->deed], d->text, now_s);
}

/* What the table says of when this check drains: "drain above 0", or all it says. */
static const char *limit_of(const char *check, size_t *ret_size)
{
    const struct dlr_health_check *c = dlr_health_checks;
    const char *limit = "", *drain;

    while (c->name && !dlr_streq(c->name, check))
        c++;
    if (c->name)
        limit = c->limit;
    drain = strstr(limit, "drain");
    limit = drain ? drain : limit;
    *ret_size = strcspn(limit, ";");
    return limit;
}

void dlr_drain_reason(const char *check, const char *value, char buf[DLR_DRAIN_TEXT])
{
    size_t size;
    const char *limit = limit_of(check, &size);

    if (strstr(value, "limit")) /* it says so itself */
        size = 0;
    snprintf(buf, DLR_DRAIN_TEXT, DLR_DRAIN_MARK " check=%.31s, %.120s%s%.*s", check,
             value, size ? ", limit: " : "", (int)(size < 60 ? size : 60), limit);
    dlr_plain(buf);
    for (char *at = buf; *at; at++)
        if (strchr("\"`$\\|",
                   *at)) /* it goes into a shell's quotes, and sinfo's line */
            *at = '\'';
}

/* The check that one of our reasons names; "" if none. */
static void check_of(const char *reason, char buf[32])
{
    const char *at = strstr(reason, "check=");

    at = at ? at + strlen("check=") : "";
    snprintf(buf, 32, "%.*s", (int)strcspn(at, ","), at);
}

/* The newest deed of that kind. */
static const struct dlr_history_row *last_deed(const struct dlr_history *h,
                                               enum dlr_drain_deed deed)
{
    for (unsigned i = h->n; i-- > 0;)
        if (dlr_streq(h->rows[i].check, DLR_DRAIN_DEED) &&
            h->rows[i].verdict == verdict_of[deed])
            return &h->rows[i];
    return NULL;
}

/* The first result that is bad for long enough, and not since before our last drain, or
 * before somebody else had his word on it.
 */
static const struct dlr_health_result *due(const struct dlr_drain_case *c)
{
    const struct dlr_history_row *kept = last_deed(c->history, DLR_DRAIN_KEEP),
                                 *over = last_deed(c->history, DLR_DRAIN_OVER);

    for (size_t i = 0; i < c->nresults; i++) {
        struct dlr_history_streak s;

        if (c->results[i].verdict != DLR_HEALTH_DRAIN)
            continue;
        s = dlr_history_streak(c->history, c->results[i].check);
        if (s.bad && s.count >= DLR_DRAIN_BAD && (!kept || s.first > kept) &&
            (!over || s.first > over))
            return &c->results[i];
    }
    return NULL;
}

/* Whether the node is out, and for what we said. */
static bool is_ours(const struct dlr_drain_row *self, const struct dlr_history_row *row)
{
    return self && row && is_out(self) && dlr_streq(self->reason, row->text);
}

static bool site_has_word(const struct dlr_drain_case *c, const char *check)
{
    for (size_t i = 0; i < c->view->n; i++)
        if (dlr_streq(c->view->rows[i].node, c->node) &&
            share_of(c, check, c->view->rows[i].partition, NULL).marked)
            return true;
    return false;
}

/* Drained, and not yet known whether there was room for it. */
static void settle(const struct dlr_drain_case *c, const struct dlr_history_row *taken,
                   struct dlr_drain_decision *d)
{
    const struct dlr_drain_row *self = c->view ? find_self(c) : NULL;
    char check[32];

    check_of(taken->text, check);
    if (!c->view)
        d->deed = DLR_DRAIN_LOOK;
    else if (!is_ours(self, taken) && site_has_word(c, check))
        hold(d, false, SITE "check=%s, the node was resumed for it", check);
    else if (!is_ours(self, taken)) /* it was not done, or not for long */
        hold(d, false, "the node is not drained as was asked for");
    else if (!is_held(c, check, self, d))
        say(d, DLR_DRAIN_KEEP, taken->text);
}

static bool is_well(const struct dlr_history_streak *s)
{
    return !s->bad && s->count >= DLR_DRAIN_GOOD &&
           s->last_s - s->first_s >= DLR_DRAIN_GOOD_S;
}

static bool all_are_good(const struct dlr_drain_case *c)
{
    for (size_t i = 0; i < c->nresults; i++)
        if (c->results[i].verdict >= DLR_HEALTH_FAIL)
            return false;
    return true;
}

static bool was_resumed(const struct dlr_drain_case *c)
{
    for (unsigned i = 0; i < c->history->n; i++) {
        const struct dlr_history_row *row = &c->history->rows[i];

        if (dlr_streq(row->check, DLR_DRAIN_DEED) && dlr_after(row->text, "resumed") &&
            c->now_s - row->last_s < DLR_DRAIN_RESUMED_S)
            return true;
    }
    return false;
}

/* Drained by us: well again, or was it the site's fault? */
static void look_after(const struct dlr_drain_case *c,
                       const struct dlr_history_row *kept, struct dlr_drain_decision *d)
{
    struct dlr_history_streak s;
    char check[32];
    bool well;

    check_of(kept->text, check);
    s = dlr_history_streak(c->history, check);
    well = c->may_resume && is_well(&s) && all_are_good(c) && !was_resumed(c);
    if (!well && (!s.bad || c->now_s - kept->last_s >= DLR_DRAIN_WINDOW_S))
        return;
    if (!c->view)
        d->deed = DLR_DRAIN_LOOK;
    else if (!is_ours(find_self(c), kept) && s.bad && site_has_word(c, check))
        hold(d, false, SITE "check=%s, the node was resumed for it", check);
    else if (!is_ours(find_self(c), kept))
        say(d, DLR_DRAIN_OVER, "somebody else has changed the node's state");
    else if (well)
        say(d, DLR_DRAIN_RESUME, "resumed: its checks are good again");
    else if (site_has_word(c, check))
        hold(d, true, SITE "check=%s, a node has the word", check);
}

/* What was the site's fault is over: whoever carries the word takes it away. */
static void end_word(const struct dlr_drain_case *c, const struct dlr_history_row *held,
                     struct dlr_drain_decision *d)
{
    const struct dlr_drain_row *self = c->view ? find_self(c) : NULL;
    struct dlr_history_streak s;
    const char *behind;
    char check[32];

    check_of(held->text, check);
    s = dlr_history_streak(c->history, check);
    if (!is_well(&s))
        return;
    if (!c->view) {
        d->deed = DLR_DRAIN_LOOK;
        return;
    }
    say(d, DLR_DRAIN_OVER, "the site fault is over: the check is good again");
    if (!self || !has_word(self, check))
        return;
    behind = strstr(self->comment, BEHIND);
    snprintf(d->mark, sizeof(d->mark), "%s", c->node);
    snprintf(d->mark_comment, sizeof(d->mark_comment), "%s",
             behind ? behind + strlen(BEHIND) : "");
}

static void begin(const struct dlr_drain_case *c, const struct dlr_health_result *bad,
                  struct dlr_drain_decision *d)
{
    const struct dlr_drain_row *self = find_self(c);

    if (!self)
        hold(d, false, "Slurm knows no node '%.64s' in a partition", c->node);
    else if (is_ours(self, last_deed(c->history, DLR_DRAIN_KEEP)))
        return;
    else if (is_out(self))
        hold(d, false, "it is out already: %.200s", self->reason);
    else if (!is_held(c, bad->check, NULL, d)) {
        d->deed = DLR_DRAIN_TAKE;
        dlr_drain_reason(bad->check, bad->reason, d->text);
    }
}

void dlr_drain_decide(const struct dlr_drain_case *c, struct dlr_drain_decision *ret)
{
    const struct dlr_history_row *last = dlr_history_last(c->history, DLR_DRAIN_DEED);
    const struct dlr_health_result *bad = due(c);

    memset(ret, 0, sizeof(*ret));
    if (last && last->verdict == verdict_of[DLR_DRAIN_TAKE])
        settle(c, last, ret);
    else if (!bad && last && last->verdict == verdict_of[DLR_DRAIN_KEEP])
        look_after(c, last, ret);
    else if (!bad && last && last->verdict == verdict_of[DLR_DRAIN_HOLD] &&
             dlr_after(last->text, SITE))
        end_word(c, last, ret);
    else if (!bad ||
             (last && last->verdict == verdict_of[DLR_DRAIN_HOLD] &&
              c->now_s >= last->last_s && c->now_s - last->last_s < DLR_DRAIN_HELD_S))
        return;
    else if (!c->view)
        ret->deed = DLR_DRAIN_LOOK;
    else
        begin(c, bad, ret);
}
