/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open needs=dlrover-data */
/* Two ranks on two "nodes" of this machine: real programs with the real library, real
 * data processes, and this program in the place of agents and supervisor. 200 saves of
 * states of random size; at random moments a worker, a data process or a whole node is
 * killed, or a bit of a copy flips. After each the newest version that verified copies
 * make whole is restored: never an older one than was committed, the same on both
 * ranks, with the bytes that the step's number gives.
 *
 * The seed is printed; DLR_TEST_SEED=N draws the same sizes, faults and moments again.
 * Which instruction a moment meets is up to the machine: tests/faults/test_kill_*.c go
 * through them one by one.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/faults/random_node.h"

#define SAVES 200
#define DELAY_US 4000 /* a save of this machine is done by then, mostly */
#define WAIT_MS 30000
#define PULLS 3

static const char *const names[FAULTS] = {"nothing", "worker", "data process", "node",
                                          "flipped bit"};

/* The newest version that has a whole copy of each rank somewhere. */
static bool restorable(struct dlr_version *ret)
{
    bool any = false;

    for (unsigned i = 0; i < 8; i++) {
        struct dlr_version v;

        if (!node_whole(world.nodes[i / 4].slots[i / 2 % 2][i % 2], &v) ||
            (any && dlr_version_cmp(v, *ret) <= 0) ||
            (node_find(&world.nodes[0], 0, v) < 0 &&
             node_find(&world.nodes[1], 0, v) < 0) ||
            (node_find(&world.nodes[0], 1, v) < 0 &&
             node_find(&world.nodes[1], 1, v) < 0))
            continue;
        *ret = v;
        any = true;
    }
    return any;
}

static bool is_network(int rc)
{
    return rc == ETIMEDOUT || rc == ECONNRESET;
}

/* Copies that are not sound are struck off; what node n lacks of rank comes from the
 * other. UCX's TCP now and then gives up a connection between processes that have just
 * started.
 */
static void pull(struct node *n, int rank)
{
    struct node *from = &world.nodes[1 - n->rank];
    struct dlr_version v;
    int rc = ETIMEDOUT;

    if (node_find(n, rank, world.newest) >= 0)
        return;
    for (unsigned k = 0; k < 2; k++)
        if (!node_whole(n->slots[rank][k], &v))
            dlr_slot_set_state(n->slots[rank][k], DLR_SLOT_DEAD);
    for (unsigned turn = 0; is_network(rc) && turn < PULLS; turn++) {
        rig_order(&from->data, DLR_LOCAL_D_SEND, world.round, rank, world.newest,
                  ++world.id, n->data.address);
        rc = rig_done_or_dead(&from->data, world.id);
    }
    assert_int_equal(rc, 0);
    assert_true(node_find(n, rank, world.newest) >= 0);
}

/* The word of a commit to a node, as its agent has it: its own rank's slots, whole or
 * not, then the data process.
 */
static void tell_commit(struct node *n)
{
    struct dlr_version held;

    for (unsigned k = 0; k < 2; k++)
        if (!node_sealed(n->slots[n->rank][k], &held))
            continue;
        else if (dlr_version_eq(held, world.newest))
            dlr_slot_set_state(n->slots[n->rank][k], DLR_SLOT_COMMITTED);
        else if (dlr_version_cmp(held, world.newest) < 0)
            dlr_slot_set_state(n->slots[n->rank][k], DLR_SLOT_FREE);
    node_tell(n, DLR_LOCAL_D_COMMIT, world.newest);
}

/* Everything of the last round ends, and both ranks begin again from the newest
 * version.
 */
static void next_round(bool lost_node, struct node *victim)
{
    static const struct dlr_version none = {UINT32_MAX, UINT64_MAX};
    struct dlr_version v = none;
    bool found;

    for (unsigned i = 0; world.round && i < 2; i++)
        node_end_worker(&world.nodes[i]);
    world.round++;
    for (unsigned i = 0; i < 2; i++) {
        node_config(&world.nodes[i]);
        node_settle(&world.nodes[i]);
        if (world.nodes[i].data_dead || (lost_node && victim == &world.nodes[i]))
            node_data_again(&world.nodes[i], lost_node && victim == &world.nodes[i]);
    }
    found = restorable(&v);
    if (world.has && (!found || dlr_version_cmp(v, world.newest) < 0))
        fail_msg("seed %" PRIu64 ": version %u.%" PRIu64 " is lost", world.seed,
                 world.newest.round, world.newest.step);
    for (unsigned i = 0; i < 2; i++)
        node_tell(&world.nodes[i], DLR_LOCAL_D_DROP, v);
    world.has = found;
    world.newest = v;
    for (unsigned i = 0; found && i < 4; i++)
        pull(&world.nodes[i / 2], i % 2);
    for (unsigned i = 0; i < 2; i++) {
        if (found)
            tell_commit(&world.nodes[i]);
        node_start_worker(&world.nodes[i]);
    }
}

