/* SPDX-License-Identifier: Apache-2.0 */
/* Drains: single decisions, and clusters of nodes that decide for themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "health/run/drain.h"

#define T0 1800000000ll
#define HOUR 3600

static struct dlr_history h;
static char comments[512]; /* as sinfo -O prints them */

static int empty_history(void **state)
{
    memset(&h, 0, sizeof(h));
    comments[0] = '\0';
    return 0;
}

static void comment(const char *node, const char *text)
{
    dlr_format(comments, sizeof(comments), "%-64s%-64s\n%-64s%-64s\n", "n0", "(null)",
               node, text);
}

/* Checks of no table: their reasons have no limit. */

/* --- single decisions of node n1 -------------------------------------------------- */

static void results(const char *check, const char *letters, int64_t end_s)
{
    static const char of[] = "oswfd";
    int64_t at_s = end_s - 300 * (int64_t)(strlen(letters) - 1);

    for (; *letters; letters++, at_s += 300)
        dlr_history_add(&h, check, (enum dlr_health_verdict)(strchr(of, *letters) - of),
                        "7 errors", at_s);
}

/* slurm: NULL, or lines of sinfo, with times as seconds before now. */
static struct dlr_drain_decision decide(const char *slurm, bool may_resume,
                                        int64_t now_s)
{
    struct dlr_health_result r = {.check = "fan", .reason = "7 errors"};
    const struct dlr_history_row *row = dlr_history_last(&h, "fan");
    struct dlr_drain_view view = {0};
    struct dlr_drain_case c = {.history = &h,
                               .results = &r,
                               .nresults = 1,
                               .node = "n1",
                               .may_resume = may_resume,
                               .now_s = now_s};
    struct dlr_drain_decision d;
    char *text = strdup(slurm ? slurm : ""), *more = strdup(comments);

    r.verdict = row ? row->verdict : DLR_HEALTH_OK;
    if (slurm) {
        assert_int_equal(dlr_drain_view_parse(text, &view), 0);
        dlr_drain_comments_parse(more, &view);
        for (size_t i = 0; i < view.n; i++)
            view.rows[i].since_s = now_s - view.rows[i].since_s;
        c.view = &view;
    }
    dlr_drain_decide(&c, &d);
    dlr_drain_note(&h, &d, now_s);
    free(view.rows);
    free(text);
    free(more);
    return d;
}

#define FREE(n) n "|main|idle|Unknown|none\n"
#define OURS(n, s, check) n "|main|drained|" s "|dlrover: check=" check ", 7 errors\n"
#define FEW FREE("n1") FREE("n2") FREE("n3")
#define REASON "dlrover: check=fan, 7 errors"

