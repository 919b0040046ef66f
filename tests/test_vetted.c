/* SPDX-License-Identifier: Apache-2.0 */
/* --dlrover-vetted-every: where the older version gets a slot, and which version it is. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/cleanup.h"
#include "common/msg.h"
#include "common/str.h"
#include "mpi_launcher/agent.h"
#include "mpi_launcher/agent_budget.h"
#include "mpi_launcher/sup.h"

#define GB UINT64_C(1000000000)

static struct dlr_agent a;
static struct dlr_agent_rank own = {.rank = 1, .own = true}, partners = {.rank = 2};
static struct dlr_sup s;
static uint64_t node_bytes, left_behind;
static unsigned told;
static char why[512], said[512];

/* --- instead of other files ---------------------------------------------------------------- */

void dlr_budget_look(const char *root, struct dlr_budget *ret)
{
    ret->node = ret->free = node_bytes;
}
uint64_t dlr_agent_bring_others(const struct dlr_agent *agent, int32_t but)
{
    return left_behind;
}
struct dlr_agent_rank *dlr_agent_rank(struct dlr_agent *agent, int32_t rank, bool make)
{
    return rank == own.rank ? &own : rank == partners.rank ? &partners : NULL;
}
unsigned dlr_agent_slots_of(const struct dlr_agent *agent,
                            const struct dlr_agent_rank *r)
{
    return 2 + (r->own && r->write_slot) + r->spare_slot;
}
unsigned dlr_agent_room_slots(const struct dlr_agent *agent)
{
    return agent->round.naccept;
}
int32_t dlr_agent_room_slot(const struct dlr_agent *agent, unsigned i)
{
    return agent->round.accept[i];
}
void dlr_agent_say(struct dlr_agent *agent, json_t *msg)
{
    told++;
    dlr_format(why, sizeof(why), "%s", json_string_value(json_object_get(msg, "why")));
    json_decref(msg);
}
uint32_t dlr_policy_round(const struct dlr_policy *p)
{
    return 4;
}
void dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt, ...)
{
    told++;
}
bool dlr_sup_is_bad(const struct dlr_sup *sup, struct dlr_version v)
{
    return v.step == 13;
}
void dlr_sup_keep(struct dlr_sup *sup)
{
}
void dlr_sup_say(struct dlr_sup *sup, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(said, sizeof(said), fmt, ap);
    va_end(ap);
}

/* --------------------------------------------------------------------------------------- */

/* A node with a rank of its own, which has a third slot beside the disk, and a partner's. */
static int setup(void **state)
{
    static int32_t ranks[] = {1, 2, 3};

    memset(&a, 0, sizeof(a));
    dlr_jobconf_init(&a.job);
    a.round.round = 4;
    a.round.accept = ranks;
    a.round.naccept = 2;
    own.bytes = partners.bytes = 0;
    own.spare_slot = own.write_slot = true;
    node_bytes = 100 * GB;
    left_behind = 0;
    memset(&s, 0, sizeof(s));
    dlr_jobconf_init(&s.conf);
    told = 0;
    why[0] = said[0] = '\0';
    return 0;
}

