/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* A turn of a round: what the supervisor keeps and says, in which order, what limits
 * run, and what becomes of it under a new supervisor. Two nodes, two places; the
 * program has told its ranks.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/base/version.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/plan/input.h"
#include "mpi_launcher/plan/json_fields.h"
#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/policy/actions.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/step_plan/step_plan.h"
#include "mpi_launcher/supervisor/copies/copies.h"
#include "mpi_launcher/supervisor/copies/fetch.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/reprotect.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/peers.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "mpi_launcher/supervisor/versions/versions.h"
#include "mpi_launcher/wire/heartbeat.h"
#include "tests/support/rounds_alone.h"

#define NODES 2
#define LIMIT_MS 300000

static int64_t now_ms;
static char done[400]; /* what was kept and said, in order */
static bool has_newest;
static struct dlr_version newest;

/* --- instead of the other files of the supervisor --------------------------------- */

static void note(const char *what)
{
    size_t len = strlen(done);

    snprintf(done + len, sizeof(done) - len, "%s ", what);
}

int64_t dlr_sup_now(void)
{
    return now_ms;
}
enum dlr_phase dlr_policy_phase(const struct dlr_policy *p)
{
    return DLR_PHASE_RUN;
}
int dlr_sup_node_of(const struct dlr_sup_planning *its, unsigned place)
{
    return (int)place;
}
bool dlr_restore_changes_world_size(const struct dlr_sup_copies *sup)
{
    return rounds->anywhere || sup->plan->made_by != sup->plan->world;
}
void dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
}
void dlr_sup_send(struct dlr_sup_nodes *to, unsigned node, json_t *msg)
{
    char text[40];

    dlr_format(text, sizeof(text), "%s:n%u", dlr_msg_type(msg), node);
    note(text);
    json_decref(msg);
}
void dlr_sup_send_all(struct dlr_sup_nodes *to, json_t *msg)
{
    note(dlr_msg_type(msg));
    json_decref(msg);
}
void dlr_sup_tell_round(struct dlr_sup_rounds *who, uint32_t round)
{
    note("tell");
}
void dlr_sup_keep_plan(struct dlr_sup_planning *of)
{
    note("keep");
    copies->last_round_whole = false; /* as where nothing was to be made */
}
int dlr_sup_new_token(struct dlr_sup_rounds *who)
{
    return 0;
}
int dlr_sup_holders_make(struct dlr_sup_copies *sup)
{
    free(sup->slot_bytes);
    sup->slot_bytes = calloc(sup->plan->world, sizeof(*sup->slot_bytes));
    return sup->slot_bytes ? 0 : -ENOMEM;
}
int dlr_sup_place_ranks(struct dlr_sup_planning *of, const unsigned *tasks,
                        const unsigned *ranks)
{
    return 0;
}
json_t *dlr_sup_plan_rows(const struct dlr_sup_planning *of)
{
    return json_object();
}
void dlr_journal_event(struct dlr_journal *j, const char *name, json_t *fields)
{
    json_decref(fields);
}
void dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt, ...)
{
}
bool dlr_sup_newest(const struct dlr_sup_versions *versions, struct dlr_version *ret)
{
    *ret = newest;
    return has_newest;
}
void dlr_sup_versions_stop(struct dlr_sup_versions *versions, const char *why)
{
}
void dlr_sup_versions_turn(struct dlr_sup_versions *versions, uint32_t round, bool same)
{
}
void dlr_reprotect_stop(struct dlr_sup_copies *sup)
{
    note("stop");
}
void dlr_reprotect_turn(struct dlr_sup_copies *sup)
{
    note("again");
}
void dlr_sup_fetch_round(struct dlr_sup_copies *sup)
{
}
void dlr_sup_periodic_cut(struct dlr_sup_disk *disk, const char *why)
{
}
void dlr_sup_send_peers(struct dlr_sup_nodes *to)
{
}

/* --- the rig ---------------------------------------------------------------------- */

static int begin(void **state)
{
    static unsigned tasks[NODES] = {1, 1};
    static char n1[] = "n1", n2[] = "n2";
    char *const names[NODES] = {n1, n2};

    done[0] = '\0';
    now_ms = 1000;
    rounds_begin(names, NODES);
    conf.restore_timeout_ms = LIMIT_MS;
    planning.step =
        (struct dlr_step_plan){.world = 2, .nplaces = NODES, .tasks = tasks};
    planning.plan.world = planning.plan.made_by = planning.plan.nplaces = NODES;
    planning.plan.places = calloc(NODES, sizeof(*planning.plan.places));
    planning.plan.sources = calloc(NODES, sizeof(*planning.plan.sources));
    copies->slot_bytes = calloc(NODES, sizeof(*copies->slot_bytes));
    for (unsigned p = 0; p < NODES; p++) {
        dlr_format(planning.plan.places[p].node.name, DLR_TOPO_NAME, "n%u", p + 1);
        planning.plan.places[p].from = p;
        planning.plan.places[p].tasks = 1;
    }
    assert_int_equal(dlr_plan_former_place(&planning.plan, tasks, NODES, NULL), 0);
    has_newest = planning.plan.restore = true;
    newest = planning.plan.version = (struct dlr_version){0, 7};
    rounds->running_round = 1;
    rounds->restore_deadline_ms = now_ms + LIMIT_MS;
    dlr_sup_ranks_round(rounds);
    return 0;
}