static void a_bad_node_is_drained_when_there_is_room(void **state)
{
    static const struct {
        const char *what, *results, *slurm;
        enum dlr_drain_deed deed;
        const char *text, *comment; /* of n2 */
    } rows[] = {
        {"good", "ooo", FEW, DLR_DRAIN_NONE, ""},
        {"bad once", "ood", FEW, DLR_DRAIN_NONE, ""},
        {"bad twice", "odd", FEW, DLR_DRAIN_TAKE, REASON},
        {"not in a row", "ddod", FEW, DLR_DRAIN_NONE, ""},
        {"fail is no drain", "ff", FEW, DLR_DRAIN_NONE, ""},
        {"unknown to Slurm", "dd", FREE("n2"), DLR_DRAIN_HOLD,
         "Slurm knows no node 'n1' in a partition"},
        {"no answer at all", "dd", "slurm_load_partitions: error\n", DLR_DRAIN_HOLD,
         "Slurm knows no node 'n1' in a partition"},
        {"out already", "dd", "n1|main|drained*|5|disk swap\n", DLR_DRAIN_HOLD,
         "it is out already: disk swap"},
        {"down", "dd", "n1|main|down|5|Not responding\n", DLR_DRAIN_HOLD,
         "it is out already: Not responding"},
        {"others drained by people", "dd", FREE("n1") "n2|main|drained|5|disk swap\n",
         DLR_DRAIN_TAKE, REASON},
        {"another fault lately", "dd", FREE("n1") OURS("n2", "3599", "nic"),
         DLR_DRAIN_HOLD,
         "limit: check=fan, in partition main 1 nodes were drained within the hour, "
         "allowed are 1"},
        {"another fault earlier", "dd", FREE("n1") OURS("n2", "3600", "nic"),
         DLR_DRAIN_TAKE, REASON},
        {"a clock ahead of ours", "dd", FREE("n1") OURS("n2", "-100", "nic"),
         DLR_DRAIN_HOLD,
         "limit: check=fan, in partition main 1 nodes were drained within the hour, "
         "allowed are 1"},
        {"the same fault lately", "dd", FREE("n1") OURS("n2", "9", "fan"),
         DLR_DRAIN_HOLD,
         "site fault? check=fan, in partition main 1 nodes were drained within the "
         "hour, allowed are 1"},
        {"a check of a similar name", "dd", FREE("n1") OURS("n2", "9", "fan2"),
         DLR_DRAIN_HOLD,
         "limit: check=fan, in partition main 1 nodes were drained within the hour, "
         "allowed are 1"},
        {"the word is out", "dd", FEW, DLR_DRAIN_HOLD,
         "site fault? check=fan, a node of partition main has the word",
         DLR_DRAIN_SITE_MARK "check=fan, 7 // rack 3"},
        {"the word of another check", "dd", FEW, DLR_DRAIN_TAKE, REASON,
         DLR_DRAIN_SITE_MARK "check=nic, 7"},
        {"a comment of people", "dd", FEW, DLR_DRAIN_TAKE, REASON, "site fault?"},
        {"full in its second partition", "dd",
         FREE("n1") "n1|big|idle|Unknown|none\n"
                    "n2|big|drained|9|dlrover: check=nic, x\n",
         DLR_DRAIN_HOLD,
         "limit: check=fan, in partition big 1 nodes were drained within the hour, "
         "allowed are 1"},
        {"another partition's", "dd",
         FREE("n1") "n2|big|drained|9|dlrover: check=nic, x\n", DLR_DRAIN_TAKE, REASON},
        {"a reason that is left of its own", "dd",
         "n1|main|idle|9|dlrover: check=nic, 7\n" FREE("n2"), DLR_DRAIN_TAKE, REASON},
        {"and of another", "dd", FREE("n1") "n2|main|idle|9|dlrover: check=nic, 7\n",
         DLR_DRAIN_TAKE, REASON},
        {"a reason with separators", "dd", FREE("n1") "n2|main|idle|5|a|b|c\n",
         DLR_DRAIN_TAKE, REASON},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_drain_decision d;

        print_message("  %s\n", rows[i].what);
        memset(&h, 0, sizeof(h));
        comment("n2", rows[i].comment ? rows[i].comment : "");
        results("fan", rows[i].results, T0);
        d = decide(NULL, false, T0);
        assert_int_equal(d.deed, rows[i].deed == DLR_DRAIN_NONE ? DLR_DRAIN_NONE
                                                                : DLR_DRAIN_LOOK);
        d = decide(rows[i].slurm, false, T0);
        assert_string_equal(d.text, rows[i].text);
        assert_int_equal(d.deed, rows[i].deed);
        assert_string_equal(d.mark,
                            dlr_after(d.text, "site fault? check=fan, in") ? "n2" : "");
        assert_string_equal(d.back, d.mark);
        assert_string_equal(d.mark_comment,
                            d.mark[0] ? "dlrover: site fault? check=fan, 7 errors"
                                      : "");
    }
}

