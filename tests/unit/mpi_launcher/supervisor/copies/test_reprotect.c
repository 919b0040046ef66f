/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* A round begins with a version that some of its holders lack: what is asked of whom,
 * when saves go on, and when the job counts as protected again. Five nodes, four
 * places, one rank on each.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/copies/fetch.h"
#include "mpi_launcher/supervisor/copies/orders.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/reprotect.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/version_json.h"
#include "tests/support/copies_alone.h"

#define PLACES 4
#define NODES 5
#define TIMEOUT_MS 60000

static struct dlr_commit *commit;
static int64_t now_ms;
static unsigned kept, reserved[64], nreserved;
static uint64_t sent[64];
static unsigned nsent;
static char told[256]; /* names of journal events */
static char said[256]; /* to the user */
static bool ordered;

/* --- instead of the other files of the supervisor --------------------------------- */

int64_t dlr_sup_now(void)
{
    return now_ms;
}
void dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(said, sizeof(said), fmt, ap);
    va_end(ap);
}
bool dlr_restore_changes_world_size(const struct dlr_sup_copies *its)
{
    return false;
}
int dlr_sup_place_of(const struct dlr_sup_planning *its, unsigned rank)
{
    return (int)rank;
}
int dlr_sup_node_of(const struct dlr_sup_planning *its, unsigned place)
{
    return its->plan.places[place].node.name[1] - '0';
}
int dlr_members_find(const struct dlr_members *m, const char *name)
{
    return name[1] - '0';
}
void dlr_sup_ask(struct dlr_sup_copies *its, const struct dlr_transfer *t,
                 const char *type, unsigned node, const char *key, const char *value)
{
    assert_string_equal(type, "send");
    assert_int_equal(node, t->from);
    sent[nsent++] = t->id;
}
void dlr_sup_ask_reserve(struct dlr_sup_copies *its, unsigned node, unsigned rank,
                         uint64_t bytes)
{
    assert_true(bytes >= 8192);
    reserved[nreserved++] = node * 100 + rank;
}
uint32_t dlr_policy_round(const struct dlr_policy *p)
{
    return 1;
}
struct dlr_transfer *dlr_sup_add_transfer(struct dlr_sup_copies *its, unsigned rank,
                                          int from, int to, bool essential)
{
    return NULL;
}
json_t *dlr_sup_version(const struct dlr_version *v)
{
    return NULL;
}
void dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt, ...)
{
    size_t len = strlen(told);

    snprintf(told + len, sizeof(told) - len, "%s ", event);
}

static void on_changed(void *arg)
{
    kept++;
}

static void on_save_at(void *arg, struct dlr_version v)
{
    ordered = true;
}
static void on_commit(void *arg, struct dlr_version v, int64_t took_ms)
{
}
static void on_abort(void *arg, struct dlr_version v, const char *why)
{
}

/* --- the rig ---------------------------------------------------------------------- */

static void put(unsigned place, unsigned node)
{
    dlr_format(planning.plan.places[place].node.name, DLR_TOPO_NAME, "n%u", node);
    dlr_format(planning.plan.places[place].node.path, DLR_TOPO_PATH, "s.l%u.n%u",
               node % 4 / 2, node);
}

