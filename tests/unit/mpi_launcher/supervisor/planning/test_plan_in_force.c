/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=dlr_sup_is_candidate,dlr_user_line,dlr_journal_note,dlr_sup_losses_count */
/* The plan in force: which plans are this run's, what is told of those that are
 * refused, and what the next one is asked for.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/plan/json_fields.h"
#include "mpi_launcher/supervisor/nodes/nodes_state.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"

#define NODES 4
#define PLACES 2

static struct dlr_job_config conf;
static struct dlr_sup_nodes *nodes;
static struct dlr_sup_planning *planning;
static bool lost[NODES];
static char told[512];
static unsigned training; /* nodes, as they were counted last */

static void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void note(const char *fmt, ...)
{
    size_t len = strlen(told);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(told + len, sizeof(told) - len, fmt, ap);
    va_end(ap);
}

/* --- instead of what is below it -------------------------------------------------- */

bool __wrap_dlr_sup_is_candidate(const struct dlr_sup_steps *steps, unsigned node);
bool __wrap_dlr_sup_is_candidate(const struct dlr_sup_steps *steps, unsigned node)
{
    return !lost[node];
}

void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...);
void __wrap_dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
    char text[128];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    note("'%s' ", text);
}

void __wrap_dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt,
                             ...);
void __wrap_dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt,
                             ...)
{
    note("%s ", event);
}

void __wrap_dlr_sup_losses_count(struct dlr_sup_nodes *of, unsigned n);
void __wrap_dlr_sup_losses_count(struct dlr_sup_nodes *of, unsigned n)
{
    training = n;
}

/* --- the rig ---------------------------------------------------------------------- */

static void add_want(void *arg, struct dlr_plan_want *ret)
{
    ret->nfiles = 3;
}
static void on_kept(void *arg)
{
    note("kept%u ", planning->nformer);
}
static int on_reseated(void *arg, const unsigned *tasks, const unsigned *ranks)
{
    note("reseated%u,%u ", tasks[0], tasks[1]);
    return 0;
}
static uint32_t round_now(void *arg)
{
    return 6;
}
static void put_beside(void *arg, unsigned place, json_t *row)
{
    json_object_set_new(row, "beside", json_integer(place));
}

static void put_survival(void *arg, json_t *row)
{
    json_object_set_new(row, "survives", json_string("any one node"));
}

/* Two places of the four nodes, a rank at each, whose copies the other one keeps. */
static int begin(void **state)
{
    static const struct dlr_sup_planning_ops ops = {.want = add_want,
                                                    .kept = on_kept,
                                                    .reseated = on_reseated,
                                                    .beside = put_beside,
                                                    .survives = put_survival,
                                                    .round = round_now};
    static char n[NODES][3] = {"n0", "n1", "n2", "n3"};
    char *names[NODES] = {n[0], n[1], n[2], n[3]};
    const struct dlr_sup_nodes_env nodes_env = {.conf = &conf};
    struct dlr_sup_planning_env env = {.conf = &conf};
    struct dlr_err err;

    conf = (struct dlr_job_config){.redundancy = {.copies = 1}};
    nodes = env.nodes = dlr_sup_nodes_new(&nodes_env, NULL, NULL);
    assert_int_equal(dlr_sup_nodes_open(nodes, names, NODES, "n3", &err), 0);
    planning = dlr_sup_planning_new(&env, &ops, NULL);
    assert_non_null(planning);
    planning->step.nplaces = planning->step.world = PLACES;
    planning->step.tasks = calloc(PLACES, sizeof(*planning->step.tasks));
    planning->step.tasks[0] = planning->step.tasks[1] = 1;
    memset(lost, 0, sizeof(lost));
    told[0] = '\0';
    training = 0;
    return 0;
}

static int end(void **state)
{
    dlr_sup_planning_free(planning);
    dlr_sup_nodes_free(nodes);
    return 0;
}

/* Of these nodes, with as many ranks at the first one. */
static struct dlr_plan plan_of(const char *first, const char *second, unsigned ranks)
{
    const unsigned tasks[PLACES] = {ranks, 1};
    struct dlr_plan plan = {.nplaces = PLACES, .world = ranks + 1};

    plan.places = calloc(PLACES, sizeof(*plan.places));
    dlr_format(plan.places[0].node.name, DLR_TOPO_NAME, "%s", first);
    dlr_format(plan.places[1].node.name, DLR_TOPO_NAME, "%s", second);
    plan.places[0].partner = 1;
    plan.places[0].tasks = ranks;
    plan.places[1].from = ranks;
    plan.places[1].tasks = 1;
    assert_int_equal(dlr_plan_former_place(&plan, tasks, PLACES, NULL), 0);
    return plan;
}