static int end(void **state)
{
    dlr_plan_done(&planning.plan);
    rounds_end();
    return 0;
}

/* The node says who waits and who is served: "[[0,4]]". */
static void told(unsigned node, const char *waiting, const char *served)
{
    DLR_AUTO_JSON json_t *msg =
        json_pack("{s:i,s:i,s:o,s:o}", "round", 1, "turn", (int)rounds->turn, "waiting",
                  json_loads(waiting, 0, NULL), "served", json_loads(served, 0, NULL));

    dlr_sup_on_ranks(rounds, node, msg);
}

static void turned(unsigned node)
{
    DLR_AUTO_JSON json_t *msg =
        json_pack("{s:i,s:i}", "round", 1, "turn", (int)rounds->turn);

    dlr_sup_on_turned(rounds, node, msg);
}

/* torchrun has two ranks a node. */
static void four_ranks(void)
{
    told(0, "[[0,4],[1,4]]", "[]");
    told(1, "[[2,4],[3,4]]", "[]");
}

/* --- tests ------------------------------------------------------------------------ */

static void a_turn_is_kept_before_anybody_hears_of_it(void **state)
{
    four_ranks();
    assert_int_equal(rounds->turn, 1);
    assert_int_equal(planning.plan.world, 4);
    assert_string_equal(done, "ask_ranks stop keep tell again ");
}

static void a_turn_of_the_same_ranks_goes_on_with_its_copies(void **state)
{
    copies->last_round_whole = true;
    told(0, "[[0,2]]", "[]");
    told(1, "[[1,2]]", "[]");
    assert_int_equal(rounds->turn, 1);
    assert_string_equal(done, "ask_ranks keep tell again ");
    assert_true(copies->last_round_whole);
}

/* Another number of ranks reads what there is from where it is; then they are fewer. */
static void
a_number_of_ranks_that_changes_begins_from_what_the_others_made(void **state)
{
    four_ranks();
    assert_int_equal(planning.plan.made_by, 2);
    assert_true(dlr_restore_changes_world_size(copies));
    for (unsigned r = 0; r < 2; r++)
        assert_string_equal(planning.plan.sources[r].where, r ? "n2" : "n1");
    turned(0);
    turned(1);
    newest.step = 9; /* the four have made it */
    newest.round = 1;
    told(0, "[[2,3]]", "[]");
    told(1, "[[0,3],[1,3]]", "[]");
    assert_int_equal(rounds->turn, 2);
    assert_int_equal(planning.plan.world, 3);
    assert_int_equal(planning.plan.made_by, 4);
    assert_int_equal(planning.plan.version.step, 9);
    for (unsigned r = 0; r < 4; r++)
        assert_string_equal(planning.plan.sources[r].where, r < 2 ? "n1" : "n2");
}

/* Beats tell the steps that the pages showed before. */
static void the_steps_of_a_former_turn_end_no_limit(void **state)
{
    nodes->members.list[0].round = 1;
    nodes->members.list[0].step_max = 40;
    rounds->first_step_seen = true;
    four_ranks();
    assert_int_equal(dlr_members_step(&nodes->members, 1), DLR_HEARTBEAT_NO_STEP);
    assert_true(dlr_sup_ranks_behind(rounds, 0));
    assert_int_equal(rounds->restore_deadline_ms, now_ms + LIMIT_MS);
}

static void
ranks_that_were_let_in_have_their_limit_when_others_are_refused(void **state)
{
    told(0, "[]", "[[0,2]]");
    told(1, "[[3,4]]", "[]");
    assert_int_equal(rounds->restore_deadline_ms, INT64_MAX);
    now_ms += LIMIT_MS;
    dlr_sup_ranks_tick(rounds, now_ms);
    assert_string_equal(done, "ask_ranks refuse ");
    assert_int_equal(rounds->restore_deadline_ms, now_ms + LIMIT_MS);
}

static void ranks_that_were_let_in_have_their_limit_when_nobody_waits_more(void **state)
{
    told(1, "[[3,4]]", "[]");
    now_ms += 1000;
    told(1, "[]", "[[1,2]]");
    assert_int_equal(rounds->restore_deadline_ms, now_ms + LIMIT_MS);
    now_ms += 1000;
    told(0, "[]", "[[0,2]]"); /* does not run anew */
    assert_int_equal(rounds->restore_deadline_ms, now_ms - 1000 + LIMIT_MS);
}