static int begin(void **state, unsigned others, unsigned members)
{
    static const struct dlr_commit_ops ops = {on_save_at, on_commit, on_abort};
    static unsigned tasks[PLACES] = {1, 1, 1, 1};
    static const struct dlr_sup_copies_ops events = {.changed = on_changed};
    struct dlr_commit_conf commits = {.copies = others, .decide_ms = 1000};
    struct dlr_version v = {0, 7};

    copies_begin(&events, NODES);
    now_ms = 1000;
    kept = nreserved = nsent = 0;
    told[0] = said[0] = '\0';
    conf.redundancy.copies = others;
    conf.redundancy.members = members;
    conf.transfer_timeout_ms = TIMEOUT_MS;
    planning.step.nplaces = planning.plan.nplaces = PLACES;
    planning.step.tasks = tasks;
    planning.plan.world = PLACES;
    planning.plan.places = calloc(PLACES, sizeof(*planning.plan.places));
    planning.plan.sources = calloc(PLACES, sizeof(*planning.plan.sources));
    for (unsigned p = 0; p < PLACES; p++) {
        put(p, p);
        planning.plan.sources[p].bytes = 8192;
    }
    assert_int_equal(dlr_sup_redundancy_check(copies, NULL), 0);
    assert_int_equal(dlr_sup_holders_make(copies), 0);
    assert_int_equal(dlr_commit_new(&commits, &ops, NULL, &commit, NULL), 0);
    dlr_sup_copies_open(copies, NULL, commit);
    assert_int_equal(dlr_commit_round(commit, 0, PLACES, &v), 0);
    dlr_sup_holders_keep(copies);
    dlr_redundancy_restored(copies); /* step 7 was committed */
    planning.plan.restore = true;
    planning.plan.version = v;
    return 0;
}

static int with_partners(void **state)
{
    return begin(state, 1, 0);
}

static int with_parity(void **state)
{
    return begin(state, 1, 2);
}

static int end(void **state)
{
    copies_end();
    dlr_commit_free(commit);
    free(planning.plan.places);
    free(planning.plan.sources);
    return 0;
}

/* Node 1 is lost, node 4 has its place in round 1. */
static void lose_node_1(void)
{
    dlr_redundancy_degraded(copies, 1);
    now_ms += 500;
    put(1, 4);
    assert_int_equal(dlr_sup_holders_make(copies), 0);
    dlr_reprotect_plan(copies);
    assert_int_equal(dlr_commit_round(commit, 1, PLACES, &planning.plan.version), 0);
    dlr_sup_holders_keep(copies);
    dlr_reprotect_start(copies);
}

static void expect_survival(const char *want)
{
    DLR_AUTO_JSON json_t *row = json_object();
    const char *text;

    assert_int_equal(dlr_sup_holders_make(copies), 0);
    dlr_sup_put_survival(copies, row);
    text = json_string_value(json_object_get(row, "survives"));
    assert_string_equal(text ? text : "", want);
}

/* Two leaves of two nodes each; then node 4 is in the place of node 1, and then node 6,
 * which is on the other leaf.
 */
static void what_copies_survive_is_told_when_it_changes(void **state)
{
    expect_survival("any one node, any one leaf switch");
    put(1, 4);
    expect_survival("");
    put(1, 6);
    expect_survival("any one node, not leaf switch 'l1' (1 of 2)");
    put(1, 1);
    expect_survival("any one node, any one leaf switch");
}

static void done(unsigned node, uint64_t id, int rc, const char *why)
{
    json_t *msg =
        json_pack("{s:I,s:i,s:s}", "id", (json_int_t)id, "rc", -rc, "why", why);

    dlr_sup_on_done(copies, node, msg);
    json_decref(msg);
}

static unsigned lacking(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < copies->reprotect.n; i++)
        n += !copies->reprotect.list[i].ended;
    return n;
}

/* Every rank and every holder is ready and at step 9: is a save ordered? */
static bool saves(void)
{
    ordered = false;
    for (unsigned r = 0; r < PLACES; r++)
        for (unsigned k = 0; k <= 1; k++)
            dlr_commit_ready(commit, 1, r, k, now_ms);
    dlr_commit_progress(commit, 1, 9, now_ms);
    return ordered;
}

static void all_are_ready(void)
{
    for (unsigned i = 0; i < nreserved; i++)
        dlr_reprotect_ready(copies, reserved[i] / 100, reserved[i] % 100);
}

static void all_is_copied(void)
{
    struct dlr_transfer list[16];
    unsigned n = copies->reprotect.n;

    assert_true(n <= 16);
    memcpy(list, copies->reprotect.list, n * sizeof(*list));
    for (unsigned i = 0; i < n; i++)
        dlr_reprotect_copied(copies, list[i].to, list[i].rank, planning.plan.version);
}

