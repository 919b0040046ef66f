/* SPDX-License-Identifier: Apache-2.0 */
/* build: stand-ins */
/* A version of four ranks, with parity, is restored by fewer: on which nodes what is
 * lost is made, and what becomes of it where they have no room.
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
#include "mpi_launcher/supervisor/copies/orders.h"
#include "mpi_launcher/supervisor/copies/rebuild.h"
#include "mpi_launcher/supervisor/copies/redundancy.h"
#include "mpi_launcher/supervisor/copies/rejected_copies.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/peers.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/planning/plan_in_force.h"
#include "mpi_launcher/supervisor/planning/resize.h"
#include "mpi_launcher/supervisor/planning/step_of_run.h"
#include "tests/support/copies_alone.h"

#define FULL 4
#define SLOT_BYTES 65536

static char told[1024]; /* what was asked of nodes, in order */
static char said[512];  /* to the user */
static char rejected[64];

static void note(char *buf, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void note(char *buf, size_t size, const char *fmt, ...)
{
    size_t len = strlen(buf);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(buf + len, size - len, fmt, ap);
    va_end(ap);
}

/* --- instead of the other files of the supervisor --------------------------------- */

uint32_t dlr_policy_round(const struct dlr_policy *p)
{
    return 1;
}
int dlr_members_find(const struct dlr_members *m, const char *name)
{
    return name[1] - '0';
}
void dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt, ...)
{
}
void dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(said, sizeof(said), fmt, ap);
    va_end(ap);
}
void dlr_reject_copy(struct dlr_sup_copies *its, const char *where, int rank,
                     struct dlr_version v)
{
    note(rejected, sizeof(rejected), "%d@%s ", rank, where);
}
int dlr_sup_place_of(const struct dlr_sup_planning *its, unsigned rank)
{
    return (int)rank;
}
int dlr_sup_node_of(const struct dlr_sup_planning *its, unsigned place)
{
    return (int)place;
}
struct dlr_transfer *dlr_sup_add_transfer(struct dlr_sup_copies *its, unsigned rank,
                                          int from, int to, bool essential)
{
    struct dlr_transfer *t;

    its->transfers.list =
        realloc(its->transfers.list, (its->transfers.n + 1) * sizeof(*t));
    t = its->transfers.list + its->transfers.n++;
    *t = (struct dlr_transfer){.id = dlr_sup_ids(its, 1),
                               .rank = rank,
                               .from = (unsigned)from,
                               .to = (unsigned)to};
    return t;
}
struct dlr_transfer *dlr_sup_transfer(struct dlr_sup_copies *its, uint64_t id)
{
    for (unsigned i = 0; i < its->transfers.n; i++)
        if (its->transfers.list[i].id == id)
            return &its->transfers.list[i];
    return NULL;
}
void dlr_sup_transfer_start(struct dlr_sup_copies *its, struct dlr_transfer *t)
{
    t->started = true;
}
void dlr_sup_ask(struct dlr_sup_copies *its, const struct dlr_transfer *t,
                 const char *type, unsigned node, const char *key, const char *value)
{
    note(told, sizeof(told), "%s %u on n%u of %s; ", type, t->rank, node, value);
}
void dlr_sup_ask_reserve(struct dlr_sup_copies *its, unsigned node, unsigned rank,
                         uint64_t bytes)
{
    note(told, sizeof(told), "slots for %u on n%u; ", rank, node);
}
void dlr_sup_send(struct dlr_sup_nodes *nodes, unsigned node, json_t *msg)
{
    assert_string_equal(dlr_msg_type(msg), "reserve");
    assert_true(json_is_true(json_object_get(msg, "fetch")) &&
                json_is_true(json_object_get(msg, "make")));
    assert_int_equal(json_integer_value(json_object_get(msg, "bytes")), SLOT_BYTES);
    json_decref(msg);
}
void dlr_sup_send_peers(struct dlr_sup_nodes *nodes)
{
}
unsigned dlr_sup_copies(const struct dlr_sup_copies *its)
{
    return conf.redundancy.copies;
}
int dlr_sup_holders_make(struct dlr_sup_copies *its)
{
    return 0;
}

/* One rank on each node. */
int dlr_sup_replan_step(struct dlr_sup_planning *of, unsigned nplaces,
                        struct dlr_err *err)
{
    struct dlr_step_plan *step = &of->step;

    free(step->tasks);
    step->tasks = calloc(nplaces, sizeof(*step->tasks));
    for (unsigned p = 0; p < nplaces; p++)
        step->tasks[p] = 1;
    step->nplaces = step->world = nplaces;
    return 0;
}
static int on_replanned(void *arg, struct dlr_err *err)
{
    dlr_parity_sets_done(&copies->sets);
    return dlr_parity_sets_init(&copies->sets, planning.step.nplaces,
                                planning.step.tasks, NULL, conf.redundancy.members,
                                conf.redundancy.copies);
}

/* --- the rig ---------------------------------------------------------------------- */

static void source(unsigned rank, enum dlr_plan_from from, const char *where)
{
    planning.plan.sources[rank] =
        (struct dlr_plan_source){from, strdup(where), SLOT_BYTES};
}

