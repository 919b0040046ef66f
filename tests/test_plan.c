/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a round, from small texts. A node is written
 *     leaf.name[!][?a,b][=RANK:ROUND/STEP ...]
 * "!" fails a check, "?a,b" cannot reach a and b, "=..." lists copies it holds.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/msg.h"
#include "common/str.h"
#include "mpi_launcher/plan.h"

#define MAX 16

struct world {
    struct dlr_plan_report reports[MAX];
    unsigned n;
    struct dlr_plan_seat former[MAX];
    unsigned tasks[MAX];
    struct dlr_plan_want want;
};

static void add_copies(struct dlr_plan_report *r, const char *text, unsigned world)
{
    int rank, used;
    unsigned round;
    unsigned long long step;

    r->copies = calloc(MAX, sizeof(*r->copies));
    while (sscanf(text, " %d:%u/%llu%n", &rank, &round, &step, &used) == 3) {
        r->copies[r->ncopies++] = (struct dlr_plan_copy){
            rank, world, {round, step}, 4096u + (unsigned)rank, 0xabcdef0123456789ull};
        text += used;
    }
}

static void add_silent(struct dlr_plan_report *r, const char *text)
{
    r->silent = calloc(MAX, sizeof(*r->silent));
    while (*text) {
        size_t n = strcspn(text, ",");

        dlr_format(r->silent[r->nsilent++], DLR_TOPO_NAME, "%.*s", (int)n, text);
        text += n + (text[n] == ',');
    }
}

static void add_node(struct world *w, const char *text)
{
    struct dlr_plan_report *r = &w->reports[w->n++];
    char buf[256], *copies, *silent, *bad;

    dlr_format(buf, sizeof(buf), "%s", text);
    if ((copies = strchr(buf, '=')))
        *copies++ = '\0';
    if ((silent = strchr(buf, '?')))
        *silent++ = '\0';
    if ((bad = strchr(buf, '!')))
        *bad = '\0';
    dlr_format(r->node.path, sizeof(r->node.path), "s.%s", buf);
    dlr_format(r->node.name, sizeof(r->node.name), "%s", strchr(buf, '.') + 1);
    dlr_format(r->boot, sizeof(r->boot), "boot");
    r->cpus = 8;
    r->checks = calloc(1, sizeof(*r->checks));
    r->nchecks = 1;
    dlr_format(r->checks[0].check, sizeof(r->checks[0].check), "memory");
    dlr_format(r->checks[0].reason, sizeof(r->checks[0].reason), "%s",
               bad ? "edac: 7 uncorrected memory errors" : "fine");
    r->checks[0].verdict = bad ? DLR_HEALTH_FAIL : DLR_HEALTH_OK;
    add_copies(r, copies ? copies : "", w->want.nplaces);
    add_silent(r, silent ? silent : "");
}

/* nodes: one per line ending. former: "l0.n1>n3 l1.n2>n4": node and its partner. */
static void setup(struct world *w, unsigned nplaces, const char *nodes, const char *former)
{
    unsigned i;

    memset(w, 0, sizeof(*w));
    for (i = 0; i < nplaces; i++)
        w->tasks[i] = 1;
    w->want.nplaces = nplaces;
    w->want.tasks = w->tasks;
    while (*nodes) {
        size_t n = strcspn(nodes, ";");
        char one[256];

        dlr_format(one, sizeof(one), "%.*s", (int)n, nodes);
        add_node(w, one);
        nodes += n + (nodes[n] == ';');
    }
    w->want.former = w->former;
    while (former && *former) {
        struct dlr_plan_seat *s = &w->former[w->want.nformer++];
        char path[64], partner[64] = "";
        int used = 0;

        assert_true(sscanf(former, " %63[^> ]%n>%63s%n", path, &used, partner, &used) >= 1);
        dlr_format(s->node.path, sizeof(s->node.path), "s.%s", path);
        dlr_format(s->node.name, sizeof(s->node.name), "%s", strchr(path, '.') + 1);
        dlr_format(s->partner, sizeof(s->partner), "%s", partner);
        former += used;
    }
}

