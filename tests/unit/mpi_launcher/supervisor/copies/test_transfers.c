/* SPDX-License-Identifier: Apache-2.0 */
/* build: wrap=getrandom stand-ins */
/* A copy does not arrive: is it struck off, or asked for again? Three nodes; the rank's new home is
 * the last of them.
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
#include "mpi_launcher/supervisor/supervisor.h"
#include "tests/support/copies_rig.h"

#define NODES 3
#define HOME 2
#define VERSIONS 3

static struct dlr_sup s;
static struct dlr_plan round_plan;
static struct dlr_members table;
static uint32_t round_now;
static unsigned told;   /* copy_failed */
static unsigned rounds; /* told to all */
static int persist_rc;
static bool no_random;

ssize_t __real_getrandom(void *buf, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *buf, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *buf, size_t bytes, unsigned flags)
{
    if (!no_random)
        return __real_getrandom(buf, bytes, flags);
    errno = ENOSYS; /* a seccomp filter of somebody's container */
    return -1;
}

/* --- instead of the other files of the supervisor ---------------------------------------- */
void dlr_sup_ranks_round(struct dlr_sup_rounds *who)
{
}

uint32_t dlr_policy_round(const struct dlr_policy *p)
{
    return round_now;
}
enum dlr_phase dlr_policy_phase(const struct dlr_policy *p)
{
    return DLR_PHASE_PREPARE;
}
void dlr_policy_prepared(struct dlr_policy *p, int rc, const char *why, int64_t now_ms)
{
}
void dlr_policy_persisted(struct dlr_policy *p, int64_t now_ms)
{
}
void dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt, ...)
{
    told += dlr_streq(event, "copy_failed");
}
int dlr_members_find(const struct dlr_members *m, const char *name)
{
    return -1;
}
void dlr_commit_ready(struct dlr_commit *c, uint32_t round, unsigned rank,
                      unsigned holder, int64_t now_ms)
{
}
void dlr_commit_unready(struct dlr_commit *c, uint32_t round, unsigned rank,
                        unsigned holder)
{
}
int64_t dlr_sup_now(void)
{
    return 0;
}
void dlr_sup_send(struct dlr_sup_nodes *nodes, unsigned node, json_t *msg)
{
    json_decref(msg);
}
void dlr_sup_versions_round(struct dlr_sup_versions *versions, uint32_t round)
{
}
void dlr_sup_tell_round(struct dlr_sup_rounds *who, uint32_t round)
{
    rounds++;
}
void dlr_sup_keep_plan(struct dlr_sup_planning *planning)
{
}
void dlr_sup_tell_plan(const struct dlr_sup_planning *planning)
{
}
bool dlr_sup_other_world(const struct dlr_sup *sup)
{
    return false;
}
void dlr_sup_bring_lost(struct dlr_sup *sup, unsigned node)
{
}
void dlr_sup_again_plan(struct dlr_sup *sup)
{
}
void dlr_sup_again_start(struct dlr_sup *sup)
{
}
void dlr_sup_again_ready(struct dlr_sup *sup, unsigned node, unsigned slot)
{
}
void dlr_sup_again_lost(struct dlr_sup *sup, unsigned node)
{
}
unsigned dlr_sup_copies(const struct dlr_sup *sup)
{
    return 1;
}
int dlr_sup_holder_node(const struct dlr_sup *sup, unsigned place, unsigned holder)
{
    return -1;
}
int dlr_sup_holder_of(const struct dlr_sup *sup, unsigned place, unsigned node)
{
    return -1;
}
void dlr_sup_holders_ask(struct dlr_sup *sup, unsigned rank)
{
}
void dlr_sup_shard_ready(struct dlr_sup *sup, unsigned node, unsigned slot)
{
}
void dlr_sup_rebuild(struct dlr_sup *sup, unsigned rank)
{
}
void dlr_sup_rebuild_lost(struct dlr_sup *sup)
{
}
void dlr_sup_rebuild_known(struct dlr_sup *sup)
{
}
int dlr_sup_written(struct dlr_sup_disk *disk, struct dlr_transfer *t, int rc,
                    const char *said)
{
    return rc;
}
bool dlr_sup_is_persisting(const struct dlr_sup_disk *disk)
{
    return false;
}
void dlr_sup_write_made(struct dlr_sup_disk *disk)
{
}
void dlr_sup_write_rebuilt(struct dlr_sup_disk *disk, const struct dlr_transfer *made)
{
}
void dlr_sup_write_manifest(struct dlr_sup_disk *disk)
{
}

/* --- the rig ------------------------------------------------------------------------------ */

static int begin(void **state)
{
    memset(&s, 0, sizeof(s));
    round_plan = (struct dlr_plan){0};
    s.plan = &round_plan;
    round_now = told = 0;
    copies_rig(&s);
    s.members = &table;
    table.list = calloc(NODES, sizeof(*table.list));
    table.n = NODES;
    for (unsigned i = 0; i < NODES; i++)
        dlr_format(table.list[i].node.name, DLR_TOPO_NAME, "n%u", i);
    round_plan.world = 4;
    return 0;
}

static int end(void **state)
{
    free(table.list);
    free(s.transfers);
    free(s.struck);
    free(s.spared);
    dlr_sup_copies_free(s.copies);
    return 0;
}

