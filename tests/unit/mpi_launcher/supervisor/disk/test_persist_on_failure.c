/* SPDX-License-Identifier: Apache-2.0 */
/* Before a requeue: what each node that is left is asked to write, and into which file.
 * Node 0 holds ranks 0 to 2, one of them a lost node's; ranks 3 to 5 are made of
 * parity, two of them on node 1.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/manifest/manifest.h"
#include "common/base/str.h"
#include "common/json/message.h"
#include "mpi_launcher/journal/journal.h"
#include "mpi_launcher/plan/plan.h"
#include "mpi_launcher/policy/policy.h"
#include "mpi_launcher/supervisor/copies/copies_state.h"
#include "mpi_launcher/supervisor/copies/orders.h"
#include "mpi_launcher/supervisor/copies/rebuild.h"
#include "mpi_launcher/supervisor/copies/rejected_copies.h"
#include "mpi_launcher/supervisor/copies/transfers.h"
#include "mpi_launcher/supervisor/disk/disk.h"
#include "mpi_launcher/supervisor/disk/disk_state.h"
#include "mpi_launcher/supervisor/io/state_files.h"
#include "mpi_launcher/supervisor/io/user_output.h"
#include "mpi_launcher/supervisor/nodes/members.h"
#include "mpi_launcher/supervisor/nodes/nodes.h"
#include "mpi_launcher/supervisor/nodes/send.h"
#include "mpi_launcher/supervisor/nodes/suspend.h"
#include "mpi_launcher/supervisor/planning/places.h"
#include "mpi_launcher/supervisor/planning/planning.h"
#include "mpi_launcher/supervisor/supervisor.h"
#include "mpi_launcher/supervisor/versions/versions.h"

#define WORLD 6
#define DIR "/run/persist"

static struct dlr_sup_copies copies; /* its transfers */
static struct dlr_sup_disk *s;
static struct dlr_runinfo info = {.dir = "/run"};
static struct dlr_job_config conf; /* nothing is saved */
static unsigned npersisted;
static struct dlr_members table;
static struct dlr_transfer room[32]; /* so that pointers into it last */
static struct dlr_plan plan;
static char orders[512]; /* "node:file:ranks " each */

/* --- instead of the other files of the supervisor --------------------------------- */