static bool over(void)
{
    return world.nodes[0].failed || world.nodes[1].failed || world.nodes[0].data_dead ||
           world.nodes[1].data_dead;
}

static bool copied(void)
{
    return world.nodes[0].copied && world.nodes[1].copied;
}

/* One slot at least, beside the undecided and the committed one. */
static void expect_room(const struct node *n)
{
    for (int k = 0; k < 2; k++)
        if (dlr_slot_state(n->slots[n->rank][k]) == DLR_SLOT_FREE ||
            dlr_slot_state(n->slots[n->rank][k]) == DLR_SLOT_DEAD)
            return;
    fail_msg("seed %" PRIu64 ": no slot is free", world.seed);
}

static void order(uint64_t step)
{
    for (unsigned i = 0; i < 2; i++) {
        struct node *n = &world.nodes[i];

        n->sealed = n->copied = false;
        if (n->slots[n->rank][0])
            expect_room(n);
        atomic_store(dlr_page_order(n->page, step), step);
        if (write(n->orders, &step, sizeof(step)) != sizeof(step))
            fail_msg("seed %" PRIu64 ": rank %d does not listen", world.seed, n->rank);
    }
}

static void commit(uint64_t step)
{
    world.newest = (struct dlr_version){world.round, step};
    world.has = true;
    for (unsigned i = 0; i < 2; i++)
        tell_commit(&world.nodes[i]);
}

/* One save with a fault at some moment of it, before or after the commit. True: it was
 * committed.
 */
static bool save(enum fault fault, struct node *victim)
{
    uint64_t step = (world.has ? world.newest.step : 0) + 2;
    int64_t limit = dlr_now_ns() + WAIT_MS * INT64_C(1000000);
    int64_t at = dlr_now_ns() + (int64_t)random_below(DELAY_US) * 1000;
    bool committed = false, rejected = fault == NOTHING;

    order(step);
    while (!over() && !(committed && rejected)) {
        int64_t now = dlr_now_ns();

        assert_true(now < limit);
        if (!rejected && now >= at) {
            node_strike(fault, victim);
            rejected = true;
        }
        if (!committed && copied()) {
            commit(step);
            committed = true;
        }
        if (!(committed && rejected))
            nodes_pump(rejected ? limit : at);
    }
    if (!rejected)
        node_strike(fault, victim);
    return committed;
}

static void two_hundred_saves(void **state)
{
    unsigned count[FAULTS] = {0}, committed = 0;

    next_round(false, NULL);
    while (!world.slot_bytes) { /* the first ones need both data processes */
        assert_false(over());
        nodes_pump(dlr_now_ns() + WAIT_MS * INT64_C(1000000));
    }
    for (unsigned i = 0; i < SAVES; i++) {
        enum fault fault = random_below(2) ? NOTHING : (enum fault)random_below(FAULTS);
        struct node *victim = &world.nodes[random_below(2)];

        count[fault]++;
        committed += save(fault, victim);
        if (fault != NOTHING || over())
            next_round(fault == KILL_NODE, victim);
    }
    print_message("seed %" PRIu64 ": %u of %d saves committed, %u rounds", world.seed,
                  committed, SAVES, world.round);
    for (unsigned i = KILL_WORKER; i < FAULTS; i++)
        print_message(", %u x %s", count[i], names[i]);
    print_message("\n");
    assert_true(committed > SAVES / 2);
}

static int set_up(void **state)
{
    const char *given = getenv("DLR_TEST_SEED");

    world.seed = given ? strtoull(given, NULL, 10) : (uint64_t)dlr_wall_ns() % 1000000;
    world.random_state = world.seed;
    print_message("DLR_TEST_SEED=%" PRIu64 " draws it again\n", world.seed);
    setenv("WORLD_SIZE", "2", 1);
    for (int i = 0; i < 2; i++)
        node_start(&world.nodes[i], i);
    return 0;
}

static int tear_down(void **state)
{
    for (int i = 0; i < 2; i++)
        node_end(&world.nodes[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_hundred_saves, set_up, tear_down),
    };

    setenv("UCX_TLS", "tcp,self", 1); /* shared memory would hide the network */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