static void teardown(struct world *w)
{
    while (w->n)
        dlr_plan_report_done(&w->reports[--w->n]);
}

static void add(char *buf, size_t size, const char *sep, const char *text)
{
    strncat(buf, buf[0] ? sep : "", size - strlen(buf) - 1);
    strncat(buf, text, size - strlen(buf) - 1);
}

/* "n1 n2 | n3 | n4: why" */
static void describe(const struct dlr_plan *plan, char *buf, size_t size)
{
    char part[512] = "", one[1024];
    unsigned i;

    buf[0] = '\0';
    for (i = 0; i < plan->nplaces; i++)
        add(part, sizeof(part), " ", plan->places[i].node.name);
    add(buf, size, "", part);
    part[0] = '\0';
    for (i = 0; i < plan->nspares; i++)
        add(part, sizeof(part), " ", plan->spares[i].name);
    strncat(buf, " | ", size - strlen(buf) - 1);
    strncat(buf, part, size - strlen(buf) - 1);
    strncat(buf, " |", size - strlen(buf) - 1);
    for (i = 0; i < plan->nout; i++) {
        dlr_format(one, sizeof(one), " %s: %s", plan->out[i].node, plan->out[i].reason);
        strncat(buf, one, size - strlen(buf) - 1);
    }
}

/* "4/120 local n2 file" */
static void describe_restore(const struct dlr_plan *plan, char *buf, size_t size)
{
    char one[64];
    unsigned r;

    dlr_format(buf, size, "none");
    if (!plan->restore)
        return;
    dlr_format(buf, size, "%u/%llu", plan->version.round,
               (unsigned long long)plan->version.step);
    for (r = 0; r < plan->world; r++) {
        const struct dlr_plan_source *s = &plan->sources[r];

        dlr_format(one, sizeof(one), "%s", s->from == DLR_PLAN_LOCAL ? "local" : s->where);
        add(buf, size, " ", one);
    }
}

/* --- places -------------------------------------------------------------------------- */

static const char memory_out[] = "memory: edac: 7 uncorrected memory errors";

struct place_row {
    const char *what;
    unsigned nplaces;
    const char *nodes, *former, *want;
};

static const struct place_row place_rows[] = {
    {"spare off the fullest leaf", 4, "l0.n1;l0.n2;l0.n3;l1.n4;l1.n5", NULL,
     "n1 n2 n4 n5 | n3 |"},
    {"equal leaves: the last one's, then the other's", 4,
     "l0.n1;l0.n2;l0.n3;l1.n4;l1.n5;l1.n6", NULL, "n1 n2 n4 n5 | n3 n6 |"},
    {"no spare", 2, "l1.n1;l0.n2", NULL, "n2 n1 |  |"},
    {"a bad node is not chosen", 2, "l0.n1!;l0.n2;l0.n3", NULL, "n2 n3 |  | n1: MEM"},
    {"the lost one moves, to its own leaf", 4, "l0.n1;l0.n3;l1.n4;l1.n5",
     "l0.n1 l0.n2 l1.n4 l1.n5", "n1 n3 n4 n5 |  |"},
    {"nobody is lost: nobody moves, whatever the order", 3, "l0.n1;l0.n2;l1.n3;l1.n4",
     "l1.n4 l0.n2 l0.n1", "n4 n2 n1 | n3 |"},
    {"a node that fails a check is lost", 2, "l0.n1!;l0.n2;l0.n3", "l0.n1 l0.n2",
     "n3 n2 |  | n1: MEM"},
    {"a smaller round is placed afresh", 2, "l0.n1;l1.n2;l1.n3", "l0.n1 l1.n2 l1.n3",
     "n1 n2 | n3 |"},
    {"one node nobody reaches", 3, "l0.n1?n3;l0.n2?n3;l1.n3?n1,n2,n4;l1.n4?n3", NULL,
     "n1 n2 n4 |  | n3: 3 of 3 nodes cannot reach it"},
    {"one that one other cannot reach stays", 3, "l0.n1?n3;l0.n2;l1.n3;l1.n4", NULL,
     "n1 n2 n3 | n4 |"},
    {"two halves: one is kept, whole", 2, "l0.n1?n3,n4;l0.n2?n3,n4;l1.n3?n1,n2;l1.n4?n1,n2",
     NULL, "n1 n2 |  | n3: 2 of 2 nodes cannot reach it n4: 2 of 3 nodes cannot reach it"},
    {"probes dropped everywhere do not stop the job", 3, "l0.n1?n2,n3;l0.n2?n1,n3;l1.n3?n1,n2",
     NULL, "n1 n2 n3 |  |"},
    {"a former place is kept before a spare when in doubt", 2,
     "l0.n1?n2,n3;l0.n2?n1,n3;l1.n3?n1,n2", "l1.n3 l0.n1",
     "n3 n1 |  | n2: 1 of 1 nodes cannot reach it"},
    {"a silent node makes way for the spare", 2, "l0.n1;l0.n2?n3;l1.n3;l1.n4?n3",
     "l0.n1 l1.n3", "n1 n4 | n2 | n3: 2 of 3 nodes cannot reach it"},
};