static void automatic_takes_what_leaves_the_program_half(void **state)
{
    static const struct {
        const char *mem;
        uint64_t node, bytes, partners, left;
        bool fits;
    } rows[] = {
        {"100%", 14 * GB, GB, 0, 0, true}, /* 4 and 3 slots, both of 1 GB */
        {"100%", 13 * GB, GB, 0, 0, false},
        {"100%", 20 * GB, GB, 2 * GB, 0, true},
        {"100%", 19 * GB, GB, 2 * GB, 0, false},
        {"100%", 16 * GB, GB, 0, GB, true}, /* left by former ranks */
        {"100%", 15 * GB, GB, 0, GB, false},
        {"40%", 20 * GB, GB, 0, 0, true},
        {"30%", 20 * GB, GB, 0, 0, false},
        {"90%", 14 * GB, GB, 0, 0, true},
        {"100%", 0, GB, 0, 0, true}, /* nobody knows */
        {"100%", 100 * GB, UINT64_MAX / 2, 0, 0, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("row %zu\n", i);
        setup(NULL);
        dlr_format(a.job.ckpt_mem, sizeof(a.job.ckpt_mem), "%s", rows[i].mem);
        node_bytes = rows[i].node;
        partners.bytes = rows[i].partners;
        left_behind = rows[i].left;
        assert_int_equal(dlr_agent_vetted_slot(&a, 1, rows[i].bytes), rows[i].fits);
        assert_int_equal(told, !rows[i].fits);
    }
}

static void the_arithmetic_is_told_once_a_round(void **state)
{
    node_bytes = 13 * GB;
    assert_false(dlr_agent_vetted_slot(&a, 1, GB));
    assert_string_equal(why,
                        "one more slot for each of 2 ranks would make 7000.0 MB of "
                        "snapshots, and 6500.0 MB are for them then: half of the "
                        "13000.0 MB that the job has on this node, "
                        "--dlrover-ckpt-mem=100% at most");
    assert_false(dlr_agent_vetted_slot(&a, 2, GB));
    assert_int_equal(told, 1);
    a.round.round++;
    assert_false(dlr_agent_vetted_slot(&a, 2, GB));
    assert_int_equal(told, 2);
}

static void a_number_demands_it_and_0_and_parity_do_without(void **state)
{
    node_bytes = 1;
    a.job.vetted_every = 50;
    assert_true(dlr_agent_vetted_slot(&a, 1, GB));
    a.job.vetted_every = 0;
    assert_false(dlr_agent_vetted_slot(&a, 1, GB));
    a.job.vetted_every = 50;
    a.job.redundancy.members = 4;
    assert_false(dlr_agent_vetted_slot(&a, 1, GB));
    assert_int_equal(told, 0);
}

static void a_version_under_way_to_the_disk_has_a_slot_where_there_is_room(void **state)
{
    static const struct {
        const char *name;
        struct dlr_every_conf every;
        uint64_t node;
        bool older, written, tight;
    } rows[] = {
        {"auto", {0, DLR_EVERY_AUTO}, 14 * GB, true, true, false}, /* 4 and 3 slots */
        {"auto, less room", {0, DLR_EVERY_AUTO}, 13 * GB, true, false, true},
        {"auto, little room", {0, DLR_EVERY_AUTO}, 11 * GB, false, true, false},
        {"auto, no room", {0, DLR_EVERY_AUTO}, 9 * GB, false, false, true},
        {"steps demand it", {10, 0}, 9 * GB, false, true, false},
        {"a time, too", {0, 1000}, 14 * GB, true, true, false},
        {"off", {0, 0}, 14 * GB, true, false, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("row '%s'\n", rows[i].name);
        setup(NULL);
        partners.spare_slot = rows[i].older; /* all alike */
        a.job.persist_every = rows[i].every;
        node_bytes = rows[i].node;
        dlr_agent_more_slots(&a, &own, GB);
        assert_int_equal(own.spare_slot, rows[i].older);
        assert_int_equal(own.write_slot, rows[i].written);
        assert_int_equal(dlr_agent_is_tight(&a, &own), rows[i].tight);
        partners.spare_slot = false;
    }
}

static void automatic_gives_up_that_slot_first(void **state)
{
    own.write_slot = true;
    assert_false(dlr_agent_fewer_slots(&a, &own, -EIO, "something else"));
    assert_true(dlr_agent_fewer_slots(&a, &own, -ENOSPC, "it is full"));
    assert_false(own.write_slot);
    assert_int_equal(told, 0);
    assert_true(dlr_agent_fewer_slots(&a, &own, -ENOSPC, "it is full"));
    assert_false(own.spare_slot);
    assert_int_equal(told, 1);
    assert_false(dlr_agent_fewer_slots(&a, &own, -ENOSPC, "it is full"));
    a.job.persist_every = (struct dlr_every_conf){10, 0};
    own.write_slot = true;
    assert_false(dlr_agent_fewer_slots(&a, &own, -ENOSPC, "it is full"));
}

static void automatic_does_without_when_memory_is_refused(void **state)
{
    assert_false(dlr_agent_vetted_forgo(&a, &own, -EIO, "something else"));
    assert_true(dlr_agent_vetted_forgo(&a, &own, -ENOSPC, "it is full"));
    assert_string_equal(why, "it is full");
    assert_false(own.spare_slot);
    assert_false(dlr_agent_vetted_forgo(&a, &own, -ENOSPC, "it is full"));
    own.spare_slot = true;
    a.job.vetted_every = 50;
    assert_false(dlr_agent_vetted_forgo(&a, &own, -ENOSPC, "it is full"));
}

static uint64_t kept_after(uint32_t round, uint64_t step)
{
    dlr_sup_vetted_commit(&s, (struct dlr_version){round, step});
    return s.has_vetted ? s.vetted.step : 0;
}

static void the_older_version_is_the_newest_again_every_so_many_steps(void **state)
{
    assert_int_equal(kept_after(0, 10), 10); /* auto: 100 steps */
    assert_int_equal(kept_after(0, 109), 10);
    assert_int_equal(kept_after(0, 110), 110);
    s.conf.vetted_every = 5;
    assert_int_equal(kept_after(0, 114), 110);
    assert_int_equal(kept_after(0, 115), 115);
    assert_int_equal(kept_after(1, 12), 12); /* a round that began further back */
    assert_int_equal(kept_after(1, 13), 12);
    s.vetted.step = 13; /* is bad */
    assert_int_equal(kept_after(1, 14), 14);
    s.conf.vetted_every = 0;
    assert_int_equal(kept_after(1, 99), 14);
}

static void parity_has_none_and_refuses_a_number(void **state)
{
    struct dlr_err err;

    assert_int_equal(dlr_sup_vetted_check(&s, &err), 0);
    assert_string_equal(said, "");
    s.sets.rows = 1;
    assert_int_equal(dlr_sup_vetted_check(&s, &err), 0);
    assert_non_null(strstr(said, "no older version is kept in memory"));
    assert_int_equal(kept_after(0, 10), 0);
    s.conf.vetted_every = 100;
    assert_int_equal(dlr_sup_vetted_check(&s, &err), -EINVAL);
    assert_non_null(strstr(err.text, "--dlrover-vetted-every=100: parity"));
    s.conf.vetted_every = 0;
    said[0] = '\0';
    assert_int_equal(dlr_sup_vetted_check(&s, &err), 0);
    assert_string_equal(said, "");
}

static void the_user_is_told_of_the_first_node_without_room(void **state)
{
    static struct dlr_member nodes[2];
    DLR_AUTO_JSON json_t *msg = json_pack("{s:i,s:s}", "round", 4, "why", "it is full");

    s.members.list = nodes;
    s.members.n = 2;
    dlr_format(nodes[1].node.name, sizeof(nodes[1].node.name), "n2");
    dlr_sup_on_unvetted(&s, 1, msg);
    assert_string_equal(said,
                        "no older version is kept in memory "
                        "(--dlrover-vetted-every=auto): n2: it is full; "
                        "--dlrover-vetted-every=100 demands it, 0 ends this line");
    said[0] = '\0';
    dlr_sup_on_unvetted(&s, 0, msg);
    assert_string_equal(said, "");
    assert_int_equal(told, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, setup)
    const struct CMUnitTest tests[] = {
        T(automatic_takes_what_leaves_the_program_half),
        T(the_arithmetic_is_told_once_a_round),
        T(a_number_demands_it_and_0_and_parity_do_without),
        T(a_version_under_way_to_the_disk_has_a_slot_where_there_is_room),
        T(automatic_gives_up_that_slot_first),
        T(automatic_does_without_when_memory_is_refused),
        T(the_older_version_is_the_newest_again_every_so_many_steps),
        T(parity_has_none_and_refuses_a_number),
        T(the_user_is_told_of_the_first_node_without_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
