/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-data */
/* Parity between dlrover-data processes on this host: one with a set's snapshots, one
 * for each parity shard, one that rebuilds what is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/redundancy/parity.h"
#include "ckpt/slot/meta.h"
#include "ckpt/slot/store.h"
#include "common/base/str.h"
#include "tests/support/data_rig.h"

#define ROUND 5
#define WORLD 64 /* as the rig writes it into snapshots: shards are 64 and on */
#define N 3u
#define M_MAX 2u

static const struct dlr_version v7 = {ROUND, 7};
static const uint64_t bytes_of[N] = {3 * 1024 * 1024 + 777, 100, 1024 * 1024};

struct set {
    unsigned m;
    struct rig_data members, holder[M_MAX], spare;
    uint64_t room;
    uint64_t last_id;
    uint32_t round;
};

static void order_sum(struct rig_data *p, int32_t target, struct dlr_version v,
                      uint64_t id, const char *terms)
{
    char text[300];

    dlr_format(text, sizeof(text), "%d %s", WORLD, terms);
    rig_order(p, DLR_LOCAL_D_PARITY, ROUND, target, v, id, text);
}

/* What the parity shard number row is made of, or with have what shard lost is. */
static void say_terms(const struct set *s, unsigned shard, const unsigned *have,
                      char *buf, size_t size)
{
    unsigned char coef[N];
    size_t used = 0;

    if (have)
        assert_int_equal(dlr_parity_rebuild(N, s->m, shard, have, coef), 0);
    else
        assert_int_equal(dlr_parity_row(N, s->m, shard, coef), 0);
    for (unsigned i = 0; i < N; i++) {
        unsigned from = have ? have[i] : i;

        used += (size_t)snprintf(buf + used, size - used, "%s%u*%u", i ? " " : "",
                                 from < N ? from : WORLD + from - N, coef[i]);
    }
}

static void set_up(struct set *s, unsigned m)
{
    static const struct dlr_version every = {UINT32_MAX, 0};
    char terms[256];

    memset(s, 0, sizeof(*s));
    s->m = m;
    s->round = ROUND;
    s->room = rig_slot_bytes(bytes_of[0]) + 4 * DLR_SLOT_PAGE;
    rig_start(&s->members, NULL, "--answer-timeout=1500ms");
    rig_config(&s->members, ROUND, RIG_TOKEN, "[]");
    for (unsigned i = 0; i < N; i++) {
        struct dlr_slot *slot;

        assert_int_equal(rig_reserve(&s->members, (int)i, rig_slot_bytes(bytes_of[i])),
                         0);
        slot = rig_slot(&s->members, (int)i, 0);
        rig_snapshot(slot, (int)i, v7, bytes_of[i]);
        dlr_slot_unmap(slot);
    }
    for (unsigned j = 0; j < m; j++) {
        rig_start(&s->holder[j], NULL, NULL);
        rig_config(&s->holder[j], ROUND, RIG_TOKEN, "[]");
        say_terms(s, N + j, NULL, terms, sizeof(terms));
        order_sum(&s->holder[j], WORLD + (int)j, every, 0, terms);
        assert_int_equal(rig_reserve(&s->holder[j], WORLD + (int)j, s->room), 0);
    }
    rig_start(&s->spare, NULL, NULL);
    rig_config(&s->spare, ROUND, RIG_TOKEN, "[]");
}

static void set_down(struct set *s)
{
    struct rig_data *all[] = {&s->members, &s->spare, &s->holder[0], &s->holder[1]};

    for (unsigned i = 0; i < 2 + s->m; i++) {
        rig_end(all[i]);
        rig_remove(all[i]);
    }
}

static int send_to(struct set *s, struct rig_data *from, int32_t rank,
                   struct dlr_version v, const struct rig_data *to)
{
    uint64_t id = ++s->last_id;

    rig_order(from, DLR_LOCAL_D_SEND, s->round, rank, v, id, to->address);
    return rig_done(from, id, NULL, 0);
}

/* Every member's snapshot goes to every holder, which tells of all when its shard is
 * whole.
 */