struct dlr_transfer *dlr_sup_add_transfer(struct dlr_sup_copies *sup, unsigned rank,
                                          int from, int to, bool essential)
{
    struct dlr_transfer *t = &room[sup->transfers.n++];

    assert_true(sup->transfers.n <= sizeof(room) / sizeof(*room));
    *t = (struct dlr_transfer){.id = sup->transfers.n,
                               .rank = rank,
                               .from = (unsigned)from,
                               .to = (unsigned)to,
                               .essential = essential};
    return t;
}
struct dlr_transfer *dlr_sup_transfer(struct dlr_sup_copies *sup, uint64_t id)
{
    return id ? &room[id - 1] : NULL;
}
/* Ranks 3 and 4 are made on node 1, rank 5 on node 2. */
uint64_t dlr_sup_rebuild_anywhere(struct dlr_sup_copies *sup, const struct dlr_plan *of,
                                  unsigned rank)
{
    int node = rank < 5 ? 1 : 2;
    struct dlr_transfer *t = dlr_sup_add_transfer(sup, rank, node, node, true);

    t->rebuild = t->started = true;
    return t->id;
}
json_t *dlr_sup_order(const struct dlr_sup_copies *sup, const struct dlr_transfer *t,
                      const char *type)
{
    json_t *msg = dlr_msg_new(type);

    assert_string_equal(type, "persist");
    json_object_set_new(msg, "rank", json_integer(t->rank));
    return msg;
}
void dlr_sup_send(struct dlr_sup_nodes *nodes, unsigned node, json_t *msg)
{
    const json_t *with = json_object_get(msg, "with");
    char *at = orders + strlen(orders), *end = orders + sizeof(orders);
    char kind;
    unsigned i;

    assert_int_equal(sscanf(json_string_value(json_object_get(msg, "path")),
                            DIR "/%c%u-1-7-", &kind, &i),
                     2);
    at += snprintf(at, (size_t)(end - at), "%u:%c%u:%d", node, kind, i,
                   (int)json_integer_value(json_object_get(msg, "rank")));
    for (size_t k = 0; k < json_array_size(with); k++)
        at += snprintf(
            at, (size_t)(end - at), ",%d",
            (int)json_integer_value(json_array_get(json_array_get(with, k), 0)));
    snprintf(at, (size_t)(end - at), " ");
    json_decref(msg);
}
void dlr_sup_ask(struct dlr_sup_copies *sup, const struct dlr_transfer *t,
                 const char *type, unsigned node, const char *key, const char *value)
{
    json_t *msg = dlr_sup_order(sup, t, type);

    json_object_set_new(msg, key, json_string(value));
    dlr_sup_send(NULL, node, msg);
}
int dlr_members_find(const struct dlr_members *m, const char *name)
{
    return name[1] - '0';
}
const struct dlr_members *dlr_sup_members(const struct dlr_sup_nodes *nodes)
{
    return &table;
}
int dlr_sup_file_mkdirs(void *arg, int *fd)
{
    return 0;
}
int dlr_sup_file_do(struct dlr_sup_io *io, dlr_offload_fn fn, const char *path,
                    const char *text)
{
    return 0;
}
void dlr_sup_want_places(const struct dlr_sup_planning *planning,
                         struct dlr_plan_want *ret)
{
}
int dlr_plan_restorable(const struct dlr_plan_report *reports, unsigned n,
                        const struct dlr_plan_want *want, struct dlr_plan *ret,
                        struct dlr_err *err)
{
    return -EIO;
}
void dlr_plan_done(struct dlr_plan *p)
{
}
bool dlr_sup_newest(const struct dlr_sup_versions *versions, struct dlr_version *ret)
{
    return false;
}
bool dlr_policy_has_sigterm(const struct dlr_policy *p)
{
    return false;
}
unsigned dlr_policy_alive(const struct dlr_policy *p)
{
    return 1;
}
int64_t dlr_sup_now(void)
{
    return 0;
}
void dlr_journal_note(struct dlr_journal *j, const char *event, const char *fmt, ...)
{
}
void dlr_user_line(struct dlr_sup_io *io, const char *fmt, ...)
{
}
void dlr_sup_gather(struct dlr_sup_planning *planning)
{
}
void dlr_sup_periodic_tick(struct dlr_sup_disk *disk)
{
}
void dlr_sup_periodic_free(struct dlr_sup_disk *disk)
{
}
struct dlr_sup_transfers *dlr_sup_transfers(struct dlr_sup_copies *sup)
{
    return &sup->transfers;
}
bool dlr_sup_transfers_ended(const struct dlr_sup_copies *sup)
{
    return false;
}
void dlr_sup_transfers_fail(struct dlr_sup_copies *sup, int rc, const char *fmt, ...)
{
}
const struct dlr_plan_rejected *dlr_sup_struck(const struct dlr_sup_copies *sup,
                                               unsigned *ret_n)
{
    *ret_n = 0;
    return NULL;
}
void dlr_sup_transfers_clear(struct dlr_sup_copies *sup)
{
}

/* --- the rig ---------------------------------------------------------------------- */

static void on_persisted(void *arg)
{
    npersisted++;
}

static const struct dlr_sup_disk_ops ops = {.persisted = on_persisted};

/* The nodes are asked for what they hold, the rest is being made. */
static int begin(void **state)
{
    static struct dlr_plan_source sources[WORLD];
    static char holder[] = "n0";

    memset(&copies, 0, sizeof(copies));
    copies.transfers.list = room;
    table.n = 3;
    s = dlr_sup_disk_new(
        &(struct dlr_sup_disk_env){.copies = &copies, .conf = &conf, .info = &info},
        &ops, NULL);
    assert_non_null(s);
    s->persist.write = (struct dlr_persist_write){{1, 7}, 9};
    orders[0] = '\0';
    plan = (struct dlr_plan){.made_by = WORLD, .sources = sources};
    for (unsigned r = 0; r < WORLD; r++) {
        sources[r].from = r < 3 ? DLR_PLAN_NODE : DLR_PLAN_PARITY;
        sources[r].where = holder;
        dlr_sup_write_rank(s, &plan, DIR, r);
    }
    dlr_sup_write_nodes(s);
    return 0;
}