/* --- tests ------------------------------------------------------------------------ */

static void what_a_lost_node_kept_is_made_again_before_anything_is_saved(void **state)
{
    lose_node_1();
    assert_string_equal(told, "unprotected ");
    assert_true(copies->reprotect.n > 0 &&
                copies->reprotect.n < PLACES); /* not what others have still */
    assert_int_equal(nsent, 0);
    all_are_ready();
    assert_int_equal(nsent, copies->reprotect.n);
    assert_false(saves());
    all_is_copied();
    assert_string_equal(told, "unprotected protected ");
    assert_int_equal(copies->degraded_since_ms, 0);
    assert_int_equal(kept, 2); /* the next supervisor knows of both */
    assert_true(saves());
}

static void a_shard_is_one_slot_for_all_that_it_is_made_of(void **state)
{
    lose_node_1();
    for (unsigned i = 0; i < nreserved; i++) {
        assert_int_equal(reserved[i] / 100, 4); /* only the new node lacks any */
        assert_true(reserved[i] % 100 >= PLACES);
    }
    assert_int_equal(copies->reprotect.n, 2 * nreserved);
    all_are_ready();
    assert_int_equal(nsent, copies->reprotect.n);
}

/* The program's ranks have been gathered meanwhile: the round has another token. */
static void what_is_not_there_at_a_turn_is_sent_once_more(void **state)
{
    uint64_t old;

    lose_node_1();
    all_are_ready();
    old = sent[0];
    if (copies->reprotect.n > 1) /* a part of a shard, which does not stay */
        dlr_reprotect_copied(copies, copies->reprotect.list[0].to,
                             copies->reprotect.list[0].rank, planning.plan.version);
    nreserved = nsent = 0;
    assert_int_equal(dlr_commit_round(commit, 1, PLACES, &planning.plan.version), 0);
    dlr_reprotect_turn(copies);
    assert_false(saves());
    all_are_ready();
    assert_int_equal(nsent, copies->reprotect.n);
    done(copies->reprotect.list[0].from, old, -EPIPE, "another token");
    all_is_copied();
    assert_string_equal(told, "unprotected protected ");
    assert_true(saves());
    nreserved = 0;
    dlr_reprotect_turn(copies); /* another one: all is there */
    assert_int_equal(nreserved, 0);
}

static void that_it_was_sent_is_not_enough(void **state)
{
    lose_node_1();
    all_are_ready();
    for (unsigned i = 0; i < copies->reprotect.n; i++)
        done(copies->reprotect.list[i].from, copies->reprotect.list[i].id, 0, "");
    done(0, 12345, 0, "");
    assert_true(lacking() == copies->reprotect.n && copies->reprotect.n > 0);
    assert_string_equal(told, "unprotected ");
}

/* What becomes of its requests is told to the next one, whose counter begins anew. */
static void a_former_supervisor_s_copies_end_none_of_ours(void **state)
{
    uint64_t former[PLACES];
    unsigned n;

    generation = 1;
    lose_node_1();
    n = copies->reprotect.n;
    assert_in_range(n, 1, PLACES);
    for (unsigned i = 0; i < n; i++)
        former[i] = copies->reprotect.list[i].id;
    generation = 2;
    copies->last_id = 0;
    dlr_reprotect_plan(copies);
    dlr_reprotect_start(copies);
    for (unsigned i = 0; i < n; i++)
        for (unsigned node = 0; node < NODES; node++)
            done(node, former[i], -5, "no");
    assert_int_equal(lacking(), copies->reprotect.n);
}

static void another_version_s_copy_does_not_count(void **state)
{
    struct dlr_version other = {0, 6};

    lose_node_1();
    all_are_ready();
    for (unsigned i = 0; i < copies->reprotect.n; i++)
        dlr_reprotect_copied(copies, copies->reprotect.list[i].to,
                             copies->reprotect.list[i].rank, other);
    assert_int_equal(lacking(), copies->reprotect.n);
}

