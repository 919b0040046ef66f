/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=mpi_launcher/agent/snapshots stand-ins */
/* --dlrover-set=vetted-every: where the older version gets a slot, and which version it
 * is.
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
#include "mpi_launcher/agent/base/sockets.h"
#include "mpi_launcher/agent/snapshots/budget.h"
#include "mpi_launcher/agent/snapshots/parts.h"
#include "mpi_launcher/supervisor/nodes/loss_rate.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/versions/versions_state.h"

#define GB UINT64_C(1000000000)

static struct dlr_agent_self self;
static struct dlr_agent_round now;
static struct dlr_agent_snapshots a = {.self = &self, .round = &now};
static struct dlr_agent_rank own = {.rank = 1, .own = true}, partners = {.rank = 2};
static struct dlr_sup_versions *versions;
static struct dlr_job_config conf;
static bool took_over;
static unsigned parity_rows;
static struct dlr_members table;
static uint64_t node_bytes, left_behind;
static bool writing;
static unsigned told;
static char why[512], said[512];

/* --- instead of other files ------------------------------------------------------- */

void dlr_budget_look(const char *root, struct dlr_budget *ret)
{
    ret->node = ret->free = node_bytes;
}
uint64_t dlr_agent_fetch_others(const struct dlr_agent_snapshots *agent, int32_t but)
{
    return left_behind;
}
struct dlr_agent_rank *dlr_agent_rank(struct dlr_agent_snapshots *agent, int32_t rank,
                                      bool make)
{
    return rank == own.rank ? &own : rank == partners.rank ? &partners : NULL;
}
unsigned dlr_agent_slots_of(const struct dlr_agent_snapshots *agent,
                            const struct dlr_agent_rank *r)
{
    return 2 + (r->spare_slot || (r->own && r->write_slot));
}
unsigned dlr_space_slots(const struct dlr_agent_snapshots *agent)
{
    return agent->round->naccept;
}
int32_t dlr_space_slot(const struct dlr_agent_snapshots *agent, unsigned i)
{
    return agent->round->accept[i];
}
void dlr_agent_send_supervisor(struct dlr_agent_base *base, json_t *msg)
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
bool dlr_sup_is_bad(const struct dlr_sup_versions *of, struct dlr_version v)
{
    return v.step == 13;
}
void dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(said, sizeof(said), fmt, ap);
    va_end(ap);
}

const struct dlr_members *dlr_sup_members(const struct dlr_sup_nodes *nodes)
{
    return &table;
}
unsigned dlr_sup_parity_rows(const struct dlr_sup_planning *planning)
{
    return parity_rows;
}

static void changed(void *arg, bool lasting)
{
}
static bool writes(void *arg)
{
    return writing;
}

/* ---------------------------------------------------------------------------------- */

/* A node with a rank of its own, which has a third slot, and a partner's. */
static int setup(void **state)
{
    static const struct dlr_sup_versions_ops ops = {.changed = changed,
                                                    .writes = writes};
    static int32_t ranks[] = {1, 2, 3};

    memset(&self, 0, sizeof(self));
    a.no_vetted_known = false;
    dlr_job_config_init(&self.job);
    now.round = 4;
    now.accept = ranks;
    now.naccept = 2;
    own.bytes = partners.bytes = 0;
    own.spare_slot = own.write_slot = true;
    node_bytes = 100 * GB;
    left_behind = 0;
    dlr_job_config_init(&conf);
    parity_rows = 0;
    dlr_sup_versions_free(versions); /* of an earlier row */
    versions = dlr_sup_versions_new(
        &(struct dlr_sup_versions_env){.conf = &conf, .took_over = &took_over}, &ops,
        NULL);
    assert_non_null(versions);
    writing = false;
    told = 0;
    why[0] = said[0] = '\0';
    return 0;
}

static int teardown(void **state)
{
    versions = dlr_sup_versions_free(versions);
    return 0;
}