static void take(const char *first, const char *second)
{
    struct dlr_plan plan = plan_of(first, second, 1);

    assert_true(dlr_sup_plan_is_ours(planning, &plan));
    dlr_sup_plan_take(planning, &plan);
    assert_null(plan.places); /* it is the engine's */
}

/* n2 and more are left out; the code that comes of it. */
static int refuse(unsigned nout)
{
    struct dlr_plan_out out[NODES] = {{.node = "n2"}, {.node = "n3"}, {.node = "nX"}};
    struct dlr_plan plan = {.out = out, .nout = nout};

    return dlr_sup_plan_refuse(planning, -ENOSPC, &plan, "too few");
}

/* --- tests ------------------------------------------------------------------------ */

static void ranks_may_move_when_the_user_says_so(void **state)
{
    static const struct {
        enum dlr_reorder word;
        bool reorder, weigh;
    } rows[] = {{DLR_REORDER_NEVER, false, false},
                {DLR_REORDER_ALWAYS, true, false},
                {DLR_REORDER_AUTO, true, true}};
    struct dlr_plan_want want;

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        conf.reorder = rows[i].word;
        dlr_sup_fill_want(planning, &want);
        assert_int_equal(want.reorder, rows[i].reorder);
        assert_int_equal(want.weigh, rows[i].weigh);
    }
}

static void a_plan_that_is_taken_is_read_where_the_former_one_was(void **state)
{
    const struct dlr_plan *plan = dlr_sup_plan(planning);

    assert_false(dlr_sup_has_plan(plan));
    take("n0", "n1");
    assert_true(dlr_sup_has_plan(plan));
    take("n0", "n2");
    assert_string_equal(plan->places[1].node.name, "n2");
    assert_int_equal(dlr_sup_node_of(planning, 1), 2);
    assert_int_equal(training, PLACES);
}

static void a_plan_of_others_is_not_this_runs(void **state)
{
    struct dlr_plan rows[] = {plan_of("n0", "nX", 1), plan_of("n0", "n1", 2),
                              plan_of("n0", "n1", 1)};

    rows[2].nplaces = 1;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_false(dlr_sup_plan_is_ours(planning, &rows[i]));
        dlr_plan_done(&rows[i]);
    }
}

static void nodes_that_a_check_left_out_are_unfit_until_a_plan_is_taken(void **state)
{
    assert_int_equal(refuse(1), -ENOSPC);
    assert_string_equal(told, "'too few' rendezvous_failed ");
    for (unsigned i = 0; i < NODES; i++)
        assert_int_equal(dlr_sup_is_unfit(planning, i), i == 2);
    take("n0", "n1");
    assert_false(dlr_sup_is_unfit(planning, 2));
}

/* Another allocation would not help. */
static void when_none_is_fit_it_is_nothing_of_the_nodes(void **state)
{
    lost[0] = true;
    assert_int_equal(refuse(3), -ENOSPC); /* n1 */
    lost[1] = true;
    assert_int_equal(refuse(3), -ENODEV);
}

static void the_next_plan_is_asked_for_the_former_seats(void **state)
{
    static const struct {
        struct dlr_redundancy_conf asked;
        const char *partners[PLACES];
    } rows[] = {{{.copies = 1}, {"n1", "n0"}},
                {{.copies = 2}, {"*", "*"}},
                {{.copies = 1, .members = 2}, {"*", "*"}}};
    struct dlr_plan_want want;

    take("n0", "n1");
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        conf.redundancy = rows[i].asked;
        told[0] = '\0';
        dlr_sup_keep_plan(planning);
        assert_string_equal(told, "kept2 ");
        dlr_sup_fill_want(planning, &want);
        assert_int_equal(want.nformer, PLACES);
        for (unsigned p = 0; p < PLACES; p++) {
            assert_string_equal(want.former[p].node.name, p ? "n1" : "n0");
            assert_string_equal(want.former[p].partner, rows[i].partners[p]);
        }
        assert_int_equal(want.members, rows[i].asked.members);
        assert_int_equal(want.rows, rows[i].asked.members ? 1 : 0);
    }
}

static void the_next_plan_knows_who_is_left_out_and_what_others_add(void **state)
{
    const struct dlr_plan_out full = {.node = "n1", .reason = "no room"};
    struct dlr_plan_want want;

    assert_false(dlr_sup_is_left_out(planning, "n1"));
    dlr_sup_leave_out(planning, &full);
    assert_true(dlr_sup_is_left_out(planning, "n1"));
    dlr_sup_fill_want(planning, &want);
    assert_int_equal(want.nfull, 1);
    assert_string_equal(want.full[0].reason, "no room");
    assert_string_equal(want.batch, "n3");
    assert_int_equal(want.nplaces, PLACES);
    assert_int_equal(want.nfiles, 3);
}