static void a_copy_that_fails_leaves_it_to_the_next_save(void **state)
{
    lose_node_1();
    all_are_ready();
    while (copies->reprotect.out)
        for (unsigned i = 0; i < copies->reprotect.n; i++)
            done(copies->reprotect.list[i].from, copies->reprotect.list[i].id, -5,
                 "no");
    assert_null(strstr(told, " protected"));
    assert_true(copies->degraded_since_ms > 0);
    assert_true(saves());
    assert_false(copies->last_round_whole); /* and the next round asks again */
    dlr_redundancy_restored(copies);        /* as a commit does */
    assert_non_null(strstr(told, " protected"));
}

static void a_limit_ends_the_wait(void **state)
{
    lose_node_1();
    dlr_reprotect_tick(copies, now_ms + TIMEOUT_MS - 1);
    assert_false(saves());
    dlr_reprotect_tick(copies, now_ms + TIMEOUT_MS);
    assert_true(saves());
    assert_true(copies->degraded_since_ms > 0);
}

static void a_crash_of_the_program_sends_nothing(void **state)
{
    dlr_reprotect_plan(copies);
    assert_int_equal(dlr_commit_round(commit, 1, PLACES, &planning.plan.version), 0);
    dlr_sup_holders_keep(copies);
    dlr_reprotect_start(copies);
    assert_int_equal(copies->reprotect.n, 0);
    assert_true(saves());
    assert_true(copies->last_round_whole);
}

static void a_node_that_comes_back_has_nothing(void **state)
{
    dlr_redundancy_degraded(copies, 1);
    dlr_reprotect_plan(copies); /* it was booted again, and has its place again */
    assert_true(copies->reprotect.n > 0);
    for (unsigned i = 0; i < copies->reprotect.n; i++)
        assert_int_equal(copies->reprotect.list[i].to, 1);
}

static int with_large_sets(void **state)
{
    return begin(state, 1, 4);
}

static void smaller_sets_than_asked_for_are_told_with_what_they_cost(void **state)
{
    assert_string_equal(said,
                        "--dlrover-redundancy: 4 nodes make sets of 2, not of 4, so "
                        "that 1 is outside each: 3.00 bytes of memory for each byte of "
                        "state, not 2.50");
    said[0] = '\0';
    dlr_parity_sets_done(&copies->sets);
    conf.redundancy.members = 2;
    assert_int_equal(dlr_sup_redundancy_check(copies, NULL), 0);
    assert_string_equal(said, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_copies_survive_is_told_when_it_changes,
                                        with_partners, end),
        cmocka_unit_test_setup_teardown(
            what_a_lost_node_kept_is_made_again_before_anything_is_saved, with_partners,
            end),
        cmocka_unit_test_setup_teardown(a_shard_is_one_slot_for_all_that_it_is_made_of,
                                        with_parity, end),
        cmocka_unit_test_setup_teardown(what_is_not_there_at_a_turn_is_sent_once_more,
                                        with_partners, end),
        cmocka_unit_test_setup_teardown(what_is_not_there_at_a_turn_is_sent_once_more,
                                        with_parity, end),
        cmocka_unit_test_setup_teardown(that_it_was_sent_is_not_enough, with_partners,
                                        end),
        cmocka_unit_test_setup_teardown(a_former_supervisor_s_copies_end_none_of_ours,
                                        with_partners, end),
        cmocka_unit_test_setup_teardown(another_version_s_copy_does_not_count,
                                        with_partners, end),
        cmocka_unit_test_setup_teardown(a_copy_that_fails_leaves_it_to_the_next_save,
                                        with_partners, end),
        cmocka_unit_test_setup_teardown(a_limit_ends_the_wait, with_partners, end),
        cmocka_unit_test_setup_teardown(a_crash_of_the_program_sends_nothing,
                                        with_partners, end),
        cmocka_unit_test_setup_teardown(a_node_that_comes_back_has_nothing,
                                        with_partners, end),
        cmocka_unit_test_setup_teardown(
            smaller_sets_than_asked_for_are_told_with_what_they_cost, with_large_sets,
            end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
