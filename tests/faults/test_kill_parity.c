/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/slot,ckpt/redundancy needs=dlrover-data,tests/stepped-parity */
/* The holder of a parity shard killed at every step of the next sum, of its commit, and
 * of making a lost member's slot of the shard and the others: the committed shard stays
 * whole until the next one is committed, what is whole is the members' sum, or the
 * member's bytes, and the process that is started in its place goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/redundancy/parity.h"
#include "ckpt/slot/meta.h"
#include "common/base/str.h"
#include "tests/faults/kill_data.h"

#define ROUND 5
#define WORLD 64 /* as the rig writes it into snapshots: the shard is 64 */
#define N 2u
#define LOST 0

static const uint64_t bytes_of[N] = {(1 << 20) + 777, 100}; /* two blocks and one */

struct set {
    struct kill_data kill;
    struct rig_data members, holder;
    struct dlr_slot *of[N][2]; /* the members' slots */
    struct dlr_slot *shard[2], *made[2];
    uint64_t room;
    uint64_t step; /* of the committed shard; the members have the next one, too */
    uint64_t id;
};

static struct dlr_version version(uint64_t step)
{
    return (struct dlr_version){ROUND, step};
}

static struct dlr_slot *member(const struct set *s, unsigned i, uint64_t step)
{
    return s->of[i][step % 2];
}

static void order_sum(struct set *s, int32_t target, struct dlr_version v, uint64_t id,
                      const char *terms)
{
    char text[64];

    dlr_format(text, sizeof(text), "%d %s", WORLD, terms);
    rig_order(&s->holder, DLR_LOCAL_D_PARITY, ROUND, target, v, id, text);
}

/* The holder can be started again in its directory. */
static void start(struct set *s, const char *dir)
{
    kill_data_start(&s->kill, &s->holder, dir);
    rig_config(&s->holder, ROUND, RIG_TOKEN, "[]");
    order_sum(s, WORLD, (struct dlr_version){UINT32_MAX, 0}, 0, "0*1 1*1");
    assert_int_equal(rig_reserve(&s->holder, WORLD, s->room), 0);
    assert_int_equal(rig_reserve(&s->holder, LOST, s->room), 0);
}

/* The slot of a pair that is whole and of this step. */
static struct dlr_slot *whole(struct dlr_slot *const pair[2], uint64_t step)
{
    for (unsigned k = 0; k < 2; k++) {
        enum dlr_slot_state state = dlr_slot_state(pair[k]);
        struct dlr_slot_info info;
        struct dlr_err err;

        if ((state != DLR_SLOT_SEALED && state != DLR_SLOT_COMMITTED) ||
            dlr_slot_info(pair[k], &info) < 0 || info.version.step != step)
            continue;
        if (dlr_slot_verify(pair[k], &err) < 0)
            fail_msg("step %d: %s", (int)step, err.text);
        return pair[k];
    }
    return NULL;
}

/* The shard of step, with the sum of the members' bytes; NULL: none that is whole. */
static struct dlr_slot *shard_of(struct set *s, uint64_t step)
{
    struct dlr_slot *slot = whole(s->shard, step);
    unsigned char *sum, *data;
    uint64_t data_bytes;
    size_t bytes;
    uint32_t crc;

    if (!slot)
        return NULL;
    data_bytes = dlr_slot_bytes(slot) - DLR_SLOT_PAGE;
    sum = calloc(1, data_bytes);
    for (unsigned i = 0; i < N; i++)
        dlr_parity_add(1, (char *)dlr_slot_base(member(s, i, step)) + DLR_SLOT_PAGE,
                       sum, dlr_slot_bytes(member(s, i, step)) - DLR_SLOT_PAGE);
    for (uint32_t i = 0; dlr_slot_block(slot, i, (void **)&data, &bytes, &crc) == 0;
         i++)
        if (memcmp(data, sum + (uint64_t)i * DLR_SLOT_BLOCK, bytes) != 0)
            fail_msg("the shard of step %d is not the members' sum", (int)step);
    free(sum);
    return slot;
}

/* The workers' snapshots of the next step, unless they are there. */
static void make_next(void *arg)
{
    struct set *s = arg;
    uint64_t next = s->step + 1;

    for (unsigned i = 0; i < N; i++)
        if (!whole(s->of[i], next))
            rig_snapshot(member(s, i, next), (int32_t)i, version(next), bytes_of[i]);
}

static void send(struct set *s, struct rig_data *from, int32_t rank, uint64_t step)
{
    rig_order(from, DLR_LOCAL_D_SEND, ROUND, rank, version(step), ++s->id,
              s->holder.address);
}

/* The holder tells of every member when it has the sum of this step. False: it is dead.
 */
static bool await_copied(struct set *s, uint64_t step)
{
    struct dlr_local_msg msg;
    unsigned heard = 0;

    while (heard != (1u << N) - 1) {
        if (!rig_await_or_dead(&s->holder, DLR_LOCAL_D_COPIED, &msg))
            return false;
        if (msg.step == step)
            heard |= 1u << msg.rank;
    }
    return true;
}

