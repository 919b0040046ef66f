/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* A rank cannot load the version: which copy is struck off, and when the version is for
 * all.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/base/version.h"
#include "common/base/cleanup.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/policy/actions.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/copies/copies.h"
#include "mpi_launcher/supervisor/copies/fetch.h"
#include "mpi_launcher/supervisor/copies/rejected_copies.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/planning_state.h"
#include "mpi_launcher/supervisor/planning/version_json.h"
#include "mpi_launcher/supervisor/rounds/rounds.h"
#include "tests/support/rounds_alone.h"

#define RANKS 4 /* that made the version, one on each node */
#define FILE_OF_2 "/run/p2.safetensors"

static struct dlr_plan *const plan = &planning.plan;
static char rejected[64]; /* "where rank" */
static char reason[200];
static unsigned ended;

/* --- instead of the other files of the supervisor --------------------------------- */

uint32_t dlr_policy_round(const struct dlr_policy *p)
{
    return rounds->running_round;
}
enum dlr_phase dlr_policy_phase(const struct dlr_policy *p)
{
    return DLR_PHASE_RUN;
}
void dlr_policy_restore_failed(struct dlr_policy *p, uint32_t round, const char *why,
                               int64_t now_ms)
{
    dlr_format(reason, sizeof(reason), "%s", why);
    ended++;
}
void dlr_policy_restore_refused(struct dlr_policy *p, uint32_t round, const char *why,
                                int64_t now_ms)
{
}
void dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt, ...)
{
}
int64_t dlr_sup_now(void)
{
    return 0;
}
void dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
}
json_t *dlr_sup_version(const struct dlr_version *v)
{
    return NULL;
}
void dlr_sup_send_all(struct dlr_sup_nodes *to, json_t *msg)
{
    json_decref(msg);
}
bool dlr_restore_changes_world_size(const struct dlr_sup_copies *sup)
{
    return sup->plan->made_by != sup->plan->world;
}
int dlr_sup_place_of(const struct dlr_sup_planning *its, unsigned rank)
{
    return (int)rank;
}
int dlr_sup_node_of(const struct dlr_sup_planning *its, unsigned place)
{
    return (int)place;
}
void dlr_reject_copy(struct dlr_sup_copies *sup, const char *where, int rank,
                     struct dlr_version v)
{
    assert_string_equal(rejected, "");
    assert_int_equal(v.step, 40);
    dlr_format(rejected, sizeof(rejected), "%s %d", where, rank);
}

/* --- the rig ---------------------------------------------------------------------- */

/* world: of the round; the version is RANKS'. Rank 2's copy is a file. */
static void begin_with(unsigned world)
{
    static char n0[] = "n0", n1[] = "n1", n2[] = "n2", n3[] = "n3";
    char *const names[RANKS] = {n0, n1, n2, n3};

    rounds_begin(names, RANKS);
    plan->sources = calloc(RANKS, sizeof(*plan->sources));
    for (unsigned i = 0; i < RANKS; i++) {
        plan->sources[i].from = i == 2 ? DLR_PLAN_FILE : DLR_PLAN_NODE;
        plan->sources[i].where = i == 2 ? FILE_OF_2 : nodes->members.list[i].node.name;
    }
    plan->restore = true;
    plan->world = world;
    plan->made_by = RANKS;
    plan->version = (struct dlr_version){1, 40};
    rounds->restored = calloc(RANKS, 1);
}

static int end(void **state)
{
    free(plan->sources);
    rounds_end();
    return 0;
}

/* In a new round rank on its node fails; corrupt: whose copy was, -1 none that is
 * known.
 */
static const char *load_fails(unsigned rank, int corrupt)
{
    DLR_AUTO_JSON json_t *msg =
        json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:s}", "round",
                  (int)++rounds->running_round, "rank", (int)rank, "vround", 1, "step",
                  40, "rc", -EBADMSG, "corrupt", corrupt + 1, "why", "as it was said");

    memset(rounds->restored, 0, RANKS);
    rejected[0] = '\0';
    ended = 0;
    dlr_sup_on_restored(rounds, rank, msg);
    assert_int_equal(ended, 1);
    return rejected;
}

/* --- tests ------------------------------------------------------------------------ */

static void another_worlds_bad_copy_is_struck_off_and_no_other(void **state)
{
    begin_with(2);
    assert_string_equal(load_fails(0, 0), "n0 0"); /* in its own node's memory */
    assert_string_equal(load_fails(1, 2), FILE_OF_2 " 2");
    assert_string_equal(load_fails(0, 3), ""); /* was whole when it came: once more */
    assert_string_equal(load_fails(0, 3), "n3 3");
    assert_string_equal(load_fails(0, 1), "");
}

static void what_nobody_knows_to_be_bad_has_a_second_chance(void **state)
{
    begin_with(2);
    assert_string_equal(load_fails(0, -1), "");
    assert_string_equal(load_fails(1, -1), "* -1");
    end(NULL);
    begin_with(RANKS);
    copies->fetch_failed = true;
    assert_string_equal(load_fails(0, -1), "");
    assert_string_equal(load_fails(0, -1), "* -1");
}

static void a_ranks_own_copy_is_struck_off_where_it_is(void **state)
{
    begin_with(RANKS);
    assert_string_equal(load_fails(3, -1), "n3 3");
    assert_string_equal(load_fails(3, 3), "n3 3");
    assert_string_equal(load_fails(3, 1), ""); /* brought to it */
    assert_string_equal(load_fails(3, 1), "* 1");
}

/* A program of which rank 0 alone restores and sends the others what it has waits for
 * them for ever.
 */
static void who_does_not_restore_in_time_is_named(void **state)
{
    begin_with(RANKS);
    rounds->restore_deadline_ms = 5;
    rounds->restored[0] = 1;
    rounds->nrestored = 1;
    ended = 0;
    dlr_sup_restore_tick(rounds, 4);
    assert_int_equal(ended, 0);
    dlr_sup_restore_tick(rounds, 5);
    dlr_sup_restore_tick(rounds, 6);
    assert_int_equal(ended, 1);
    assert_string_equal(reason,
                        "rank 1 has not loaded its state in time, 1 of 4 ranks have "
                        "(--dlrover-set=restore-timeout): each rank restores, or none");
    rounds->restore_deadline_ms = 7;
    rounds->restored[0] = rounds->nrestored = 0;
    dlr_sup_restore_tick(rounds, 7);
    assert_string_equal(
        reason, "no rank has loaded its state in time (--dlrover-set=restore-timeout)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(another_worlds_bad_copy_is_struck_off_and_no_other,
                                  end),
        cmocka_unit_test_teardown(what_nobody_knows_to_be_bad_has_a_second_chance, end),
        cmocka_unit_test_teardown(a_ranks_own_copy_is_struck_off_where_it_is, end),
        cmocka_unit_test_teardown(who_does_not_restore_in_time_is_named, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