static void expect(const char *row, char *want, size_t size)
{
    const char *mem = strstr(row, "MEM");

    if (mem)
        dlr_format(want, size, "%.*s%s%s", (int)(mem - row), row, memory_out, mem + 3);
    else
        dlr_format(want, size, "%s", row);
}

static void nodes_get_their_places(void **state)
{
    size_t i;

    for (i = 0; i < sizeof(place_rows) / sizeof(place_rows[0]); i++) {
        const struct place_row *row = &place_rows[i];
        struct dlr_plan plan;
        struct world w;
        char got[2048], want[2048];

        print_message("  %s\n", row->what);
        setup(&w, row->nplaces, row->nodes, row->former);
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        describe(&plan, got, sizeof(got));
        expect(row->want, want, sizeof(want));
        assert_string_equal(got, want);
        dlr_plan_done(&plan);
        teardown(&w);
    }
}

static void the_supervisors_node_is_kept_when_two_disagree(void **state)
{
    struct dlr_plan plan;
    struct world w;

    setup(&w, 1, "l0.n1?n2;l0.n2?n1", NULL);
    dlr_format(w.want.batch, sizeof(w.want.batch), "n2");
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    assert_string_equal(plan.places[0].node.name, "n2");
    dlr_plan_done(&plan);
    teardown(&w);
}

static void ranks_of_a_place_follow_each_other(void **state)
{
    struct dlr_plan plan;
    struct world w;

    setup(&w, 3, "l0.n1;l0.n2;l1.n3;l1.n4", "l0.n1 l1.n9 l1.n4");
    w.tasks[0] = 2;
    w.tasks[1] = 1;
    w.tasks[2] = 4;
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    assert_int_equal(plan.world, 7);
    assert_int_equal(plan.places[1].first_rank, 2);
    assert_int_equal(plan.places[2].first_rank, 3);
    assert_int_equal(plan.places[2].tasks, 4);
    assert_int_equal(plan.places[2].cpus, 8);
    assert_string_equal(plan.places[1].node.name, "n3");
    assert_true(plan.places[1].moved && !plan.places[0].moved && !plan.places[2].moved);
    assert_string_equal(plan.places[plan.places[0].partner].node.path + 2, "l1.n4");
    dlr_plan_done(&plan);
    teardown(&w);
}

static void what_cannot_be_planned_is_refused(void **state)
{
    static const struct {
        unsigned nplaces;
        const char *nodes;
        int rc;
        const char *text;
    } rows[] = {
        {3, "l0.n1;l0.n2", -ENOSPC, "3 nodes are needed, 2 reported, 2 of them are usable"},
        {2, "l0.n1!;l0.n2", -ENOSPC,
         "2 nodes are needed, 2 reported, 1 of them are usable (n1: memory: edac: 7 "
         "uncorrected memory errors)"},
        {1, "", -ENOSPC, "1 nodes are needed, 0 reported, 0 of them are usable"},
        {1, "l0.n1;l1.n1", -EEXIST, "node n1 reported twice"},
        {0, "l0.n1", -EINVAL, "0 places"},
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_err err = {0};
        struct dlr_plan plan;
        struct world w;

        setup(&w, rows[i].nplaces, rows[i].nodes, NULL);
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, &err), rows[i].rc);
        assert_string_equal(err.text, rows[i].text);
        assert_int_equal(plan.nplaces, 0);
        dlr_plan_done(&plan);
        teardown(&w);
    }
}