static void commit(struct set *s)
{
    rig_order(&s->holder, DLR_LOCAL_D_COMMIT, ROUND, -1, version(s->step), 0, "");
    rig_alive(&s->holder);
}

/* The sum of the next version and its commit. */
static bool sum_next(void *arg)
{
    struct set *s = arg;

    for (unsigned i = 0; i < N; i++) {
        send(s, &s->members, (int32_t)i, s->step + 1);
        rig_done_or_dead(&s->members, s->id); /* it fails when the holder is dead */
    }
    if (!await_copied(s, s->step + 1))
        return false;
    s->step++;
    commit(s);
    return true;
}

static void go_on_with_sums(void *arg)
{
    struct set *s = arg;

    assert_non_null(shard_of(s, s->step));
    shard_of(s, s->step + 1);
    start(s, s->holder.dir);
    commit(s);
    assert_non_null(shard_of(s, s->step));
    make_next(s);
    assert_true(sum_next(s));
    assert_int_equal(dlr_slot_state(shard_of(s, s->step)), DLR_SLOT_COMMITTED);
    make_next(s);
}

/* The lost member's slot at the holder, as it was; NULL: none that is whole. */
static struct dlr_slot *made_of(struct set *s)
{
    struct dlr_slot *slot = whole(s->made, s->step);

    if (slot && !rig_same(slot, member(s, LOST, s->step)))
        fail_msg("what was made of the rest has other bytes");
    return slot;
}

/* Its slots are free again, and hold nothing that the next one could find there. */
static void forget_made(void *arg)
{
    struct set *s = arg;

    for (unsigned k = 0; k < 2; k++) {
        dlr_slot_set_state(s->made[k], DLR_SLOT_DEAD);
        memset((char *)dlr_slot_base(s->made[k]) + DLR_SLOT_PAGE, 0x5a,
               dlr_slot_bytes(s->made[k]) - DLR_SLOT_PAGE);
    }
}

/* The holder makes the lost member's slot of the other one and its own shard. */
static bool rebuild(void *arg)
{
    bool there = made_of(arg) != NULL; /* made before its maker died: it only says so */
    struct set *s = arg;
    uint64_t id = ++s->id;
    int rc;

    order_sum(s, LOST, version(s->step), id, "1*1 64*1");
    if (!there) {
        if (!rig_alive(&s->holder)) /* it knows the order before anything comes */
            return false;
        send(s, &s->holder, WORLD, s->step); /* its answer is passed over */
        send(s, &s->members, 1, s->step);
        rig_done_or_dead(&s->members, s->id);
    }
    rc = rig_done_or_dead(&s->holder, id);
    assert_true(rc <= 0);
    return rc == 0;
}

static void go_on_with_rebuilding(void *arg)
{
    struct set *s = arg;

    assert_non_null(shard_of(s, s->step));
    made_of(s);
    start(s, s->holder.dir);
    assert_true(rebuild(s));
    assert_non_null(made_of(s));
    assert_int_equal(dlr_slot_state(shard_of(s, s->step)), DLR_SLOT_COMMITTED);
    forget_made(s);
}

static void bring_up(struct set *s)
{
    s->room = rig_slot_bytes(bytes_of[0]) + 4 * DLR_SLOT_PAGE;
    kill_data_init(&s->kill, "stepped-parity");
    rig_start(&s->members, NULL, NULL);
    rig_config(&s->members, ROUND, RIG_TOKEN, "[]");
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(
            rig_reserve(&s->members, (int32_t)i, rig_slot_bytes(bytes_of[i])), 0);
        for (unsigned k = 0; k < 2; k++)
            s->of[i][k] = rig_slot(&s->members, (int32_t)i, k);
    }
    start(s, NULL);
    for (unsigned k = 0; k < 2; k++) {
        s->shard[k] = rig_slot(&s->holder, WORLD, k);
        s->made[k] = rig_slot(&s->holder, LOST, k);
    }
    make_next(s);
    assert_true(sum_next(s));
    make_next(s);
}

static void take_down(struct set *s)
{
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned i = 0; i < N; i++)
            dlr_slot_unmap(s->of[i][k]);
        dlr_slot_unmap(s->shard[k]);
        dlr_slot_unmap(s->made[k]);
    }
    rig_end(&s->members);
    rig_end(&s->holder);
    rig_remove(&s->members);
    rig_remove(&s->holder);
    kill_data_done(&s->kill);
}

static void a_sum(void **state)
{
    static const struct kill_data_ops steps = {sum_next, go_on_with_sums, make_next};
    struct set s = {0};

    bring_up(&s);
    assert_true(kill_data_each(&s.holder, &steps, &s) > 0);
    take_down(&s);
}

static void making_what_is_lost(void **state)
{
    static const struct kill_data_ops steps = {rebuild, go_on_with_rebuilding,
                                               forget_made};
    struct set s = {0};

    bring_up(&s);
    kill_data_each(&s.holder, &steps, &s);
    take_down(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum),
        cmocka_unit_test(making_what_is_lost),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    setenv("UCX_TLS", "tcp,self", 1); /* shared memory would hide the network */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
