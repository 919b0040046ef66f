/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-data */
/* What happens to dlrover-data processes in the middle of a copy: they die, fall
 * silent, are started again, or find another snapshot than the one that they began
 * with.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "ckpt/slot/meta.h"
#include "common/base/clock.h"
#include "tests/unit/ckpt/stream/data_pair.h"

static const struct dlr_version v7 = {ROUND, 7}, v8 = {ROUND, 8};

/* Whether the receiver, which stands still, lacks more of v7 than may be on its way. */
static bool far_from_whole(const struct pair *p)
{
    size_t bytes;
    uint32_t crc;
    void *data;

    assert_int_equal(
        dlr_slot_block(p->src, p->data / DLR_SLOT_BLOCK / 2, &data, &bytes, &crc), 0);
    for (unsigned k = 0; k < 2; k++) {
        size_t at = (size_t)((char *)data - (char *)dlr_slot_base(p->src));

        if (memcmp((char *)dlr_slot_base(p->dst[k]) + at, data, bytes) == 0)
            return false;
    }
    return true;
}

/* Stops the receiver; false, and it goes on, when it was too late for that. */
static bool freeze_receiver(struct pair *p)
{
    siginfo_t info;

    kill(p->to.pid, SIGSTOP);
    assert_int_equal(
        waitid(P_PID, (id_t)p->to.pid, &info, WSTOPPED | WEXITED | WNOWAIT), 0);
    if (!pair_any_whole(p) && far_from_whole(p))
        return true;
    kill(p->to.pid, SIGCONT);
    return false;
}

static void blank(struct pair *p)
{
    for (unsigned k = 0; k < 2; k++)
        memset((char *)dlr_slot_base(p->dst[k]) + DLR_SLOT_BLOCK, 0,
               p->data - DLR_SLOT_BLOCK);
}

static bool is_filled(const struct dlr_slot *slot)
{
    return dlr_slot_state(slot) == DLR_SLOT_OPEN ||
           dlr_slot_state(slot) == DLR_SLOT_COPYING;
}

/* Sends v7 and returns in the middle of it, with a receiver that is stopped: begins
 * anew when it was too quick for us.
 */
static void send_and_catch(struct pair *p)
{
    struct dlr_version none = {UINT32_MAX, UINT64_MAX};

    for (unsigned i = 0; i < 20; i++) {
        int64_t limit = dlr_now_ms() + RIG_ANSWER_MS;

        pair_send(p, v7, 1);
        while (!pair_any_whole(p)) {
            if ((is_filled(p->dst[0]) || is_filled(p->dst[1])) && freeze_receiver(p))
                return;
            assert_true(dlr_now_ms() < limit);
        }
        assert_int_equal(rig_done(&p->from, 1, NULL, 0), 0);
        rig_order(&p->to, DLR_LOCAL_D_DROP, ROUND, -1, none, 0, "");
        pair_settle(&p->to);
        blank(p);
    }
    fail_msg("it was always too quick");
}

/* Its head, and its region table, which no block needs. */
static void a_meta_block_that_changes_while_blocks_come_is_not_sealed(void **state)
{
    static const unsigned at[] = {57, 128 + 10};

    for (unsigned i = 0; i < 2; i++) {
        struct pair p;

        pair_up(&p, 128 * MIB, NULL);
        send_and_catch(&p);
        for (unsigned k = 0; k < 2; k++)
            if (dlr_slot_state(p.dst[k]) == DLR_SLOT_OPEN)
                ((unsigned char *)dlr_slot_base(p.dst[k]))[DLR_SLOT_PAGE + at[i]] ^= 1;
        kill(p.to.pid, SIGCONT);
        assert_int_not_equal(rig_done(&p.from, 1, NULL, 0), 0);
        assert_false(pair_any_whole(&p));
        pair_send(&p, v7, 2);
        assert_int_equal(rig_done(&p.from, 2, NULL, 0), 0);
        pair_expect_copy(&p, p.src);
        pair_down(&p);
    }
}

/* Of a rank that runs there: its worker would fill the same slot. */
static void no_worker_takes_a_slot_that_a_copy_comes_to(void **state)
{
    struct pair p;
    unsigned other;

    pair_up(&p, 128 * MIB, NULL);
    rig_config_own(&p.to, ROUND, RIG_TOKEN, "[3]", "[3]");
    send_and_catch(&p);
    other = dlr_slot_take(p.dst[0]) ? 0 : 1;
    assert_true(other == 0 || dlr_slot_take(p.dst[1]));
    assert_false(dlr_slot_take(p.dst[1 - other]));
    /* Nor does the agent bury it as one that a worker left. */
    assert_int_equal(dlr_slot_state(p.dst[1 - other]), DLR_SLOT_COPYING);
    dlr_slot_set_state(p.dst[other], DLR_SLOT_FREE);
    kill(p.to.pid, SIGCONT);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), 0);
    pair_expect_copy(&p, p.src);
    pair_down(&p);
}