static void five_percent_are_allowed_to_each_partition(void **state)
{
    static char slurm[100 * 64];
    unsigned ours;

    for (ours = 0; ours < 6; ours++) {
        size_t used = 0;

        for (unsigned i = 1; i <= 100; i++)
            used += (size_t)snprintf(slurm + used, sizeof(slurm) - used,
                                     i > 1 && i <= ours + 1
                                         ? "n%u|main|drained|9|dlrover: check=nic, x\n"
                                         : "n%u|main|idle|Unknown|none\n",
                                     i);
        memset(&h, 0, sizeof(h));
        results("fan", "dd", T0);
        assert_int_equal(decide(slurm, false, T0).deed,
                         ours < 5 ? DLR_DRAIN_TAKE : DLR_DRAIN_HOLD);
    }
}

static void who_came_before_counts_and_who_came_after_does_not(void **state)
{
    static const struct {
        const char *slurm;
        enum dlr_drain_deed deed;
    } rows[] = {
        {OURS("n1", "2", "fan") FREE("n2"), DLR_DRAIN_KEEP},
        {OURS("n1", "2", "fan") OURS("n2", "3", "fan"), DLR_DRAIN_BACK},
        {OURS("n1", "2", "fan") OURS("n2", "1", "fan"), DLR_DRAIN_KEEP},
        {OURS("n1", "2", "fan") OURS("n2", "2", "fan"), DLR_DRAIN_KEEP},
        {OURS("n1", "2", "fan") OURS("n0", "2", "fan"), DLR_DRAIN_BACK},
        {FREE("n1"), DLR_DRAIN_HOLD},
        {"n1|main|drained|1|mine now\n", DLR_DRAIN_HOLD},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("  row %zu\n", i);
        memset(&h, 0, sizeof(h));
        results("fan", "dd", T0);
        assert_int_equal(decide(FEW, false, T0).deed, DLR_DRAIN_TAKE);
        assert_int_equal(decide(NULL, false, T0 + 2).deed, DLR_DRAIN_LOOK);
        assert_int_equal(decide(rows[i].slurm, false, T0 + 2).deed, rows[i].deed);
    }
}

static void drained(void)
{
    results("fan", "dd", T0);
    assert_int_equal(decide(FEW, false, T0).deed, DLR_DRAIN_TAKE);
    assert_int_equal(decide(OURS("n1", "2", "fan"), false, T0 + 2).deed,
                     DLR_DRAIN_KEEP);
}

static void a_drained_node_is_left_to_people(void **state)
{
    drained();
    results("fan", "d", T0 + 2 * HOUR);
    assert_int_equal(decide(FEW, true, T0 + 2 * HOUR).deed, DLR_DRAIN_NONE);
    results("fan", "oooo", T0 + 4 * HOUR);
    assert_int_equal(decide(OURS("n1", "9", "fan"), false, T0 + 4 * HOUR).deed,
                     DLR_DRAIN_NONE);
}

static void who_was_resumed_by_people_is_drained_again_after_a_good_result(void **state)
{
    drained();
    results("fan", "ddd", T0 + 2 * HOUR); /* resumed, still bad */
    assert_int_equal(decide(FEW, false, T0 + 2 * HOUR).deed, DLR_DRAIN_NONE);
    results("fan", "od", T0 + 3 * HOUR);
    assert_int_equal(decide(FEW, false, T0 + 3 * HOUR).deed, DLR_DRAIN_NONE);
    results("fan", "d", T0 + 3 * HOUR + 300);
    assert_int_equal(decide(FEW, false, T0 + 3 * HOUR + 300).deed, DLR_DRAIN_TAKE);
}