/* --- restore ------------------------------------------------------------------------- */

struct restore_row {
    const char *what;
    unsigned nplaces;
    const char *nodes, *former, *want, *notes;
};

/* 4/120 is what the supervisor knows as committed. */
static const struct restore_row restore_rows[] = {
    {"nothing held", 2, "l0.n1;l1.n2", NULL, "none",
     "rank 0: no copy of version 4/120 is left;rank 1: no copy of version 4/120 is left"},
    {"everyone has its own", 2, "l0.n1=0:4/120;l1.n2=1:4/120", "l0.n1>n2 l1.n2>n1",
     "4/120 local local", ""},
    {"the newcomer gets it from the partner", 2, "l0.n1=0:4/120 1:4/120;l1.n3",
     "l0.n1>n2 l1.n2>n1", "4/120 local n1", ""},
    {"a later round beats a higher step", 2, "l0.n1=0:4/120 0:3/500;l1.n2=1:4/120 1:3/500",
     "l0.n1>n2 l1.n2>n1", "4/120 local local", ""},
    {"a save in flight is not taken", 2, "l0.n1=0:4/125 0:4/120;l1.n2=1:4/120",
     "l0.n1>n2 l1.n2>n1", "4/120 local local",
     "version 4/125 is not whole: 1 of 2 ranks have it"},
    {"whole but not committed is taken", 2, "l0.n1=0:4/125 0:4/120;l1.n2=1:4/120 1:4/125",
     "l0.n1>n2 l1.n2>n1", "4/125 local local", ""},
    {"owner and partner gone", 3, "l0.n1=0:4/120 0:4/110 1:4/110;l0.n4=2:4/110 2:4/120;l1.n5",
     "l0.n1>n4 l1.n2>n3 l0.n4>n1", "4/110 local n1 local",
     "rank 1: version 4/120 was on n2 and n3, both gone"},
    {"the copy did not verify", 2, "l0.n1=0:4/120;l1.n2=0:4/120", "l0.n1>n2 l1.n2>n1", "none",
     "rank 1: version 4/120 was on n2 and n1, both without a whole copy"},
    {"one gone, one broken", 2, "l0.n1=0:4/120;l1.n3", "l0.n1>n2 l1.n2>n1", "none",
     "rank 1: version 4/120 was on n2 (gone) and n1 (without a whole copy)"},
    {"a node left out still serves what it has", 2, "l0.n1!=0:4/120;l1.n2=1:4/120;l0.n3",
     "l0.n1>n2 l1.n2>n1", "4/120 n1 local", ""},
    {"nearest holder first", 3, "l0.n1;l1.n2=0:4/120 2:4/120 1:4/120;l0.n3=0:4/120",
     "l0.n1>n2 l1.n2>n1 l0.n3>n2", "4/120 n3 local n2", ""},
    {"a rank out of range is nobody's", 1, "l0.n1=0:4/120 1:4/120 1:9/9",
     "l0.n1", "4/120 local", ""},
    {"one node alone", 1, "l0.n2", "l0.n1", "none",
     "rank 0: version 4/120 was on n1 only: gone"},
};

static void check_notes(const struct dlr_plan *plan, const char *want)
{
    char got[2048] = "";
    unsigned i;

    for (i = 0; i < plan->nnotes; i++)
        add(got, sizeof(got), ";", plan->notes[i]);
    assert_string_equal(got, want);
}