static void save(struct set *s, struct dlr_version v)
{
    struct dlr_local_msg msg;

    for (unsigned j = 0; j < s->m; j++) {
        for (unsigned i = 0; i < N; i++)
            assert_int_equal(send_to(s, &s->members, (int)i, v, &s->holder[j]), 0);
        for (unsigned i = 0; i < N; i++) {
            rig_await(&s->holder[j], DLR_LOCAL_D_COPIED, &msg);
            assert_int_equal(msg.rank, i);
            assert_int_equal(msg.step, v.step);
            assert_true(msg.arg[1] > 0 && msg.arg[2] > 0); /* bytes, ns: its rate */
        }
    }
}

static struct dlr_slot *slot_of(struct rig_data *p, int32_t rank, struct dlr_version v)
{
    for (unsigned k = 0; k < 2; k++) {
        struct dlr_slot *slot = rig_slot(p, rank, k);
        struct dlr_slot_info info;

        if (dlr_slot_state(slot) >= DLR_SLOT_SEALED &&
            dlr_slot_state(slot) <= DLR_SLOT_COMMITTED &&
            dlr_slot_info(slot, &info) == 0 && dlr_version_eq(info.version, v))
            return slot;
        dlr_slot_unmap(slot);
    }
    return NULL;
}

static void assert_same(struct set *s, struct rig_data *at, int32_t rank)
{
    struct dlr_slot *was = slot_of(&s->members, rank, v7), *is = slot_of(at, rank, v7);
    size_t bytes;

    assert_true(was && is);
    bytes = dlr_slot_bytes(was);
    assert_true(dlr_slot_bytes(is) >= bytes);
    assert_int_equal(dlr_slot_verify(is, NULL), 0);
    assert_memory_equal((char *)dlr_slot_base(was) + DLR_SLOT_PAGE,
                        (char *)dlr_slot_base(is) + DLR_SLOT_PAGE,
                        bytes - DLR_SLOT_PAGE);
    dlr_slot_unmap(was);
    dlr_slot_unmap(is);
}

/* The errno of that request; others of the same process end beside it. */
static int own_done(struct rig_data *p, uint64_t id)
{
    struct dlr_local_msg msg;

    do
        rig_await(p, DLR_LOCAL_D_DONE, &msg);
    while (msg.arg[1] != id);
    return (int)msg.arg[2];
}

/* Shard lost is made at to of have[]. The errno. */
static int rebuild(struct set *s, struct rig_data *to, unsigned lost,
                   const unsigned *have)
{
    char terms[256];

    say_terms(s, lost, have, terms, sizeof(terms));
    order_sum(to, (int)lost, v7, 1000 + lost, terms);
    assert_int_equal(rig_reserve(to, (int)lost, s->room), 0); /* it knows the order */
    for (unsigned i = 0; i < N; i++) {
        struct rig_data *from = have[i] < N ? &s->members : &s->holder[have[i] - N];
        int32_t rank = have[i] < N ? (int)have[i] : WORLD + (int)(have[i] - N);
        int rc;

        if (from == to) { /* its own answer is among those of the rebuilding */
            rig_order(from, DLR_LOCAL_D_SEND, ROUND, rank, v7, 2000, to->address);
            continue;
        }
        rc = send_to(s, from, rank, v7, to);
        assert_int_equal(rc, 0);
    }
    return own_done(to, 1000 + lost);
}

static void any_member_comes_back_from_the_xor_and_the_others(void **state)
{
    struct set s;

    set_up(&s, 1);
    save(&s, v7);
    for (unsigned lost = 0; lost < N; lost++) {
        unsigned have[N], n = 0;

        for (unsigned i = 0; i < N + 1; i++)
            if (i != lost)
                have[n++] = i;
        assert_int_equal(rebuild(&s, &s.spare, lost, have), 0);
        assert_same(&s, &s.spare, (int)lost);
    }
    set_down(&s);
}

static void two_members_come_back_from_two_shards(void **state)
{
    static const unsigned have[N] = {1, 3, 4};
    struct set s;

    set_up(&s, 2);
    save(&s, v7);
    assert_int_equal(rebuild(&s, &s.spare, 0, have), 0);
    assert_int_equal(rebuild(&s, &s.spare, 2, have), 0);
    assert_same(&s, &s.spare, 0);
    assert_same(&s, &s.spare, 2);
    set_down(&s);
}

static void a_holder_may_rebuild_with_its_own_shard(void **state)
{
    static const unsigned have[N] = {1, 2, 3};
    struct set s;

    set_up(&s, 1);
    save(&s, v7);
    assert_int_equal(rebuild(&s, &s.holder[0], 0, have), 0);
    assert_same(&s, &s.holder[0], 0);
    set_down(&s);
}