/* Rank 0 looks at what there is once more, at the program's end. */
static void a_rank_that_opens_after_others_have_ended_does_not_wait(void **state)
{
    newest.round = 1; /* all of them were ranks, then */
    told(0, "[[0,2]]", "[]");
    assert_string_equal(done, "ask_ranks ");
    dlr_sup_ranks_ended(rounds);
    assert_string_equal(done, "ask_ranks refuse ");
}

/* torchrun restarts its workers in a turn: they come one node after the other. */
static void ranks_of_a_later_turn_wait_though_a_task_has_ended(void **state)
{
    four_ranks();
    newest.round = 1;
    dlr_sup_ranks_ended(rounds);
    told(0, "[[0,4],[1,4]]", "[]");
    assert_string_equal(done, "ask_ranks stop keep tell again ask_ranks ");
}

/* Ranks that a former round has gathered are no tasks: a task may end that never had
 * one.
 */
static void gathered_ranks_wait_though_a_task_has_ended(void **state)
{
    unsigned tasks[NODES] = {2, 2};

    planning.placement = (struct dlr_plan_world){.nplaces = NODES, .tasks = tasks};
    newest.round = 1;
    dlr_sup_ranks_ended(rounds);
    told(0, "[[0,4],[1,4]]", "[]");
    assert_string_equal(done, "ask_ranks ");
}

/* A task that does nothing has ended; the other one is mpirun, and its ranks come one
 * by one.
 */
static void a_task_without_ranks_may_end(void **state)
{
    dlr_sup_ranks_ended(rounds);
    told(0, "[[0,2]]", "[]");
    assert_string_equal(done, "ask_ranks ");
    told(1, "[]", "[]");
    told(0, "[[0,2],[1,2]]", "[]");
    assert_int_equal(rounds->turn, 1);
}

/* Its connection was broken when all were asked. */
static void a_node_that_is_welcomed_is_asked_again(void **state)
{
    dlr_sup_ranks_welcome(rounds, 1);
    assert_string_equal(done, "");
    told(0, "[[0,4],[1,4]]", "[]");
    dlr_sup_ranks_welcome(rounds, 1);
    assert_string_equal(done, "ask_ranks ask_ranks:n1 ");
}

/* A supervisor took over while ranks were gathered. */
static void no_turn_begins_before_all_nodes_have_told_where_they_stand(void **state)
{
    DLR_AUTO_JSON json_t *where = json_pack("{s:i}", "turn", 0);

    assert_int_equal(dlr_sup_ranks_adopt(rounds), 0);
    rounds->adopt.active = true;
    dlr_sup_ranks_round_state(rounds, 0, where);
    four_ranks();
    assert_int_equal(rounds->turn, 0);
    assert_string_equal(done, "");
    dlr_sup_ranks_round_state(rounds, 1, where);
    rounds->adopt.active = false;
    dlr_sup_ranks_adopted(rounds);
    assert_int_equal(rounds->turn, 1);
    assert_string_equal(done, "ask_ranks stop keep tell again ");
}

/* The former supervisor died between keeping and telling. */
static void a_successor_tells_the_turn_to_those_that_have_not_heard_of_it(void **state)
{
    DLR_AUTO_JSON json_t *old = json_pack("{s:i}", "turn", 1);
    DLR_AUTO_JSON json_t *now = json_pack("{s:i}", "turn", 2);

    rounds->turn = 2;
    assert_int_equal(dlr_sup_ranks_adopt(rounds), 0);
    dlr_sup_ranks_round_state(rounds, 0, now);
    dlr_sup_ranks_round_state(rounds, 1, old);
    dlr_sup_ranks_adopted(rounds);
    assert_string_equal(done, "tell ");
    assert_true(dlr_sup_ranks_behind(rounds, 1) && !dlr_sup_ranks_behind(rounds, 0));
    turned(1);
    assert_false(dlr_sup_ranks_behind(rounds, 1));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_turn_is_kept_before_anybody_hears_of_it),
        TEST(a_turn_of_the_same_ranks_goes_on_with_its_copies),
        TEST(a_number_of_ranks_that_changes_begins_from_what_the_others_made),
        TEST(the_steps_of_a_former_turn_end_no_limit),
        TEST(ranks_that_were_let_in_have_their_limit_when_others_are_refused),
        TEST(ranks_that_were_let_in_have_their_limit_when_nobody_waits_more),
        TEST(a_rank_that_opens_after_others_have_ended_does_not_wait),
        TEST(ranks_of_a_later_turn_wait_though_a_task_has_ended),
        TEST(gathered_ranks_wait_though_a_task_has_ended),
        TEST(a_task_without_ranks_may_end),
        TEST(a_node_that_is_welcomed_is_asked_again),
        TEST(no_turn_begins_before_all_nodes_have_told_where_they_stand),
        TEST(a_successor_tells_the_turn_to_those_that_have_not_heard_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