/* mpirun's ranks are where it started them. */
static void the_next_plan_has_the_ranks_where_the_program_told(void **state)
{
    const unsigned both[PLACES] = {2, 1}, one[PLACES] = {1, 1};
    const unsigned ranks[] = {0, 2, 1}, in_order[] = {0, 1};
    struct dlr_plan_want want;

    take("n0", "n1");
    assert_int_equal(dlr_sup_plan_seat(planning, both, ranks, 3), 0);
    assert_string_equal(told, "reseated2,1 ");
    assert_true(dlr_sup_seats_told(planning));
    assert_int_equal(dlr_sup_plan(planning)->world, 3);
    assert_int_equal(dlr_sup_place_of(planning, 2), 0);
    dlr_sup_fill_want(planning, &want);
    assert_memory_equal(want.tasks, both, sizeof(both));
    assert_memory_equal(want.ranks, ranks, sizeof(ranks));
    assert_int_equal(dlr_sup_plan_seat(planning, one, in_order, 2), 0);
    assert_false(dlr_sup_seats_told(planning)); /* as Slurm's tasks are */
}

static void ranks_of_a_round_may_begin_from_what_they_made_in_it(void **state)
{
    const struct dlr_plan *plan = dlr_sup_plan(planning);
    const struct dlr_version v = {6, 40};

    take("n0", "n1");
    assert_int_equal(dlr_sup_plan_restore(planning, &v), 0);
    assert_int_equal(dlr_sup_plan_source(planning, 0, "n1", 9), 0);
    assert_int_equal(dlr_sup_plan_source(planning, 1, NULL, 9), 0);
    assert_true(plan->restore && dlr_version_eq(plan->version, v));
    assert_int_equal(plan->made_by, 2);
    assert_int_equal(plan->sources[0].from, DLR_PLAN_NODE);
    assert_string_equal(plan->sources[0].where, "n1");
    assert_int_equal(plan->sources[1].from, DLR_PLAN_LOCAL);
    assert_int_equal(dlr_sup_plan_restore(planning, NULL), 0);
    assert_false(plan->restore);
}

static void a_round_that_goes_on_has_no_more_places_than_the_run(void **state)
{
    struct dlr_plan plan = plan_of("n0", "n1", 1);
    DLR_AUTO_JSON json_t *kept = dlr_plan_to_json(&plan, NULL);

    dlr_plan_done(&plan);
    assert_int_equal(dlr_sup_plan_adopt(planning, kept), 0);
    assert_int_equal(dlr_sup_plan(planning)->nplaces, PLACES);
    dlr_sup_plan_drop(planning);
    planning->step.nplaces = 1;
    assert_int_equal(dlr_sup_plan_adopt(planning, kept), -ESTALE);
    planning->step.nplaces = 3; /* fewer only with --dlrover-nodes */
    assert_int_equal(dlr_sup_plan_adopt(planning, kept), -ESTALE);
    assert_false(dlr_sup_has_plan(dlr_sup_plan(planning)));
    conf.nodes.min = 1;
    assert_int_equal(dlr_sup_plan_adopt(planning, kept), 0);
}

static void a_place_is_told_with_what_others_put_beside_it(void **state)
{
    DLR_AUTO_FREE char *text = NULL;
    DLR_AUTO_JSON json_t *rows = NULL;

    take("n0", "n1");
    rows = dlr_sup_plan_rows(planning);
    text = json_dumps(rows, JSON_COMPACT);
    assert_string_equal(
        text, "{\"round\":6,\"places\":[{\"node\":\"n0\",\"leaf\":\"\",\"path\":\"\","
              "\"first\":0,"
              "\"tasks\":1,\"moved\":false,\"partner\":\"n1\",\"beside\":0},"
              "{\"node\":\"n1\",\"leaf\":\"\",\"path\":\"\",\"first\":1,\"tasks\":1,"
              "\"moved\":false,"
              "\"partner\":\"n0\",\"beside\":1}],\"spares\":[],\"restore\":null,"
              "\"order\":{\"apart\":0,\"least\":0,\"split\":0},"
              "\"survives\":\"any one node\"}");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        T(a_plan_that_is_taken_is_read_where_the_former_one_was),
        T(a_plan_of_others_is_not_this_runs),
        T(nodes_that_a_check_left_out_are_unfit_until_a_plan_is_taken),
        T(when_none_is_fit_it_is_nothing_of_the_nodes),
        T(the_next_plan_is_asked_for_the_former_seats),
        T(the_next_plan_knows_who_is_left_out_and_what_others_add),
        T(the_next_plan_has_the_ranks_where_the_program_told),
        T(ranks_of_a_round_may_begin_from_what_they_made_in_it),
        T(a_round_that_goes_on_has_no_more_places_than_the_run),
        T(ranks_may_move_when_the_user_says_so),
        T(a_place_is_told_with_what_others_put_beside_it),
    };

    return cmocka_run_group_tests_name("plan_in_force", tests, NULL, NULL);
}