static void the_newest_whole_version_is_restored(void **state)
{
    size_t i;

    for (i = 0; i < sizeof(restore_rows) / sizeof(restore_rows[0]); i++) {
        const struct restore_row *row = &restore_rows[i];
        struct dlr_plan plan;
        struct world w;
        char got[1024];

        print_message("  %s\n", row->what);
        setup(&w, row->nplaces, row->nodes, row->former);
        w.want.has_committed = true;
        w.want.committed = (struct dlr_version){4, 120};
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        describe_restore(&plan, got, sizeof(got));
        assert_string_equal(got, row->want);
        check_notes(&plan, row->notes);
        if (plan.restore)
            assert_int_equal(plan.sources[0].bytes, 4096);
        dlr_plan_done(&plan);
        teardown(&w);
    }
}

static void struck_copies_are_not_taken_again(void **state)
{
    static const struct {
        const char *where;
        int32_t rank;
        const char *want, *notes;
    } rows[] = {
        {"n2", 1, "4/120 local n1", ""},
        {"n1", 1, "4/120 local local", ""},
        {"*", 1, "4/110 local local",
         "rank 1: version 4/120 was on n2 and n1, both failed to load"},
        {"*", -1, "4/110 local local",
         "rank 0: version 4/120 was on n1 and n2, both failed to load;"
         "rank 1: version 4/120 was on n2 and n1, both failed to load"},
        {"n2", -1, "4/120 local n1", ""},
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dlr_plan_struck struck = {.rank = rows[i].rank, .version = {4, 120}};
        struct dlr_plan plan;
        struct world w;
        char got[256];

        setup(&w, 2, "l0.n1=0:4/120 1:4/120 0:4/110;l1.n2=1:4/120 0:4/120 1:4/110",
              "l0.n1>n2 l1.n2>n1");
        dlr_format(struck.where, sizeof(struck.where), "%s", rows[i].where);
        w.want.struck = &struck;
        w.want.nstruck = 1;
        w.want.has_committed = true;
        w.want.committed = struck.version;
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        describe_restore(&plan, got, sizeof(got));
        assert_string_equal(got, rows[i].want);
        check_notes(&plan, rows[i].notes);
        dlr_plan_done(&plan);
        teardown(&w);
    }
}

static void files_fill_in_and_limits_hold(void **state)
{
    struct dlr_plan_file files[2] = {
        {{0, 2, {4, 120}, 9, 9}, "/state/r0"},
        {{1, 2, {4, 120}, 9, 9}, "/state/r1"},
    };
    struct dlr_plan plan;
    struct world w;
    char got[256];

    setup(&w, 2, "l0.n1=0:4/120 0:4/100;l1.n3=1:4/100", "l0.n1>n2 l1.n2>n1");
    w.want.files = files;
    w.want.nfiles = 2;
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    describe_restore(&plan, got, sizeof(got));
    assert_string_equal(got, "4/120 local /state/r1");
    dlr_plan_done(&plan);

    w.want.limited = true;
    w.want.newest = (struct dlr_version){4, 119};
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    describe_restore(&plan, got, sizeof(got));
    assert_string_equal(got, "4/100 local local");
    dlr_plan_done(&plan);

    w.want.limited = false;
    assert_int_equal(dlr_plan_restorable(w.reports, w.n, &w.want, &plan, NULL), 0);
    describe_restore(&plan, got, sizeof(got));
    assert_string_equal(got, "4/120 n1 /state/r1");
    dlr_plan_done(&plan);

    files[1].copy.world = 3;
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    describe_restore(&plan, got, sizeof(got));
    assert_string_equal(got, "4/100 local local");
    dlr_plan_done(&plan);
    teardown(&w);
}

/* --- one plan whatever the order --------------------------------------------------------- */

static char *plan_text(const struct dlr_plan *plan, const struct dlr_err *err)
{
    DLR_AUTO_JSON json_t *j = dlr_plan_to_json(plan, err);

    assert_non_null(j);
    return json_dumps(j, JSON_SORT_KEYS | JSON_COMPACT);
}

