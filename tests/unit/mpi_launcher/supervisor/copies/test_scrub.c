/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* A copy that went bad in memory: who makes it again. Four ranks on four nodes, each
 * node holds the copy of the rank before it.
 */
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
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/scrub.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/version_json.h"
#include "tests/support/copies_alone.h"

#define NODES 4
#define ROUND 2

static uint32_t running;
static struct dlr_version newest, vetted;
static bool has_vetted;
static char asked[256], noted[256], said[256];

/* --- instead of the other files of the supervisor --------------------------------- */

enum dlr_phase dlr_policy_phase(const struct dlr_policy *p)
{
    return DLR_PHASE_RUN;
}
bool dlr_commit_newest(const struct dlr_commit *c, struct dlr_version *ret)
{
    *ret = newest;
    return true;
}
void dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt, ...)
{
    DLR_AUTO_FREE char *text = NULL;
    char object[64];
    json_t *fields;
    va_list ap;

    dlr_format(object, sizeof(object), "{%s}", fmt);
    va_start(ap, fmt);
    fields = json_vpack_ex(NULL, 0, object, ap);
    va_end(ap);
    text = json_dumps(fields, JSON_COMPACT);
    dlr_format(noted, sizeof(noted), "%s %s", event, text);
    json_decref(fields);
}
void dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(said, sizeof(said), fmt, ap);
    va_end(ap);
}
json_t *dlr_sup_version(const struct dlr_version *v)
{
    return json_pack("[I,I]", (json_int_t)v->round, (json_int_t)v->step);
}
void dlr_sup_send(struct dlr_sup_nodes *nodes, unsigned node, json_t *msg)
{
    size_t n = strlen(asked);
    const char *data = json_string_value(json_object_get(msg, "data"));
    const char *terms = json_string_value(json_object_get(msg, "terms"));

    assert_int_equal(json_integer_value(json_object_get(msg, "round")), running);
    dlr_format(asked + n, sizeof(asked) - n, "%s%s n%u r%lld %lld/%lld %s %s",
               n ? ", " : "", dlr_msg_type(msg), node,
               json_integer_value(json_object_get(msg, "rank")),
               json_integer_value(json_object_get(msg, "vround")),
               json_integer_value(json_object_get(msg, "step")), terms ? "of" : "to",
               terms ? terms : data);
    json_decref(msg);
}
int dlr_sup_place_of(const struct dlr_sup_planning *its, unsigned rank)
{
    return (int)rank;
}
int dlr_sup_node_of(const struct dlr_sup_planning *its, unsigned place)
{
    return (int)place;
}
unsigned dlr_parity_sets_group(const struct dlr_parity_sets *sets, unsigned rank,
                               unsigned ret_ranks[DLR_PARITY_DATA_MAX])
{
    ret_ranks[0] = rank % 2;
    ret_ranks[1] = rank % 2 + 2;
    return 2;
}
unsigned dlr_sup_shard_of(const struct dlr_sup_copies *its, unsigned rank, unsigned row)
{
    return (1 + row) * NODES + rank % 2;
}
/* Ranks 0 and 2 are a set, 1 and 3 the other one; each has its shards where the other
 * one runs.
 */
int dlr_sup_holder_node(const struct dlr_sup_copies *its, unsigned place,
                        unsigned holder)
{
    return (int)((place % 2 + 2 * holder - 1) % NODES);
}
int dlr_parity_sets_rebuild_terms(const struct dlr_parity_sets *sets, unsigned lost,
                                  const unsigned *have, char *buf, size_t size)
{
    return dlr_format(buf, size, "%u*1 %u*1", have[0], have[1]);
}
int dlr_sup_holder_of(const struct dlr_sup_copies *its, unsigned place, unsigned node)
{
    return node == place ? 0 : node == (place + 1) % NODES ? 1 : -1;
}

static uint32_t the_round(void *arg)
{
    return running;
}
static bool is_older(void *arg, struct dlr_version v)
{
    return has_vetted && dlr_version_eq(v, vetted);
}

/* ---------------------------------------------------------------------------------- */