static void automatic_takes_what_leaves_the_program_half(void **state)
{
    static const struct {
        const char *mem;
        uint64_t node, bytes, partners, left;
        bool fits;
    } rows[] = {
        {"100%", 12 * GB, GB, 0, 0, true}, /* 3 slots each, of 1 GB */
        {"100%", 11 * GB, GB, 0, 0, false},
        {"100%", 18 * GB, GB, 2 * GB, 0, true},
        {"100%", 17 * GB, GB, 2 * GB, 0, false},
        {"100%", 14 * GB, GB, 0, GB, true}, /* left by former ranks */
        {"100%", 13 * GB, GB, 0, GB, false},
        {"40%", 20 * GB, GB, 0, 0, true},
        {"25%", 20 * GB, GB, 0, 0, false},
        {"90%", 12 * GB, GB, 0, 0, true},
        {"100%", 0, GB, 0, 0, true}, /* nobody knows */
        {"100%", 100 * GB, UINT64_MAX / 2, 0, 0, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("row %zu\n", i);
        setup(NULL);
        dlr_format(self.job.ckpt_mem, sizeof(self.job.ckpt_mem), "%s", rows[i].mem);
        node_bytes = rows[i].node;
        partners.bytes = rows[i].partners;
        left_behind = rows[i].left;
        assert_int_equal(dlr_agent_vetted_slot(&a, 1, rows[i].bytes), rows[i].fits);
        assert_int_equal(told, !rows[i].fits);
    }
}

static void the_arithmetic_is_told_once_a_round(void **state)
{
    node_bytes = 11 * GB;
    assert_false(dlr_agent_vetted_slot(&a, 1, GB));
    assert_string_equal(why,
                        "one more slot for each of 2 ranks would make 6000.0 MB of "
                        "snapshots, and 5500.0 MB are for them then: half of the "
                        "11000.0 MB that the job has on this node, "
                        "--dlrover-set=ckpt-mem=100% at most");
    assert_false(dlr_agent_vetted_slot(&a, 2, GB));
    assert_int_equal(told, 1);
    now.round++;
    assert_false(dlr_agent_vetted_slot(&a, 2, GB));
    assert_int_equal(told, 2);
}

static void a_number_demands_it_and_0_and_parity_do_without(void **state)
{
    node_bytes = 1;
    self.job.vetted_every = 50;
    assert_true(dlr_agent_vetted_slot(&a, 1, GB));
    self.job.vetted_every = 0;
    assert_false(dlr_agent_vetted_slot(&a, 1, GB));
    self.job.vetted_every = 50;
    self.job.redundancy.members = 4;
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
        {"auto", {0, DLR_EVERY_AUTO}, 12 * GB, true, true, false}, /* 3 slots each */
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
        self.job.persist_every = rows[i].every;
        node_bytes = rows[i].node;
        dlr_agent_reserve_extra_slots(&a, &own, GB);
        assert_int_equal(own.spare_slot, rows[i].older);
        assert_int_equal(own.write_slot, rows[i].written);
        assert_int_equal(dlr_agent_is_tight(&a, &own), rows[i].tight);
        partners.spare_slot = false;
    }
}

static void automatic_does_without_it_when_memory_is_refused(void **state)
{
    assert_false(dlr_agent_release_extra_slots(&a, &own, -EIO, "something else"));
    assert_true(dlr_agent_release_extra_slots(&a, &own, -ENOSPC, "it is full"));
    assert_false(own.spare_slot || own.write_slot);
    assert_string_equal(why, "it is full");
    assert_int_equal(told, 1);
    assert_false(dlr_agent_release_extra_slots(&a, &own, -ENOSPC, "it is full"));
    own.write_slot = true; /* nobody misses an older version */
    assert_true(dlr_agent_release_extra_slots(&a, &own, -ENOSPC, "it is full"));
    assert_int_equal(told, 1);
}

static void what_was_demanded_is_not_done_without(void **state)
{
    self.job.persist_every = (struct dlr_every_conf){10, 0};
    assert_false(dlr_agent_release_extra_slots(&a, &own, -ENOSPC, "it is full"));
    assert_true(own.spare_slot && own.write_slot);
    own.write_slot = false;
    self.job.vetted_every = 50;
    assert_false(dlr_agent_release_extra_slots(&a, &own, -ENOSPC, "it is full"));
}