/* Its worker runs: the agent hears of it, which marks the slot. */
static void a_rank_that_runs_there_gets_its_own_slot_back(void **state)
{
    static const unsigned have[N] = {1, 2, 3};
    struct dlr_slot *other;
    struct dlr_local_msg msg;
    char terms[256];
    struct set s;

    set_up(&s, 1);
    save(&s, v7);
    rig_config_own(&s.spare, ROUND, RIG_TOKEN, "[]", "[0]");
    assert_int_equal(rig_reserve(&s.spare, 0, s.room), 0);
    other = rig_slot(&s.spare, 0, 1);
    assert_true(dlr_slot_take(other)); /* by the worker: it fills the next save's */
    say_terms(&s, 0, have, terms, sizeof(terms));
    order_sum(&s.spare, 0, v7, 5, terms);
    assert_true(rig_alive(&s.spare)); /* it knows the order */
    assert_int_equal(dlr_slot_state(other), DLR_SLOT_OPEN);
    assert_int_equal(send_to(&s, &s.members, 1, v7, &s.spare), 0);
    assert_int_equal(send_to(&s, &s.members, 2, v7, &s.spare), 0);
    assert_int_equal(send_to(&s, &s.holder[0], WORLD, v7, &s.spare), 0);
    rig_await(&s.spare, DLR_LOCAL_D_COPIED, &msg);
    assert_int_equal(msg.rank, 0);
    assert_int_equal(msg.arg[0], v7.round);
    assert_int_equal(msg.step, v7.step);
    assert_int_equal(rig_done(&s.spare, 5, NULL, 0), 0);
    assert_same(&s, &s.spare, 0);
    assert_int_equal(dlr_slot_state(other), DLR_SLOT_OPEN);
    dlr_slot_unmap(other);
    set_down(&s);
}

/* A supervisor's orders go to each node by itself, and the receiver's may be the last.
 */
static void parts_that_are_sent_before_the_order_wait_for_it(void **state)
{
    static const unsigned have[N] = {1, 2, 3};
    char terms[256];
    struct set s;

    set_up(&s, 1);
    save(&s, v7);
    for (int32_t rank = 1; rank <= 2; rank++)
        rig_order(&s.members, DLR_LOCAL_D_SEND, ROUND, rank, v7, (uint64_t)rank,
                  s.spare.address);
    rig_order(&s.holder[0], DLR_LOCAL_D_SEND, ROUND, WORLD, v7, 3, s.spare.address);
    assert_true(rig_silent(&s.members, 100)); /* none was refused */
    say_terms(&s, 0, have, terms, sizeof(terms));
    order_sum(&s.spare, 0, v7, 5, terms);
    assert_int_equal(rig_reserve(&s.spare, 0, s.room), 0);
    assert_int_equal(rig_done(&s.spare, 5, NULL, 0), 0);
    assert_same(&s, &s.spare, 0);
    set_down(&s);
}

static void what_does_not_fit_together_makes_nothing(void **state)
{
    struct set s;

    set_up(&s, 1);
    save(&s, v7);
    order_sum(&s.spare, 0, v7, 5, "1*1 2*3 64*1"); /* a wrong factor */
    assert_int_equal(rig_reserve(&s.spare, 0, s.room), 0);
    assert_int_equal(send_to(&s, &s.members, 1, v7, &s.spare), 0);
    assert_int_equal(send_to(&s, &s.members, 2, v7, &s.spare), 0);
    assert_int_equal(send_to(&s, &s.holder[0], 64, v7, &s.spare), 0);
    assert_int_not_equal(rig_done(&s.spare, 5, NULL, 0), 0);
    assert_null(slot_of(&s.spare, 0, v7));
    set_down(&s);
}

static void a_sum_that_is_aborted_leaves_its_slot_to_the_next(void **state)
{
    struct set s;

    set_up(&s, 1);
    save(&s, v7);
    rig_order(&s.holder[0], DLR_LOCAL_D_COMMIT, ROUND, -1, v7, 0, "");
    for (unsigned step = 8; step < 11; step++) {
        struct dlr_version v = {ROUND, step};

        for (unsigned i = 0; i < N; i++) {
            struct dlr_slot *slot = rig_slot(&s.members, (int)i, 1);

            rig_snapshot(slot, (int)i, v, bytes_of[i]);
            dlr_slot_unmap(slot);
        }
        if (step == 10) {
            save(&s, v);
            break;
        }
        assert_int_equal(send_to(&s, &s.members, 0, v, &s.holder[0]), 0);
        rig_order(&s.holder[0], DLR_LOCAL_D_ABORT, ROUND, -1, v, 0, "");
    }
    set_down(&s);
}