static void a_drained_node_is_resumed_when_asked_for_and_well_for_long(void **state)
{
    static const char ours[] = OURS("n1", "9", "fan");

    drained();
    results("fan", "oo", T0 + HOUR); /* 300 s apart */
    assert_int_equal(decide(ours, true, T0 + HOUR).deed, DLR_DRAIN_NONE);
    results("fan", "o", T0 + HOUR + 300);
    assert_int_equal(decide(NULL, true, T0 + HOUR + 300).deed, DLR_DRAIN_LOOK);
    assert_int_equal(decide(ours, true, T0 + HOUR + 300).deed, DLR_DRAIN_RESUME);
    assert_int_equal(decide(NULL, true, T0 + HOUR + 600).deed, DLR_DRAIN_NONE);
    /* and once a day */
    results("fan", "dd", T0 + 3 * HOUR);
    assert_int_equal(decide(FEW, true, T0 + 3 * HOUR).deed, DLR_DRAIN_TAKE);
    assert_int_equal(decide(ours, true, T0 + 3 * HOUR + 2).deed, DLR_DRAIN_KEEP);
    results("fan", "ooo", T0 + 5 * HOUR);
    assert_int_equal(decide(ours, true, T0 + 5 * HOUR).deed, DLR_DRAIN_NONE);
    results("fan", "ooo", T0 + 26 * HOUR);
    assert_int_equal(decide(ours, true, T0 + 26 * HOUR).deed, DLR_DRAIN_RESUME);
}

static void what_people_drained_is_not_resumed(void **state)
{
    drained();
    results("fan", "ooo", T0 + HOUR);
    assert_int_equal(decide("n1|main|drained|9|broken fan\n", true, T0 + HOUR).deed,
                     DLR_DRAIN_OVER);
    assert_int_equal(decide(NULL, true, T0 + HOUR + 300).deed, DLR_DRAIN_NONE);
}

static void who_is_held_does_not_ask_at_once_again(void **state)
{
    static const char full[] = FREE("n1") OURS("n2", "9", "nic");

    results("fan", "dd", T0);
    assert_int_equal(decide(full, false, T0).deed, DLR_DRAIN_HOLD);
    assert_int_equal(decide(NULL, false, T0 + 599).deed, DLR_DRAIN_NONE);
    assert_int_equal(decide(NULL, false, T0 + 600).deed, DLR_DRAIN_LOOK);
    /* a clock that was wrong does not hold it for ever */
    assert_int_equal(decide(full, false, T0 + 600).deed, DLR_DRAIN_HOLD);
    assert_int_equal(decide(NULL, false, T0 - 9 * HOUR).deed, DLR_DRAIN_LOOK);
}

static void a_site_fault_gives_back_who_was_drained_for_it(void **state)
{
    drained();
    results("fan", "d", T0 + 300);
    assert_int_equal(
        decide(OURS("n1", "9", "fan") OURS("n2", "3", "fan"), false, T0 + 300).deed,
        DLR_DRAIN_NONE);
    comment("n2", DLR_DRAIN_SITE_MARK "check=fan, 7 errors");
    assert_int_equal(decide(OURS("n1", "9", "fan") FREE("n2"), false, T0 + 300).deed,
                     DLR_DRAIN_BACK);
    results("fan", "d", T0 + 2 * HOUR); /* and stays so */
    assert_int_equal(decide(FEW, false, T0 + 2 * HOUR).deed, DLR_DRAIN_NONE);
}

static void all_who_were_drained_for_it_are_resumed_and_comments_kept(void **state)
{
    static char slurm[60 * 64];
    struct dlr_drain_decision d;
    size_t used = 0;

    for (unsigned i = 0; i < 60; i++)
        used +=
            (size_t)snprintf(slurm + used, sizeof(slurm) - used,
                             i < 2 || i > 4 ? FREE("n%u") : OURS("n%u", "9", "fan"), i);
    comment("n2", "rack 3");
    results("fan", "dd", T0);
    d = decide(slurm, false, T0);
    assert_int_equal(d.deed, DLR_DRAIN_HOLD);
    assert_string_equal(d.mark, "n2");
    assert_string_equal(d.mark_comment,
                        "dlrover: site fault? check=fan, 7 errors // rack 3");
    assert_string_equal(d.back, "n2,n3,n4");
}