static uint64_t kept_after(uint32_t round, uint64_t step)
{
    dlr_sup_vetted_commit(versions, (struct dlr_version){round, step});
    return versions->has_vetted ? versions->vetted.step : 0;
}

static void the_older_version_is_the_newest_again_every_so_many_steps(void **state)
{
    assert_int_equal(kept_after(0, 10), 10); /* auto: 100 steps */
    assert_int_equal(kept_after(0, 109), 10);
    assert_int_equal(kept_after(0, 110), 110);
    conf.vetted_every = 5;
    assert_int_equal(kept_after(0, 114), 110);
    assert_int_equal(kept_after(0, 115), 115);
    assert_int_equal(kept_after(1, 12), 12); /* a round that began further back */
    assert_int_equal(kept_after(1, 13), 12);
    versions->vetted.step = 13; /* is bad */
    assert_int_equal(kept_after(1, 14), 14);
    conf.vetted_every = 0;
    assert_int_equal(kept_after(1, 99), 14);
}

/* They share a slot: a third one for a version between them would leave none for the
 * next save.
 */
static void what_is_being_written_is_the_older_version(void **state)
{
    assert_int_equal(kept_after(0, 10), 10);
    dlr_sup_vetted_write(versions, (struct dlr_version){0, 30});
    writing = true;
    assert_int_equal(kept_after(0, 31), 30);
    assert_int_equal(kept_after(0, 500), 30); /* a slow disk: it waits */
    writing = false;
    assert_int_equal(kept_after(0, 501), 501);
    conf.vetted_every = 0;
    dlr_sup_vetted_write(versions, (struct dlr_version){0, 600});
    assert_int_equal(versions->vetted.step, 501);
}

static void parity_has_none_and_refuses_a_number(void **state)
{
    struct dlr_err err;

    assert_int_equal(dlr_sup_vetted_check(versions, &err), 0);
    assert_string_equal(said, "");
    parity_rows = 1;
    assert_int_equal(dlr_sup_vetted_check(versions, &err), 0);
    assert_non_null(strstr(said, "no older version is kept in memory"));
    assert_int_equal(kept_after(0, 10), 0);
    conf.vetted_every = 100;
    assert_int_equal(dlr_sup_vetted_check(versions, &err), -EINVAL);
    assert_non_null(strstr(err.text, "--dlrover-set=vetted-every=100: parity"));
    conf.vetted_every = 0;
    said[0] = '\0';
    assert_int_equal(dlr_sup_vetted_check(versions, &err), 0);
    assert_string_equal(said, "");
}

static void the_user_is_told_of_the_first_node_without_room(void **state)
{
    static struct dlr_member nodes[2];
    DLR_AUTO_JSON json_t *msg = json_pack("{s:i,s:s}", "round", 4, "why", "it is full");

    table.list = nodes;
    table.n = 2;
    dlr_format(nodes[1].node.name, sizeof(nodes[1].node.name), "n2");
    dlr_sup_on_no_vetted_slot(versions, 1, msg);
    assert_string_equal(said,
                        "no older version is kept in memory "
                        "(--dlrover-set=vetted-every=auto): n2: it is full; "
                        "--dlrover-set=vetted-every=100 demands it, 0 ends this line");
    said[0] = '\0';
    dlr_sup_on_no_vetted_slot(versions, 0, msg);
    assert_string_equal(said, "");
    assert_int_equal(told, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(automatic_takes_what_leaves_the_program_half),
        T(the_arithmetic_is_told_once_a_round),
        T(a_number_demands_it_and_0_and_parity_do_without),
        T(a_version_under_way_to_the_disk_has_a_slot_where_there_is_room),
        T(automatic_does_without_it_when_memory_is_refused),
        T(what_was_demanded_is_not_done_without),
        T(the_older_version_is_the_newest_again_every_so_many_steps),
        T(what_is_being_written_is_the_older_version),
        T(parity_has_none_and_refuses_a_number),
        T(the_user_is_told_of_the_first_node_without_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
