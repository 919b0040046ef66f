/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* A copy does not arrive: is it struck off, or asked for again? Three nodes; the rank's
 * new home is the last of them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/copies/preparation.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "tests/support/copies_alone.h"

#define NODES 3
#define HOME 2
#define VERSIONS 3

static uint32_t round_now;
static unsigned told; /* copy_failed */
static int persist_rc;

/* --- instead of the other files of the supervisor --------------------------------- */

uint32_t dlr_policy_round(const struct dlr_policy *p)
{
    return round_now;
}
void dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt, ...)
{
    told += dlr_streq(event, "copy_failed");
}
static bool no_writes(void *arg)
{
    return false;
}

/* --- the rig ---------------------------------------------------------------------- */

static int begin(void **state)
{
    static const struct dlr_sup_copies_ops events = {.writes = no_writes};

    round_now = told = 0;
    copies_begin(&events, NODES);
    planning.plan.world = 4;
    return 0;
}

static int end(void **state)
{
    copies_end();
    return 0;
}

/* A new plan, and what it wants from node. */
static struct dlr_transfer *plan(unsigned node, unsigned rank, uint64_t step)
{
    round_now++;
    dlr_sup_transfers_clear(copies);
    copies->transfers.version = (struct dlr_version){1, step};
    return dlr_sup_add_transfer(copies, rank, (int)node, HOME, true);
}

static void done(unsigned node, uint64_t id, json_int_t rc)
{
    json_t *msg = dlr_msg_new("done");

    json_object_set_new(msg, "id", json_integer((json_int_t)id));
    json_object_set_new(msg, "rc", json_integer(rc));
    json_object_set_new(msg, "why", json_string("as it was said"));
    dlr_sup_on_done(copies, node, msg);
    json_decref(msg);
}

static bool is_struck(unsigned node, unsigned rank, uint64_t step)
{
    for (unsigned i = 0; i < copies->nrejected; i++)
        if (copies->rejected[i].where[1] == (char)('0' + node) &&
            copies->rejected[i].rank == (int32_t)rank &&
            copies->rejected[i].version.step == step)
            return true;
    return false;
}

/* --- tests ------------------------------------------------------------------------ */

static void only_the_network_is_forgiven(void **state)
{
    static const struct {
        const char *name;
        json_int_t rc;
        unsigned first; /* struck off by the first failure */
    } rows[] = {
        {"too late", ETIMEDOUT, 0},
        {"cut off", ECONNRESET, 0},
        {"refused", ECONNREFUSED, 0},
        {"no way", EHOSTUNREACH, 0},
        {"no network", ENETUNREACH, 0},
        {"a bad sum", EBADMSG, 1},
        {"not there", ENOENT, 1},
        {"a node says it is lost", EPIPE, 1},
        {"a node says it is full", ENOSPC, 1},
        {"anything", EIO, 1},
        {"no errno", INT64_MAX, 1},
        {"a negative one", -ETIMEDOUT, 1},
        {"the least", INT64_MIN, 1},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_transfer *t;

        print_message("%s\n", rows[i].name);
        t = plan(0, 1, 100 + i);
        done(0, t->id, rows[i].rc);
        assert_true(copies->transfers.rc < 0); /* the plan is made again in any case */
        assert_int_equal(is_struck(0, 1, 100 + i), rows[i].first);
        assert_int_equal(told, i + 1);
    }
}

static void the_second_time_the_copy_is_struck_off(void **state)
{
    struct dlr_transfer *t = plan(0, 1, 7);

    done(0, t->id, ECONNRESET);
    done(0, t->id, ECONNRESET); /* the same failure, said twice */
    assert_int_equal(copies->nrejected, 0);
    t = plan(0, 1, 7);
    done(HOME, t->id, ETIMEDOUT); /* another errno, said by the other end */
    assert_int_equal(copies->nrejected, 1);
    assert_true(is_struck(0, 1, 7));
}