/* Four were there, then so many; ranks that are lost are made of these parts. */
static void begin(unsigned members, unsigned rows, unsigned left, const char *const *of)
{
    static const struct dlr_sup_planning_ops ops = {.replanned = on_replanned};

    copies_begin(NULL, FULL);
    planning.ops = &ops;
    told[0] = said[0] = rejected[0] = '\0';
    conf.redundancy.members = members;
    conf.redundancy.copies = rows;
    planning.full_places = planning.full_world = FULL;
    assert_int_equal(dlr_sup_replan_step(&planning, FULL, NULL), 0);
    assert_int_equal(dlr_sup_resize(&planning, left), 0);
    copies->preparing = planning.plan.restore = true;
    planning.plan.world = planning.plan.nplaces = left;
    planning.plan.made_by = FULL;
    planning.plan.version = (struct dlr_version){0, 40};
    planning.plan.sources = calloc(FULL, sizeof(*planning.plan.sources));
    for (unsigned r = 0; r < FULL; r++) {
        char name[8];

        dlr_format(name, sizeof(name), "n%u", r);
        source(r, of[r] ? DLR_PLAN_PARITY : DLR_PLAN_NODE, of[r] ? of[r] : name);
    }
    dlr_sup_rebuild_lost(copies);
}

static void end(void)
{
    for (unsigned r = 0; r < FULL; r++)
        free(planning.plan.sources[r].where);
    dlr_sup_places_done(&planning);
    free(planning.plan.sources);
    free(planning.step.tasks);
    copies_end();
}

static const char *const last[FULL] = {NULL, NULL, NULL, "1@n1 5@n0"};

/* --- tests ------------------------------------------------------------------------ */

static void a_lost_rank_is_made_where_a_part_of_it_is(void **state)
{
    begin(2, 1, 3, last);
    assert_string_equal(told, "rebuild 3 on n1 of 4 1*1 5*1; ");
    assert_int_equal(copies->transfers.n, 3);
    assert_true(copies->transfers.list[2].shard && !copies->transfers.list[1].shard);
    assert_false(
        dlr_sup_rebuild_room(copies, 0, 3, 0, "")); /* nobody asked that node */
    assert_true(dlr_sup_rebuild_room(copies, 1, 3, 0, ""));
    assert_true(copies->transfers.list[0].started);
    assert_int_equal(planning.plan.sources[3].from, DLR_PLAN_PARITY);
    dlr_sup_rebuild_known(copies);
    assert_int_equal(planning.plan.sources[3].from, DLR_PLAN_NODE);
    assert_string_equal(planning.plan.sources[3].where, "n1");
    assert_string_equal(planning.plan.sources[0].where, "n0");
    end();
}

static void where_there_is_no_room_the_next_one_makes_it(void **state)
{
    begin(2, 1, 3, last);
    told[0] = '\0';
    assert_true(dlr_sup_rebuild_room(copies, 1, 3, -EDQUOT, "1 x 9 MB"));
    assert_string_equal(told, "rebuild 3 on n0 of 4 1*1 5*1; ");
    assert_true(copies->transfers.list[0].ended && copies->transfers.list[1].ended &&
                copies->transfers.list[2].ended);
    assert_false(copies->transfers.list[3].ended || copies->transfers.rc);
    assert_true(dlr_sup_rebuild_room(copies, 0, 3, 0, ""));
    dlr_sup_rebuild_known(copies);
    assert_string_equal(planning.plan.sources[3].where, "n0");
    end();
}

static void when_none_has_room_the_next_plan_does_without_parity(void **state)
{
    begin(2, 1, 3, last);
    assert_true(dlr_sup_rebuild_room(copies, 1, 3, -EDQUOT, "1 x 9 MB"));
    assert_true(dlr_sup_rebuild_room(copies, 0, 3, -EDQUOT, "1 x 9 MB and 3 MB"));
    assert_int_equal(copies->transfers.rc, -ENOSPC);
    assert_string_equal(rejected, "5@* ");
    assert_string_equal(
        said, "rank 3 of version 0/40 cannot be made of parity, no node with a "
              "part of it has room: 1 x 9 MB and 3 MB");
    end();
}

/* A part can go into one sum only on a node. */
static void two_of_a_set_are_made_on_different_nodes(void **state)
{
    static const char *const both[FULL] = {NULL, "5@n0 9@n2", NULL, "5@n0 9@n2"};

    begin(2, 2, 3, both);
    assert_non_null(strstr(told, "rebuild 1 on n0 of 4 5*"));
    assert_non_null(strstr(told, "rebuild 3 on n2 of 4 5*"));
    assert_true(
        dlr_sup_rebuild_room(copies, 0, 1, -EDQUOT, "full")); /* n2 has the other */
    assert_int_equal(copies->transfers.rc, -ENOSPC);
    assert_string_equal(rejected, "5@* 9@* ");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_rank_is_made_where_a_part_of_it_is),
        cmocka_unit_test(where_there_is_no_room_the_next_one_makes_it),
        cmocka_unit_test(when_none_has_room_the_next_plan_does_without_parity),
        cmocka_unit_test(two_of_a_set_are_made_on_different_nodes),
    };

    return cmocka_run_group_tests_name("rebuild", tests, NULL, NULL);
}