/* A new plan, and what it wants from node. */
static struct dlr_transfer *plan(unsigned node, unsigned rank, uint64_t step)
{
    round_now++;
    dlr_sup_transfers_clear(&s);
    s.transfer_version = (struct dlr_version){1, step};
    return dlr_sup_add_transfer(&s, rank, (int)node, HOME, true);
}

static void done(unsigned node, uint64_t id, json_int_t rc)
{
    json_t *msg = dlr_msg_new("done");

    json_object_set_new(msg, "id", json_integer((json_int_t)id));
    json_object_set_new(msg, "rc", json_integer(rc));
    json_object_set_new(msg, "why", json_string("as it was said"));
    dlr_sup_on_done(s.copies, node, msg);
    json_decref(msg);
}

static bool is_struck(unsigned node, unsigned rank, uint64_t step)
{
    for (unsigned i = 0; i < s.nstruck; i++)
        if (s.struck[i].where[1] == (char)('0' + node) &&
            s.struck[i].rank == (int32_t)rank && s.struck[i].version.step == step)
            return true;
    return false;
}

/* --- tests -------------------------------------------------------------------------------- */

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
        assert_true(s.transfer_rc < 0); /* the plan is made again in any case */
        assert_int_equal(is_struck(0, 1, 100 + i), rows[i].first);
        assert_int_equal(told, i + 1);
    }
}

static void the_second_time_the_copy_is_struck_off(void **state)
{
    struct dlr_transfer *t = plan(0, 1, 7);

    done(0, t->id, ECONNRESET);
    done(0, t->id, ECONNRESET); /* the same failure, said twice */
    assert_int_equal(s.nstruck, 0);
    t = plan(0, 1, 7);
    done(HOME, t->id, ETIMEDOUT); /* another errno, said by the other end */
    assert_int_equal(s.nstruck, 1);
    assert_true(is_struck(0, 1, 7));
}

static void another_copy_has_a_chance_of_its_own(void **state)
{
    static const unsigned copies[][3] = {
        {0, 1, 7}, {1, 1, 7}, {0, 2, 7}, {0, 1, 8}}; /* node, rank, step */

    for (unsigned i = 0; i < sizeof(copies) / sizeof(*copies); i++) {
        const struct dlr_transfer *t = plan(copies[i][0], copies[i][1], copies[i][2]);

        done(copies[i][0], t->id, ECONNREFUSED);
    }
    assert_int_equal(s.nstruck, 0);
    done(0, plan(0, 2, 7)->id, ECONNREFUSED);
    assert_int_equal(s.nstruck, 1);
    assert_true(is_struck(0, 2, 7));
}

/* A shard goes to every node that makes something of it. */
static void a_plan_that_sends_it_twice_is_one_chance(void **state)
{
    uint64_t first = plan(0, 5, 7)->id;
    uint64_t second = dlr_sup_add_transfer(&s, 5, 0, 1, true)->id;

    done(0, first, ETIMEDOUT);
    done(0, second, ETIMEDOUT);
    assert_int_equal(s.nstruck, 0);
    done(0, plan(0, 5, 7)->id, ETIMEDOUT);
    assert_int_equal(s.nstruck, 1);
}

static void a_rebuild_that_was_late_keeps_its_shards(void **state)
{
    for (unsigned k = 0; k < 2; k++) {
        uint64_t id = plan(HOME, 1, 7)->id;

        s.transfers[0].rebuild = true;
        dlr_sup_add_transfer(&s, 5, 0, HOME, true)->of = id;
        s.transfers[1].shard = true;
        done(HOME, id, ETIMEDOUT);
        assert_true(s.transfers[1].ended);
        assert_int_equal(is_struck(0, 5, 7), k);
    }
}

static void a_lost_node_strikes_nothing_however_often(void **state)
{
    for (unsigned k = 0; k < 3; k++) {
        plan(0, 1, 7);
        dlr_sup_transfers_lost(&s, 0);
        assert_true(s.transfer_rc < 0);
    }
    assert_int_equal(s.nstruck + s.nspared, 0);
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
        uint64_t id = dlr_sup_request(s.copies, 2, write_done, &persist_rc) + 1;

        done(0, id, rows[i].said);
        assert_int_equal(persist_rc, rows[i].rc);
        dlr_sup_request_drop(s.copies, id);
        persist_rc = 1;
        done(0, id, rows[i].said);
        assert_int_equal(persist_rc, 1); /* nobody waits for it */
    }
}

static void without_a_random_number_there_is_no_round(void **state)
{
    rounds = 0;
    no_random = true;
    dlr_sup_prepare(&s, 1);
    no_random = false;
    assert_int_equal(rounds, 0);
    assert_int_equal(s.transfer_rc, -EIO);
    assert_string_equal(s.transfer_why, "no random number for the round's token: "
                                        "getrandom: Function not implemented");
    assert_true(s.preparing); /* its end is told with what failed */
    dlr_sup_prepare(&s, 2);
    assert_int_equal(s.transfer_rc, 0);
    assert_int_equal(rounds, 1);
    assert_int_equal(strspn(s.token, "0123456789abcdef"), 32);
    assert_int_not_equal(strspn(s.token, "0"), 32);
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
        cmocka_unit_test_setup_teardown(without_a_random_number_there_is_no_round,
                                        begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