static int end(void **state)
{
    s = dlr_sup_disk_free(s);
    return 0;
}

static struct dlr_transfer *of(unsigned rank, bool rebuild)
{
    unsigned i = 0;

    while (i < copies.transfers.n &&
           (room[i].rank != rank || room[i].rebuild != rebuild))
        i++;
    return i < copies.transfers.n ? &room[i] : NULL;
}

/* As dlr_sup_persist_check() does after each answer. */
static void made(unsigned rank, bool well)
{
    struct dlr_transfer *t = of(rank, true);

    t->ended = true;
    if (well)
        dlr_sup_write_rebuilt(s, t);
    dlr_sup_write_made(s);
}

/* --- tests ------------------------------------------------------------------------ */

static void a_node_is_asked_once_for_all_that_it_holds(void **state)
{
    assert_string_equal(orders, "0:n0:0,1,2 ");
    dlr_sup_write_made(s);
    assert_string_equal(orders, "0:n0:0,1,2 ");
}

static void what_a_node_makes_of_parity_goes_into_one_file(void **state)
{
    orders[0] = '\0';
    made(4, true);
    made(5, true);
    assert_string_equal(orders, "");
    made(3, true);
    assert_string_equal(orders, "1:m1:4,3 2:m2:5 ");
    dlr_sup_write_made(s);
    assert_string_equal(orders, "1:m1:4,3 2:m2:5 ");
}

/* There will be no manifest, but an answer to each. */
static void what_cannot_be_made_does_not_hold_up_the_rest(void **state)
{
    orders[0] = '\0';
    made(3, true);
    made(5, true);
    made(4, false);
    assert_string_equal(orders, "1:m1:3 2:m2:5 ");
    assert_null(of(4, false));
}

static void a_node_that_is_lost_is_not_asked(void **state)
{
    orders[0] = '\0';
    made(3, true);
    of(3, false)->ended = true;
    of(4, true)->ended = true;
    made(5, true);
    assert_string_equal(orders, "2:m2:5 ");
}

static void what_is_too_much_for_one_file_is_one_each(void **state)
{
    static const unsigned ranks[] = {0, 2, 3};

    for (unsigned r = 3; r < WORLD; r++)
        made(r, true);
    orders[0] = '\0';
    for (unsigned i = 0; i < sizeof(ranks) / sizeof(*ranks); i++)
        assert_int_equal(
            dlr_sup_written(s, of(ranks[i], false), -EFBIG, "a long header"),
            -EINPROGRESS);
    assert_string_equal(orders, "0:r0:0 0:r2:2 1:r3:3 ");
    assert_int_equal(dlr_sup_written(s, of(2, false), -EFBIG, "still"), -EFBIG);
    assert_int_equal(dlr_sup_written(s, of(2, false), 0, "4096 1 4096 0000abcd"), 0);
    assert_int_equal(of(2, false)->slice.at, 4096);
}

static void that_nothing_is_to_be_written_is_told_once(void **state)
{
    npersisted = 0;
    dlr_sup_persist(s);
    assert_int_equal(npersisted, 0); /* the policy is asking */
    assert_true(dlr_sup_persist_check(s));
    assert_false(dlr_sup_persist_check(s));
    assert_int_equal(npersisted, 1);
    assert_false(dlr_sup_is_persisting(s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_node_is_asked_once_for_all_that_it_holds,
                                        begin, end),
        cmocka_unit_test_setup_teardown(what_a_node_makes_of_parity_goes_into_one_file,
                                        begin, end),
        cmocka_unit_test_setup_teardown(what_cannot_be_made_does_not_hold_up_the_rest,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_node_that_is_lost_is_not_asked, begin, end),
        cmocka_unit_test_setup_teardown(what_is_too_much_for_one_file_is_one_each,
                                        begin, end),
        cmocka_unit_test_setup_teardown(that_nothing_is_to_be_written_is_told_once,
                                        begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