static void any_order_of_reports_gives_the_same_plan(void **state)
{
    static const char nodes[] = "l0.n1=0:1/5?n4;l0.n2=1:1/5;l1.n3!=2:1/5;l1.n4?n1=2:1/5;"
                                "l1.n5=0:1/5;l2.n10;l2.n6=1:1/5";
    DLR_AUTO_FREE char *first = NULL;
    unsigned turn, i;

    srand(3);
    for (turn = 0; turn < 200; turn++) {
        DLR_AUTO_FREE char *text = NULL;
        struct dlr_plan plan;
        struct world w;

        setup(&w, 3, nodes, "l0.n1>n4 l2.n7>n1 l1.n3>n2");
        for (i = w.n; i > 1 && turn; i--) {
            unsigned k = (unsigned)rand() % i;
            struct dlr_plan_report swap = w.reports[i - 1];

            w.reports[i - 1] = w.reports[k];
            w.reports[k] = swap;
        }
        assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
        text = plan_text(&plan, NULL);
        if (!first)
            first = DLR_STEAL(text);
        else
            assert_string_equal(text, first);
        dlr_plan_done(&plan);
        teardown(&w);
    }
}

/* --- JSON ---------------------------------------------------------------------------- */

static void a_plan_survives_json(void **state)
{
    DLR_AUTO_JSON json_t *j = NULL;
    DLR_AUTO_FREE char *a = NULL, *b = NULL;
    struct dlr_plan plan, back;
    struct world w;

    setup(&w, 2, "l0.n1!=0:4/120 1:4/120;l1.n2;l1.n3;l1.n4=1:4/110", "l0.n1>n2 l1.n2>n1");
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    a = plan_text(&plan, NULL);
    j = json_loads(a, 0, NULL);
    assert_int_equal(dlr_plan_from_json(j, &back, NULL), 0);
    b = plan_text(&back, NULL);
    assert_string_equal(a, b);
    assert_int_equal(back.nverdicts, 1);
    dlr_plan_done(&plan);
    dlr_plan_done(&back);
    teardown(&w);
}

static void a_failed_plan_travels_as_its_error(void **state)
{
    DLR_AUTO_JSON json_t *j = NULL;
    struct dlr_err err = {0}, far = {0};
    struct dlr_plan plan, back;
    struct world w;

    setup(&w, 2, "l0.n1!;l0.n2", NULL);
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, &err), -ENOSPC);
    j = dlr_plan_to_json(&plan, &err);
    assert_int_equal(dlr_plan_from_json(j, &back, &far), -ENOSPC);
    assert_string_equal(far.text, err.text);
    assert_int_equal(back.nout, 1);
    assert_string_equal(back.out[0].node, "n1");
    dlr_plan_done(&plan);
    dlr_plan_done(&back);
    teardown(&w);
}

static void reports_survive_json(void **state)
{
    DLR_AUTO_JSON json_t *j = NULL, *again = NULL;
    struct dlr_plan_report back;
    struct world w;

    setup(&w, 2, "l0.n1!?n7,n8=0:4/120 1:0/0", NULL);
    j = dlr_plan_report_to_json(&w.reports[0]);
    assert_int_equal(dlr_plan_report_from_json(j, &back, NULL), 0);
    again = dlr_plan_report_to_json(&back);
    assert_true(json_equal(j, again));
    assert_int_equal(back.ncopies, 2);
    assert_int_equal(back.copies[0].layout, 0xabcdef0123456789ull);
    dlr_plan_report_done(&back);
    teardown(&w);
}

static void hostile_reports_are_refused(void **state)
{
    static const char *const rows[] = {
        "[]", "7", "{}", "{'node':''}", "{'node':'a b'}", "{'node':'../x'}",
        "{'node':'n','topo':7}",
        "{'node':'n','topo':'n','cpus':-1,'boot':''}",
        "{'node':'n','topo':'n','cpus':1.5,'boot':''}",
        "{'node':'n','topo':'n','cpus':1}",
        "{'node':'n','cpus':1,'boot':'','checks':{}}",
        "{'node':'n','cpus':1,'boot':'','checks':[7]}",
        "{'node':'n','cpus':1,'boot':'','checks':[{'check':'m','verdict':'bad','reason':''}]}",
        "{'node':'n','cpus':1,'boot':'','silent':[7]}",
        "{'node':'n','cpus':1,'boot':'','versions':[{}]}",
        "{'node':'n','cpus':1,'boot':'','versions':[{'rank':-1,'world':1,'vround':0,'step':0,"
        "'bytes':1,'layout':'0123456789abcdef'}]}",
        "{'node':'n','cpus':1,'boot':'','versions':[{'rank':0,'world':1,'vround':0,'step':0,"
        "'bytes':1,'layout':'12'}]}",
        "{'node':'n','cpus':1,'boot':'','versions':[{'rank':0,'world':1,'vround':4294967296,"
        "'step':0,'bytes':1,'layout':'0123456789abcdef'}]}",
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        DLR_AUTO_JSON json_t *j = NULL;
        struct dlr_plan_report r;
        char text[1024], *p;

        dlr_format(text, sizeof(text), "%s", rows[i]);
        for (p = text; *p; p++)
            *p = *p == '\'' ? '"' : *p;
        print_message("  %s\n", text);
        j = json_loads(text, JSON_DECODE_ANY, NULL);
        assert_non_null(j);
        assert_int_equal(dlr_plan_report_from_json(j, &r, NULL), -EBADMSG);
    }
}