/* Rank 2 of 64 is made to be read where two ranks now have their shard, number 2. */
static void a_rank_that_is_no_more_is_made_beside_the_shard_of_its_number(void **state)
{
    static const struct dlr_version every = {UINT32_MAX, 0}, v8 = {ROUND + 1, 8};
    struct dlr_slot *slot, *was;
    struct rig_data *home;
    struct dlr_local_msg msg;
    struct set s;

    set_up(&s, 1);
    save(&s, v7);
    home = &s.holder[0];
    s.round = ROUND + 1;
    rig_config(&s.members, s.round, RIG_TOKEN, "[]");
    rig_config_resized(home, s.round, RIG_TOKEN, "[]", "[1,2]");
    rig_order(home, DLR_LOCAL_D_PARITY, s.round, 2, every, 0, "2 0*1 1*1");
    rig_order(home, DLR_LOCAL_D_PARITY, s.round, 2, v7, 1002, "64 0*1 1*1 64*1");
    assert_int_equal(rig_reserve_fetched(home, 2, s.room), 0);
    assert_int_equal(rig_reserve(home, 2, s.room), 0);
    assert_int_equal(send_to(&s, &s.members, 0, v7, home), 0);
    assert_int_equal(send_to(&s, &s.members, 1, v7, home), 0);
    rig_order(home, DLR_LOCAL_D_SEND, s.round, WORLD, v7, 2000, home->address);
    assert_int_equal(own_done(home, 1002), 0);
    slot = rig_slot(home, 2, DLR_STORE_FETCHED);
    was = slot_of(&s.members, 2, v7);
    assert_int_equal(dlr_slot_state(slot), DLR_SLOT_SEALED);
    assert_int_equal(dlr_slot_verify(slot, NULL), 0);
    assert_true(rig_same(was, slot));
    dlr_slot_unmap(was);
    dlr_slot_unmap(slot);
    /* What one of the former ranks has is no part of the new shard, */
    assert_int_equal(rig_reserve_fetched(home, 1, s.room), 0);
    assert_int_equal(send_to(&s, &s.members, 1, v7, home), 0);
    slot = rig_slot(home, 1, DLR_STORE_FETCHED);
    assert_int_equal(dlr_slot_state(slot), DLR_SLOT_SEALED);
    dlr_slot_unmap(slot);
    /* which goes on. */
    for (int32_t r = 0; r < 2; r++) {
        slot = rig_slot(&s.members, r, 1);
        rig_snapshot(slot, r, v8, bytes_of[r]);
        dlr_slot_unmap(slot);
        assert_int_equal(send_to(&s, &s.members, r, v8, home), 0);
    }
    for (int32_t r = 0; r < 2; r++) {
        rig_await(home, DLR_LOCAL_D_COPIED, &msg);
        assert_int_equal(msg.rank, r);
        assert_int_equal(msg.step, 8);
    }
    set_down(&s);
}

static void a_member_that_nobody_asked_for_is_refused(void **state)
{
    struct set s;

    set_up(&s, 1);
    assert_int_not_equal(send_to(&s, &s.members, 0, v7, &s.spare), 0);
    set_down(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_member_comes_back_from_the_xor_and_the_others),
        cmocka_unit_test(two_members_come_back_from_two_shards),
        cmocka_unit_test(a_holder_may_rebuild_with_its_own_shard),
        cmocka_unit_test(a_rank_that_runs_there_gets_its_own_slot_back),
        cmocka_unit_test(parts_that_are_sent_before_the_order_wait_for_it),
        cmocka_unit_test(what_does_not_fit_together_makes_nothing),
        cmocka_unit_test(a_sum_that_is_aborted_leaves_its_slot_to_the_next),
        cmocka_unit_test(a_rank_that_is_no_more_is_made_beside_the_shard_of_its_number),
        cmocka_unit_test(a_member_that_nobody_asked_for_is_refused),
    };

    return cmocka_run_group_tests_name("data_sum", tests, NULL, NULL);
}