static int setup(void **state)
{
    static const struct dlr_sup_copies_ops events = {.round = the_round,
                                                     .keeps = is_older};

    copies_begin(&events, NODES);
    for (unsigned i = 0; i < NODES; i++)
        table.list[i].data = i == 1 ? "d1" : "dx";
    planning.plan.world = NODES;
    running = ROUND;
    newest = (struct dlr_version){ROUND, 40};
    has_vetted = false;
    return 0;
}

static int end(void **state)
{
    copies_end();
    return 0;
}

static void found(unsigned node, unsigned round, unsigned rank, unsigned step)
{
    DLR_AUTO_JSON json_t *msg = json_pack(
        "{s:i,s:i,s:i,s:i,s:s}", "round", (int)round, "rank", (int)rank, "vround",
        ROUND, "step", (int)step, "why", "block 2 is corrupt in memory");

    asked[0] = noted[0] = said[0] = '\0';
    dlr_sup_on_copy_bad(copies, node, msg);
}

static void a_partners_copy_is_sent_again_by_its_owner(void **state)
{
    found(1, ROUND, 0, 40);
    assert_string_equal(asked, "send n0 r0 2/40 to d1");
    assert_string_equal(noted,
                        "copy_bad {\"version\":[2,40],\"rank\":0,\"node\":\"n1\","
                        "\"again\":true,\"why\":\"block 2 is corrupt in memory\"}");
    assert_string_equal(said, "the memory of n1 is not sound: block 2 is corrupt in "
                              "memory, in rank 0's copy of step 40; it is made again "
                              "(have the node's memory looked at)");
    found(1, ROUND, 0, 40);
    assert_string_equal(said, ""); /* once; the journal has each */
    has_vetted = true;
    vetted = (struct dlr_version){ROUND, 20};
    found(1, ROUND, 0, 20);
    assert_string_equal(asked, "send n0 r0 2/20 to d1");
}

static void a_ranks_own_is_sent_by_its_partner(void **state)
{
    found(0, ROUND, 0, 40);
    assert_string_equal(asked, "send n1 r0 2/40 to dx");
    assert_non_null(strstr(noted, "\"again\":true"));
    assert_non_null(
        strstr(said, "in rank 0's copy of step 40; it is made again (have"));
}

/* Its copy was counted: a commit may follow. */
static void an_undecided_versions_is_sent_again(void **state)
{
    found(1, ROUND, 0, 41);
    assert_string_equal(asked, "send n0 r0 2/41 to d1");
}

static void a_parity_shard_is_made_of_what_its_ranks_send(void **state)
{
    copies->sets.rows = 1;
    found(1, ROUND, NODES, 40);
    assert_string_equal(asked, "send n0 r0 2/40 to d1, send n2 r2 2/40 to d1");
    assert_non_null(strstr(noted, "\"again\":true"));
}

static void a_ranks_own_is_made_of_what_is_left_of_its_set(void **state)
{
    copies->sets.rows = 2;
    found(0, ROUND, 0, 40);
    assert_string_equal(asked, "rebuild n0 r0 2/40 of 4 2*1 4*1, "
                               "send n2 r2 2/40 to dx, send n1 r4 2/40 to dx");
    assert_non_null(strstr(noted, "\"again\":true"));
    assert_non_null(
        strstr(said, "in rank 0's copy of step 40; it is made again (have"));
    found(2, ROUND, 2, 40); /* rank 0's is not good yet */
    assert_string_equal(asked, "rebuild n2 r2 2/40 of 4 4*1 8*1, "
                               "send n1 r4 2/40 to dx, send n3 r8 2/40 to dx");
    dlr_sup_scrub_copied(copies, 0, 0, 0, newest);
    assert_string_equal(noted,
                        "copy_remade {\"version\":[2,40],\"rank\":0,\"node\":\"n0\"}");
}