/* Drops or replaces each value of a good plan in turn: never a crash, and what is accepted
 * can be written again.
 */
static void damaged_plans_never_crash(void **state)
{
    static const char *const junk[] = {"null", "-1", "1e9", "\"\"", "[]", "{}", "99999999",
                                       "[[[]]]", "true", "\"local\""};
    DLR_AUTO_FREE char *text = NULL;
    struct dlr_plan plan, back;
    struct world w;
    char *p;
    size_t k;

    setup(&w, 2, "l0.n1=0:4/120 1:4/120;l1.n2;l1.n3!", "l0.n1>n2 l1.n2>n1");
    assert_int_equal(dlr_plan_make(w.reports, w.n, &w.want, &plan, NULL), 0);
    text = plan_text(&plan, NULL);
    for (p = strchr(text, ':'); p; p = strchr(p + 1, ':'))
        for (k = 0; k < sizeof(junk) / sizeof(junk[0]); k++) {
            DLR_AUTO_JSON json_t *j = NULL;
            size_t old = strcspn(p + 1, ",}]");
            char bad[4096];

            dlr_format(bad, sizeof(bad), "%.*s%s%s", (int)(p + 1 - text), text, junk[k],
                       p + 1 + old);
            j = json_loads(bad, 0, NULL);
            if (dlr_plan_from_json(j, &back, NULL) == 0) {
                DLR_AUTO_FREE char *again = plan_text(&back, NULL);

                assert_non_null(again);
            }
            dlr_plan_done(&back);
        }
    dlr_plan_done(&plan);
    teardown(&w);
}

static void the_input_survives_json(void **state)
{
    static const char *const nodes[] = {"n1", "n2"}, *const addrs[] = {"h1:1", "h2:2"};
    struct dlr_plan_struck struck = {"*", -1, {4, 130}};
    struct dlr_plan_file file = {{1, 2, {4, 120}, 99, 7}, "/state/persist/r1-4-120.slot"};
    const struct dlr_plan_survey survey = {
        .checks = "memory,clock", .disk_path = "/state", .store_dir = "/dev/shm/x",
        .key = "c.1.r", .shm_need_bytes = 5, .peer_timeout_ms = 700, .npeers = 2,
        .peer_nodes = nodes, .peer_addrs = addrs};
    DLR_AUTO_JSON json_t *j = NULL, *again = NULL;
    struct dlr_plan_input in;
    struct world w;

    setup(&w, 2, "", "l0.n1>n2 l1.n2>n1");
    w.want.struck = &struck;
    w.want.nstruck = 1;
    w.want.files = &file;
    w.want.nfiles = 1;
    w.want.has_committed = true;
    w.want.committed = (struct dlr_version){4, 120};
    w.want.limited = true;
    w.want.newest = (struct dlr_version){4, 125};
    dlr_format(w.want.batch, sizeof(w.want.batch), "n1");
    j = dlr_plan_input_to_json(&w.want, &survey);
    assert_non_null(j);
    assert_int_equal(dlr_plan_input_from_json(j, &in, NULL), 0);
    assert_string_equal(in.survey.checks, "memory,clock");
    assert_string_equal(in.survey.shm_path, "");
    in.survey.shm_path = NULL;
    again = dlr_plan_input_to_json(&in.want, &in.survey);
    assert_true(json_equal(j, again));
    dlr_plan_input_done(&in);
    teardown(&w);
}