/* As a supervisor does that took over. */
static void a_copy_that_is_asked_for_again_goes_on(void **state)
{
    struct pair p;

    pair_up(&p, 128 * MIB, NULL);
    send_and_catch(&p);
    pair_send(&p, v7, 2);
    kill(p.to.pid, SIGCONT);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), ECANCELED);
    assert_int_equal(rig_done(&p.from, 2, NULL, 0), 0);
    pair_expect_copy(&p, p.src);
    for (unsigned k = 0; k < 2; k++) /* it did not begin anew in the other slot */
        assert_int_not_equal(dlr_slot_state(p.dst[k]), DLR_SLOT_DEAD);
    pair_down(&p);
}

static void a_killed_receiver_ends_the_transfer(void **state)
{
    struct pair p;

    pair_up(&p, 128 * MIB, NULL);
    send_and_catch(&p);
    rig_kill(&p.to);
    assert_int_not_equal(rig_done(&p.from, 1, NULL, 0), 0);
    pair_down(&p);
}

/* The peer says nothing more and its kernel keeps the connection: what a dead node is.
 */
static void a_silent_receiver_is_left_at_the_next_round(void **state)
{
    struct pair p;

    pair_up(&p, 128 * MIB, NULL);
    send_and_catch(&p);
    assert_true(rig_silent(&p.from, 200));
    rig_config(&p.from, ROUND + 1, RIG_TOKEN, "[]");
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), ECANCELED);
    kill(p.to.pid, SIGCONT);
    pair_down(&p);
}

/* A sender that died, or that thaws when its round is over: the slot is never whole and
 * is used again, and nothing of the old transfer gets into it.
 */
static void a_lost_sender_leaves_the_slot_usable(void **state)
{
    struct rig_data other;
    struct dlr_slot *slot;
    struct pair p;

    for (unsigned freeze = 0; freeze < 2; freeze++) {
        pair_up(&p, 128 * MIB, NULL);
        send_and_catch(&p);
        if (freeze)
            kill(p.from.pid, SIGSTOP);
        else
            rig_kill(&p.from);
        kill(p.to.pid, SIGCONT);
        rig_config(&p.to, ROUND + 1, RIG_TOKEN, "[3]");
        rig_start(&other, NULL, NULL);
        rig_config(&other, ROUND + 1, RIG_TOKEN, "[]");
        assert_int_equal(rig_reserve(&other, RANK, rig_slot_bytes(p.data)), 0);
        slot = rig_slot(&other, RANK, 0);
        rig_snapshot(slot, RANK, v8, p.data);
        assert_false(pair_any_whole(&p));
        rig_order(&other, DLR_LOCAL_D_SEND, ROUND + 1, RANK, v8, 2, p.to.address);
        assert_int_equal(rig_done(&other, 2, NULL, 0), 0);
        if (freeze) {
            kill(p.from.pid, SIGCONT);
            rig_config(&p.from, ROUND + 1, RIG_TOKEN, "[]");
            assert_int_not_equal(rig_done(&p.from, 1, NULL, 0), 0);
        }
        pair_expect_copy(&p, slot);
        dlr_slot_unmap(slot);
        rig_end(&other);
        rig_remove(&other);
        pair_down(&p);
    }
}

static void a_restarted_process_adopts_its_slots(void **state)
{
    struct pair p;

    pair_up(&p, 4 * MIB, NULL);
    dlr_slot_set_state(p.dst[0], DLR_SLOT_OPEN); /* half received when it died */
    rig_kill(&p.from);
    rig_kill(&p.to);
    rig_start(&p.from, p.from.dir, NULL);
    rig_start(&p.to, p.to.dir, NULL);
    rig_config(&p.from, ROUND, RIG_TOKEN, "[]");
    rig_config(&p.to, ROUND, RIG_TOKEN, "[3]");
    assert_int_equal(rig_reserve(&p.to, RANK, rig_slot_bytes(p.data)), 0);
    assert_int_equal(dlr_slot_state(p.dst[0]), DLR_SLOT_DEAD);
    pair_send(&p, v7, 1);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), 0);
    pair_expect_copy(&p, p.src);
    pair_down(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_meta_block_that_changes_while_blocks_come_is_not_sealed),
        cmocka_unit_test(no_worker_takes_a_slot_that_a_copy_comes_to),
        cmocka_unit_test(a_copy_that_is_asked_for_again_goes_on),
        cmocka_unit_test(a_killed_receiver_ends_the_transfer),
        cmocka_unit_test(a_silent_receiver_is_left_at_the_next_round),
        cmocka_unit_test(a_lost_sender_leaves_the_slot_usable),
        cmocka_unit_test(a_restarted_process_adopts_its_slots),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    setenv("UCX_TLS", "tcp,self", 1); /* shared memory would hide the network */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