static void what_was_made_again_is_noted_once(void **state)
{
    noted[0] = '\0';
    dlr_sup_scrub_copied(copies, 1, 0, 1, newest); /* as after each save */
    assert_string_equal(noted, "");
    for (unsigned rows = 0; rows < 2; rows++) {
        copies->sets.rows = rows;
        found(1, ROUND, rows ? NODES : 0, 40);
        noted[0] = '\0';
        dlr_sup_scrub_copied(copies, 1, 0, 1, newest);
        assert_string_equal(noted, rows ? "copy_remade {\"version\":[2,40],\"rank\":4,"
                                          "\"node\":\"n1\"}"
                                        : "copy_remade {\"version\":[2,40],\"rank\":0,"
                                          "\"node\":\"n1\"}");
        noted[0] = '\0';
        dlr_sup_scrub_copied(copies, 1, 0, 1, newest);
        assert_string_equal(noted, "");
    }
    copies->sets.rows = 0;
    found(0, ROUND, 0, 40); /* its partner's is good again */
    assert_non_null(strstr(noted, "\"again\":true"));
}

static void others_are_made_by_the_next_save(void **state)
{
    static const struct {
        const char *name;
        unsigned node, rank, step, rows;
    } rows[] = {{"an older one's", 1, 0, 39, 0},
                {"no holder's", 3, 0, 40, 0},
                {"with parity, no holder's", 1, 0, 40, 2},
                {"with parity, an older one's", 0, 0, 39, 2},
                {"a parity shard's that is held elsewhere", 3, NODES, 40, 2}};

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("%s\n", rows[i].name);
        copies->sets.rows = rows[i].rows;
        copies->copies_bad = 0;
        found(rows[i].node, ROUND, rows[i].rank, rows[i].step);
        assert_string_equal(asked, "");
        assert_non_null(strstr(noted, "\"again\":false"));
        assert_non_null(strstr(said, "it is made again with the next save"));
    }
}

/* Of a set of two and its one shard two are bad. */
static void with_too_little_left_of_a_set_it_is_the_next_saves(void **state)
{
    copies->sets.rows = 1;
    found(2, ROUND, 2, 40);
    found(0, ROUND, 0, 40);
    assert_string_equal(asked, "");
    assert_non_null(strstr(noted, "\"again\":false"));
    table.list[0].data = NULL; /* its data process has died */
    copies->sets.rows = 2;
    found(0, ROUND, 0, 40);
    assert_string_equal(asked, "");
}

static void what_is_left_is_told(void **state)
{
    static const struct {
        const char *name, *said;
        unsigned node, rank, rows;
    } rows[] = {
        {"a rank's own", "next save, until then n1's is the only one", 0, 0, 0},
        {"with parity", "next save, until then its set lacks a shard", 1, 0, 2},
        {"an owner's and its partner's",
         "of step 40, and so is n2's: no good copy is left in memory until the next "
         "save",
         3, 2, 0},
    };

    table.list[0].data = NULL; /* its data process has died */
    found(2, ROUND, 2, 40);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("%s\n", rows[i].name);
        copies->sets.rows = rows[i].rows;
        copies->copies_bad =
            i < 2 ? 0 : copies->copies_bad; /* that one is not told once only */
        found(rows[i].node, ROUND, rows[i].rank, 40);
        assert_string_equal(asked, "");
        print_message("%s\n", said);
        assert_non_null(strstr(said, rows[i].said));
    }
    running++; /* what it restored from was good */
    copies->sets.rows = 0;
    found(3, ROUND + 1, 2, 40);
    assert_string_equal(asked, "send n2 r2 2/40 to dx");
}

static void what_is_malformed_or_of_another_round_is_ignored(void **state)
{
    DLR_AUTO_JSON json_t *empty = json_object();

    found(1, ROUND - 1, 0, 40);
    dlr_sup_on_copy_bad(copies, 1, empty);
    assert_string_equal(noted, "");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, end)
    const struct CMUnitTest tests[] = {
        T(a_partners_copy_is_sent_again_by_its_owner),
        T(a_ranks_own_is_sent_by_its_partner),
        T(an_undecided_versions_is_sent_again),
        T(a_parity_shard_is_made_of_what_its_ranks_send),
        T(a_ranks_own_is_made_of_what_is_left_of_its_set),
        T(with_too_little_left_of_a_set_it_is_the_next_saves),
        T(what_was_made_again_is_noted_once),
        T(others_are_made_by_the_next_save),
        T(what_is_left_is_told),
        T(what_is_malformed_or_of_another_round_is_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