static void an_input_may_be_empty_but_not_wrong(void **state)
{
    static const char *const bad[] = {
        "[]", "{\"want\":{\"tasks\":[0]}}", "{\"want\":{\"tasks\":7}}",
        "{\"want\":{\"former\":[{}]}}", "{\"want\":{\"struck\":[{\"where\":\"x\"}]}}",
        "{\"survey\":{\"peer_timeout_ms\":-1}}", "{\"survey\":{\"peers\":[{\"node\":\"n\"}]}}",
        "{\"survey\":{\"checks\":7}}"};
    DLR_AUTO_JSON json_t *empty = json_object();
    struct dlr_plan_input in;
    size_t i;

    assert_int_equal(dlr_plan_input_from_json(empty, &in, NULL), 0);
    assert_int_equal(in.want.nplaces, 0);
    dlr_plan_input_done(&in);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        DLR_AUTO_JSON json_t *j = json_loads(bad[i], 0, NULL);

        print_message("  %s\n", bad[i]);
        assert_non_null(j);
        assert_int_equal(dlr_plan_input_from_json(j, &in, NULL), -EBADMSG);
        dlr_plan_input_done(&in);
    }
}

/* --- size ---------------------------------------------------------------------------- */

static void many_nodes_are_planned(void **state)
{
    const unsigned n = 2064, nplaces = 2048, per = 8;
    struct dlr_plan_report *r = calloc(n, sizeof(*r));
    unsigned *tasks = calloc(nplaces, sizeof(*tasks)), i, k;
    struct dlr_plan_want want = {.nplaces = nplaces, .tasks = tasks};
    struct dlr_plan plan;
    int64_t t0;

    for (i = 0; i < n; i++) {
        dlr_format(r[i].node.name, sizeof(r[i].node.name), "n%u", i);
        dlr_format(r[i].node.path, sizeof(r[i].node.path), "s.l%u.n%u", i / 32, i);
        r[i].copies = calloc(per * 2, sizeof(*r[i].copies));
        for (k = 0; k < 2 * per; k++)
            r[i].copies[r[i].ncopies++] = (struct dlr_plan_copy){
                (int32_t)((i * per + k) % (nplaces * per)), nplaces * per, {0, 9}, 1, 1};
        if (i < nplaces)
            tasks[i] = per;
    }
    t0 = dlr_now_ns();
    assert_int_equal(dlr_plan_make(r, n, &want, &plan, NULL), 0);
    print_message("  2,064 nodes, 16,384 ranks in %.1f ms\n", (double)(dlr_now_ns() - t0) / 1e6);
    assert_true(plan.restore);
    assert_int_equal(plan.nspares, n - nplaces);
    dlr_plan_done(&plan);
    for (i = 0; i < n; i++)
        dlr_plan_report_done(&r[i]);
    free(r);
    free(tasks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_get_their_places),
        cmocka_unit_test(the_supervisors_node_is_kept_when_two_disagree),
        cmocka_unit_test(ranks_of_a_place_follow_each_other),
        cmocka_unit_test(what_cannot_be_planned_is_refused),
        cmocka_unit_test(the_newest_whole_version_is_restored),
        cmocka_unit_test(struck_copies_are_not_taken_again),
        cmocka_unit_test(files_fill_in_and_limits_hold),
        cmocka_unit_test(any_order_of_reports_gives_the_same_plan),
        cmocka_unit_test(a_plan_survives_json),
        cmocka_unit_test(a_failed_plan_travels_as_its_error),
        cmocka_unit_test(reports_survive_json),
        cmocka_unit_test(hostile_reports_are_refused),
        cmocka_unit_test(damaged_plans_never_crash),
        cmocka_unit_test(the_input_survives_json),
        cmocka_unit_test(an_input_may_be_empty_but_not_wrong),
        cmocka_unit_test(many_nodes_are_planned),
    };

    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