static void the_word_goes_when_the_check_is_good_again(void **state)
{
    struct dlr_drain_decision d;

    drained();
    comment("n1", DLR_DRAIN_SITE_MARK "check=fan, 7 errors // rack 3");
    results("fan", "d", T0 + 300);
    d = decide(FEW, false, T0 + 300); /* somebody has resumed us with it */
    assert_int_equal(d.deed, DLR_DRAIN_HOLD);
    assert_string_equal(d.text, "site fault? check=fan, the node was resumed for it");
    results("fan", "oo", T0 + HOUR);
    assert_int_equal(decide(FEW, false, T0 + HOUR).deed, DLR_DRAIN_NONE);
    results("fan", "o", T0 + HOUR + 300);
    assert_int_equal(decide(NULL, false, T0 + HOUR + 300).deed, DLR_DRAIN_LOOK);
    d = decide(FEW, false, T0 + HOUR + 300);
    assert_int_equal(d.deed, DLR_DRAIN_OVER);
    assert_string_equal(d.mark, "n1");
    assert_string_equal(d.mark_comment, "rack 3");
    comment("n1", "rack 3");
    results("fan", "o", T0 + HOUR + 600);
    assert_int_equal(decide(NULL, false, T0 + HOUR + 600).deed, DLR_DRAIN_NONE);
    /* and a node that is broken is drained again */
    results("fan", "dd", T0 + 2 * HOUR);
    assert_int_equal(decide(FEW, false, T0 + 2 * HOUR).deed, DLR_DRAIN_TAKE);
}

static void a_reason_is_one_line_that_a_shell_takes_in_quotes(void **state)
{
    char text[DLR_DRAIN_TEXT], want[DLR_DRAIN_TEXT], value[256];

    dlr_drain_reason("none such", "'/a|b' is \"$HOME\" `x`\n", text);
    assert_string_equal(text, "dlrover: check=none such, '/a'b' is ''HOME' 'x' ");
    memset(value, 'x', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    for (const struct dlr_health_check *c = dlr_health_checks; c->name; c++) {
        const char *drain = strstr(c->limit, "drain");

        dlr_drain_reason(c->name, value, text);
        dlr_format(want, sizeof(want), ", limit: %.5s", drain ? drain : c->limit);
        assert_non_null(strstr(text, want));
    }
}

/* --- a cluster -------------------------------------------------------------------- */

#define NODES 60
#define EVERY_MS 300000

enum phase { CHECK, TAKING, LOOKING };

struct node {
    char name[8], reason[DLR_DRAIN_TEXT], comment[DLR_DRAIN_TEXT];
    const char *fault; /* the check that is bad, or NULL */
    bool out, settled;
    int64_t since_s, next_ms, changed_s;
    enum phase phase;
    struct dlr_drain_decision todo;
    struct dlr_history history;
    unsigned takes, resumes;
};

static struct node nodes[NODES];
static unsigned marks, random_state;

static unsigned draw(unsigned below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

static struct dlr_drain_decision decide_there(struct node *n, bool with_view,
                                              int64_t now_s)
{
    static struct dlr_drain_row rows[NODES];
    struct dlr_drain_view view = {rows, NODES};
    struct dlr_health_result r[] = {{.check = "fan"}, {.check = "nic"}};
    struct dlr_drain_case c = {.history = &n->history,
                               .results = r,
                               .nresults = 2,
                               .view = with_view ? &view : NULL,
                               .node = n->name,
                               .may_resume = true,
                               .now_s = now_s};
    struct dlr_drain_decision d;

    for (unsigned i = 0; i < NODES; i++)
        rows[i] = (struct dlr_drain_row){
            nodes[i].name,   "main",           nodes[i].out ? "drained" : "idle",
            nodes[i].reason, nodes[i].since_s, nodes[i].comment};
    for (unsigned i = 0; i < 2; i++)
        r[i].verdict =
            dlr_streq(n->fault, r[i].check) ? DLR_HEALTH_DRAIN : DLR_HEALTH_OK;
    dlr_drain_decide(&c, &d);
    dlr_drain_note(&n->history, &d, now_s);
    return d;
}

static void set(struct node *n, bool out, const char *reason, int64_t now_s)
{
    n->out = out;
    n->settled = false;
    n->since_s = now_s;
    dlr_format(n->reason, sizeof(n->reason), "%s", reason);
}

static struct node *named(const char *name)
{
    for (unsigned i = 0; i < NODES; i++)
        if (dlr_streq(nodes[i].name, name))
            return &nodes[i];
    return NULL;
}

/* Never more than the share within the window, whatever the order of things. */
static void count_kept(int64_t now_s)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < NODES; i++)
        kept += nodes[i].out && nodes[i].settled &&
                now_s - nodes[i].since_s < DLR_DRAIN_WINDOW_S;
    assert_true(kept <= NODES * DLR_DRAIN_SHARE / 100);
}

