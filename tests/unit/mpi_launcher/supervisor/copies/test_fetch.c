/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* A rank reads another rank's copy, and it does not arrive: is the copy struck off? */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/supervisor/copies/fetch.h"
#include "mpi_launcher/supervisor/copies/orders.h"
#include "mpi_launcher/supervisor/copies/rebuild.h"
#include "mpi_launcher/supervisor/copies/rejected_copies.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "tests/support/copies_alone.h"

#define HOLDER 1 /* of rank 1's copy */
#define READER 0

static uint32_t running;
static unsigned nrejected;
static int told_rc; /* of the last "fetched" */

/* --- instead of the other files of the supervisor --------------------------------- */

uint32_t dlr_policy_round(const struct dlr_policy *p)
{
    return running;
}
enum dlr_phase dlr_policy_phase(const struct dlr_policy *p)
{
    return DLR_PHASE_RUN;
}
int dlr_members_find(const struct dlr_members *m, const char *name)
{
    return -1;
}
int dlr_sup_place_of(const struct dlr_sup_planning *its, unsigned rank)
{
    return (int)rank;
}
int dlr_sup_node_of(const struct dlr_sup_planning *its, unsigned place)
{
    return (int)place;
}
void dlr_sup_ask(struct dlr_sup_copies *its, const struct dlr_transfer *t,
                 const char *type, unsigned node, const char *key, const char *value)
{
}
void dlr_sup_send(struct dlr_sup_nodes *nodes, unsigned node, json_t *msg)
{
    if (dlr_streq(dlr_msg_type(msg), "fetched"))
        told_rc = (int)json_integer_value(json_object_get(msg, "rc"));
    json_decref(msg);
}
bool dlr_sup_rebuild_room(struct dlr_sup_copies *its, unsigned node, unsigned rank,
                          int rc, const char *why)
{
    return false;
}
void dlr_reject_copy(struct dlr_sup_copies *its, const char *where, int rank,
                     struct dlr_version v)
{
    assert_string_equal(where, "n1");
    assert_int_equal(rank, 1);
    nrejected++;
}

static uint32_t the_round(void *arg)
{
    return running;
}
static bool nowhere(void *arg)
{
    return false;
}

/* --- the rig ---------------------------------------------------------------------- */

static int begin(void **state)
{
    static const struct dlr_sup_copies_ops events = {.round = the_round,
                                                     .anywhere = nowhere};

    nrejected = 0;
    copies_begin(&events, 2);
    for (unsigned i = 0; i < table.n; i++)
        table.list[i].here = true;
    planning.plan.restore = true;
    planning.plan.world = planning.plan.made_by = 2;
    planning.plan.version = (struct dlr_version){1, 40};
    planning.plan.sources = calloc(2, sizeof(*planning.plan.sources));
    return 0;
}

static int end(void **state)
{
    free(planning.plan.sources);
    copies_end();
    return 0;
}

static void done(unsigned node, uint64_t id, json_int_t rc)
{
    json_t *msg =
        json_pack("{s:I,s:I,s:s}", "id", (json_int_t)id, "rc", rc, "why", "why");

    dlr_sup_on_done(copies, node, msg);
    json_decref(msg);
}

static json_t *about(const char *type)
{
    json_t *msg = dlr_msg_new(type);

    json_object_set_new(msg, "round", json_integer(running));
    json_object_set_new(msg, "rank", json_integer(1));
    json_object_set_new(msg, "rc", json_integer(0));
    return msg;
}

/* In a new round rank 1's copy is brought, which ends as its holder says. */
static void fetch(json_int_t said)
{
    json_t *wanted, *room;

    running++;
    wanted = about("fetch");
    room = about("room");
    dlr_sup_on_fetch(copies, READER, wanted);
    dlr_sup_on_room(copies, READER, room);
    told_rc = -1;
    done(HOLDER, copies->last_id, said);
    assert_int_not_equal(told_rc, -1);
    json_decref(wanted);
    json_decref(room);
}

/* --- tests ------------------------------------------------------------------------ */

static void a_copy_that_comes_is_good(void **state)
{
    fetch(0);
    assert_int_equal(told_rc, 0);
    assert_int_equal(nrejected, 0);
    assert_int_equal(copies->fetched, 1);
    assert_false(copies->fetch_failed);
}

static void a_bad_copy_is_struck_off(void **state)
{
    fetch(EIO);
    assert_int_equal(told_rc, EIO);
    assert_int_equal(nrejected, 1);
    assert_true(copies->fetch_failed);
}

static void a_copy_that_the_network_lost_has_a_second_chance(void **state)
{
    fetch(ETIMEDOUT);
    assert_int_equal(nrejected, 0);
    assert_true(copies->fetch_failed);
    fetch(ECONNRESET);
    assert_int_equal(nrejected, 1);
}

static void what_is_fetched_is_told_what_the_network_did(void **state)
{
    static const struct {
        json_int_t said;
        int rc;
    } rows[] = {{0, 0},           {ETIMEDOUT, -ETIMEDOUT}, {ECONNRESET, -ECONNRESET},
                {EPIPE, -EIO},    {ENOSPC, -EIO},          {EBADMSG, -EIO},
                {INT64_MAX, -EIO}};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        fetch(rows[i].said);
        assert_int_equal(told_rc, -rows[i].rc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_copy_that_comes_is_good, begin, end),
        cmocka_unit_test_setup_teardown(a_bad_copy_is_struck_off, begin, end),
        cmocka_unit_test_setup_teardown(
            a_copy_that_the_network_lost_has_a_second_chance, begin, end),
        cmocka_unit_test_setup_teardown(what_is_fetched_is_told_what_the_network_did,
                                        begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