static void another_copy_has_a_chance_of_its_own(void **state)
{
    static const unsigned other[][3] = {
        {0, 1, 7}, {1, 1, 7}, {0, 2, 7}, {0, 1, 8}}; /* node, rank, step */

    for (unsigned i = 0; i < sizeof(other) / sizeof(*other); i++) {
        const struct dlr_transfer *t = plan(other[i][0], other[i][1], other[i][2]);

        done(other[i][0], t->id, ECONNREFUSED);
    }
    assert_int_equal(copies->nrejected, 0);
    done(0, plan(0, 2, 7)->id, ECONNREFUSED);
    assert_int_equal(copies->nrejected, 1);
    assert_true(is_struck(0, 2, 7));
}

/* A shard goes to every node that makes something of it. */
static void a_plan_that_sends_it_twice_is_one_chance(void **state)
{
    uint64_t first = plan(0, 5, 7)->id;
    uint64_t second = dlr_sup_add_transfer(copies, 5, 0, 1, true)->id;

    done(0, first, ETIMEDOUT);
    done(0, second, ETIMEDOUT);
    assert_int_equal(copies->nrejected, 0);
    done(0, plan(0, 5, 7)->id, ETIMEDOUT);
    assert_int_equal(copies->nrejected, 1);
}

static void a_rebuild_that_was_late_keeps_its_shards(void **state)
{
    for (unsigned k = 0; k < 2; k++) {
        uint64_t id = plan(HOME, 1, 7)->id;

        copies->transfers.list[0].rebuild = true;
        dlr_sup_add_transfer(copies, 5, 0, HOME, true)->of = id;
        copies->transfers.list[1].shard = true;
        done(HOME, id, ETIMEDOUT);
        assert_true(copies->transfers.list[1].ended);
        assert_int_equal(is_struck(0, 5, 7), k);
    }
}

static void a_lost_node_strikes_nothing_however_often(void **state)
{
    for (unsigned k = 0; k < 3; k++) {
        plan(0, 1, 7);
        dlr_sup_transfers_lost(copies, 0);
        assert_true(copies->transfers.rc < 0);
    }
    assert_int_equal(copies->nrejected + copies->nretried, 0);
}

/* The newest version first, then the older ones: no plan is made for ever. */
static void a_dead_network_ends_after_two_plans_for_each_copy(void **state)
{
    unsigned plans = 0;

    for (bool any = true; any; plans += any) {
        any = false;
        for (unsigned step = VERSIONS; step > 0 && !any; step--)
            for (unsigned node = 0; node < HOME && !any; node++)
                if (!is_struck(node, 1, step)) {
                    done(node, plan(node, 1, step)->id, EHOSTUNREACH);
                    any = true;
                }
        assert_true(plans <= 2 * VERSIONS * HOME);
    }
    assert_int_equal(plans, 2 * VERSIONS * HOME);
}

static void write_done(void *arg, unsigned node, uint64_t id, int rc, const char *why)
{
    assert_string_equal(why, "as it was said");
    *(int *)arg = rc;
}

static void a_write_is_told_what_the_node_said(void **state)
{
    static const struct {
        json_int_t said;
        int rc;
    } rows[] = {{0, 0},          {EDQUOT, -EDQUOT}, {ENOSPC, -ENOSPC}, {EIO, -EIO},
                {-ENOSPC, -EIO}, {INT64_MAX, -EIO}, {INT64_MIN, -EIO}};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint64_t id = dlr_sup_request(copies, 2, write_done, &persist_rc) + 1;

        done(0, id, rows[i].said);
        assert_int_equal(persist_rc, rows[i].rc);
        dlr_sup_request_drop(copies, id);
        persist_rc = 1;
        done(0, id, rows[i].said);
        assert_int_equal(persist_rc, 1); /* nobody waits for it */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_the_network_is_forgiven, begin, end),
        cmocka_unit_test_setup_teardown(the_second_time_the_copy_is_struck_off, begin,
                                        end),
        cmocka_unit_test_setup_teardown(another_copy_has_a_chance_of_its_own, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_plan_that_sends_it_twice_is_one_chance, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_rebuild_that_was_late_keeps_its_shards, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_lost_node_strikes_nothing_however_often,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            a_dead_network_ends_after_two_plans_for_each_copy, begin, end),
        cmocka_unit_test_setup_teardown(a_write_is_told_what_the_node_said, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