static void obey(struct node *n, const struct dlr_drain_decision *d, int64_t now_s)
{
    char back[DLR_DRAIN_NODES], *rest = back, *name;

    if (d->mark[0]) {
        struct node *to = named(d->mark);

        marks += dlr_after(d->mark_comment, DLR_DRAIN_SITE_MARK) &&
                 !dlr_after(to->comment, DLR_DRAIN_SITE_MARK);
        dlr_format(to->comment, sizeof(to->comment), "%s", d->mark_comment);
    }
    dlr_format(back, sizeof(back), "%s", d->back);
    while ((name = strsep(&rest, ",")))
        if (name[0])
            set(named(name), false, "none", 0);
    switch (d->deed) {
    case DLR_DRAIN_KEEP:
        n->settled = true;
        count_kept(now_s);
        break;
    case DLR_DRAIN_RESUME:
        assert_true(now_s - n->changed_s >= DLR_DRAIN_GOOD_S);
        n->resumes++;
        /* fall through */
    case DLR_DRAIN_BACK:
        set(n, false, "none", 0);
        n->changed_s = now_s;
        break;
    default:
        break;
    }
}

/* What a node does next; others come between any two of these. */
static void step(struct node *n, int64_t now_ms)
{
    int64_t now_s = now_ms / 1000;
    struct dlr_drain_decision d;

    switch (n->phase) {
    case CHECK:
        for (unsigned i = 0; i < 2; i++) {
            const char *check = i ? "nic" : "fan";

            dlr_history_add(&n->history, check,
                            dlr_streq(n->fault, check) ? DLR_HEALTH_DRAIN
                                                       : DLR_HEALTH_OK,
                            "x", now_s);
        }
        d = decide_there(n, false, now_s);
        n->next_ms += d.deed == DLR_DRAIN_LOOK ? draw(500) : EVERY_MS;
        n->phase = d.deed == DLR_DRAIN_LOOK ? LOOKING : CHECK;
        break;
    case LOOKING:
        d = decide_there(n, true, now_s);
        obey(n, &d, now_s);
        n->todo = d;
        n->phase = d.deed == DLR_DRAIN_TAKE ? TAKING : CHECK;
        n->next_ms += d.deed == DLR_DRAIN_TAKE ? draw(1000) : EVERY_MS;
        break;
    case TAKING:
        assert_true(now_s - n->changed_s >= 2 * DLR_HISTORY_APART_S);
        n->changed_s = now_s;
        n->takes++;
        set(n, true, n->todo.text, now_s);
        n->phase = LOOKING;
        n->next_ms += 1100 + draw(1000);
        break;
    }
}

static void start_cluster(unsigned seed, unsigned spread_ms)
{
    random_state = seed;
    marks = 0;
    memset(nodes, 0, sizeof(nodes));
    for (unsigned i = 0; i < NODES; i++) {
        struct node *n = &nodes[i];

        dlr_format(n->name, sizeof(n->name), "n%u", i);
        set(n, false, "none", 0);
        n->next_ms = T0 * 1000 + (spread_ms ? draw(spread_ms) : 0);
    }
}

static void run_until(int64_t end_s)
{
    for (;;) {
        struct node *first = &nodes[0];

        for (unsigned i = 1; i < NODES; i++)
            if (nodes[i].next_ms < first->next_ms ||
                (nodes[i].next_ms == first->next_ms && draw(2)))
                first = &nodes[i];
        if (first->next_ms >= end_s * 1000)
            return;
        step(first, first->next_ms);
    }
}

static unsigned count_out(void)
{
    unsigned out = 0;

    for (unsigned i = 0; i < NODES; i++)
        out += nodes[i].out;
    return out;
}

static unsigned count_words(void)
{
    unsigned words = 0;

    for (unsigned i = 0; i < NODES; i++)
        words += dlr_after(nodes[i].comment, DLR_DRAIN_SITE_MARK) != NULL;
    return words;
}

static void a_fault_of_all_nodes_is_told_once_and_drains_nobody(void **state)
{
    for (unsigned seed = 0; seed < 20; seed++) {
        start_cluster(seed, seed % 2 ? EVERY_MS : 0); /* spread, and all at once */
        for (unsigned i = 0; i < NODES; i++)
            nodes[i].fault = "fan";
        run_until(T0 + 12 * HOUR);
        assert_int_equal(marks, 1);
        assert_int_equal(count_out(), 0);
        assert_int_equal(count_words(), 1);
        /* it is over, and a node that breaks then is drained */
        for (unsigned i = 0; i < NODES; i++)
            nodes[i].fault = NULL;
        run_until(T0 + 13 * HOUR);
        assert_int_equal(count_words(), 0);
        nodes[draw(NODES)].fault = "fan";
        run_until(T0 + 14 * HOUR);
        assert_int_equal(count_out(), 1);
        assert_int_equal(marks, 1);
    }
}

static void bad_nodes_are_drained_one_after_the_other_within_the_share(void **state)
{
    for (unsigned seed = 0; seed < 20; seed++) {
        start_cluster(seed, EVERY_MS);
        for (unsigned i = 0; i < 6; i++) /* two at once, of different faults */
            nodes[draw(10) + 10 * i].fault = i % 2 ? "nic" : "fan";
        run_until(T0 + 12 * HOUR);
        assert_int_equal(count_out(), 6);
        assert_int_equal(marks, 0);
    }
}

static void nothing_flaps(void **state)
{
    for (unsigned seed = 0; seed < 20; seed++) {
        start_cluster(seed, EVERY_MS);
        for (int64_t at_s = T0; at_s < T0 + 48 * HOUR; at_s += 60 + draw(1200)) {
            struct node *n = &nodes[draw(NODES)];

            n->fault = draw(3) ? NULL : draw(2) ? "nic" : "fan";
            run_until(at_s);
        }
        for (unsigned i = 0; i < NODES; i++)
            assert_true(nodes[i].resumes <= 2); /* once a day */
    }
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup(fn, empty_history)
    const struct CMUnitTest tests[] = {
        TEST(a_bad_node_is_drained_when_there_is_room),
        TEST(five_percent_are_allowed_to_each_partition),
        TEST(who_came_before_counts_and_who_came_after_does_not),
        TEST(a_drained_node_is_left_to_people),
        TEST(who_was_resumed_by_people_is_drained_again_after_a_good_result),
        TEST(a_drained_node_is_resumed_when_asked_for_and_well_for_long),
        TEST(what_people_drained_is_not_resumed),
        TEST(who_is_held_does_not_ask_at_once_again),
        TEST(a_site_fault_gives_back_who_was_drained_for_it),
        TEST(all_who_were_drained_for_it_are_resumed_and_comments_kept),
        TEST(the_word_goes_when_the_check_is_good_again),
        TEST(a_reason_is_one_line_that_a_shell_takes_in_quotes),
        TEST(a_fault_of_all_nodes_is_told_once_and_drains_nobody),
        TEST(bad_nodes_are_drained_one_after_the_other_within_the_share),
        TEST(nothing_flaps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
