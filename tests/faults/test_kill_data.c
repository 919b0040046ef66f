/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/slot,common/local needs=dlrover-data,tests/stepped-data */
/* A data process killed at every step of a transfer and of the commit that follows it,
 * the receiver and the sender in turn: the committed copy stays whole until the next
 * one is committed, a whole copy has the source's bytes, and the process that is
 * started in its place goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/faults/kill_data.h"

#define RANK 3
#define ROUND 5
#define DATA (UINT64_C(5) << 19) /* three blocks, the last half as long */

struct link {
    struct rig_data from, to;
    struct kill_data kill;
    bool kill_receiver;
    struct dlr_slot *src[2], *dst[2];
    /* committed at the receiver; the next one is in the other slot of src */
    uint64_t step;
    uint64_t id;
};

static struct dlr_version version(uint64_t step)
{
    return (struct dlr_version){ROUND, step};
}

static struct rig_data *victim(struct link *l)
{
    return l->kill_receiver ? &l->to : &l->from;
}

static struct dlr_slot *source(struct link *l, uint64_t step)
{
    return l->src[step % 2];
}

/* The worker's snapshot of the next step, unless it is there. */
static void make_next(struct link *l)
{
    struct dlr_slot *slot = source(l, l->step + 1);
    struct dlr_slot_info info;

    if (dlr_slot_state(slot) != DLR_SLOT_SEALED || dlr_slot_info(slot, &info) < 0 ||
        info.version.step != l->step + 1)
        rig_snapshot(slot, RANK, version(l->step + 1), DATA);
}

/* The victim is built to be killed; it can be started again in its directory. */
static void start(struct link *l, struct rig_data *p, const char *dir)
{
    if (p == victim(l))
        kill_data_start(&l->kill, p, dir);
    else
        rig_start(p, dir, NULL);
    rig_config(p, ROUND, RIG_TOKEN, p == &l->to ? "[3]" : "[]");
    assert_int_equal(rig_reserve(p, RANK, rig_slot_bytes(DATA)), 0);
}

/* The receiver's copy of step, with the source's bytes; NULL: none that is whole. */
static struct dlr_slot *copy_of(struct link *l, uint64_t step)
{
    for (unsigned k = 0; k < 2; k++) {
        enum dlr_slot_state state = dlr_slot_state(l->dst[k]);
        struct dlr_slot_info info;

        if ((state != DLR_SLOT_SEALED && state != DLR_SLOT_COMMITTED) ||
            dlr_slot_info(l->dst[k], &info) < 0 || info.version.step != step)
            continue;
        if (!rig_same(l->dst[k], source(l, step)))
            fail_msg("the copy of step %d has other bytes", (int)step);
        return l->dst[k];
    }
    return NULL;
}

/* Sends the next version; 0 when the sender says that it is there, -1 when it is dead.
 */
static int send_next(struct link *l)
{
    rig_order(&l->from, DLR_LOCAL_D_SEND, ROUND, RANK, version(l->step + 1), ++l->id,
              l->to.address);
    return rig_done_or_dead(&l->from, l->id);
}

static void commit(struct link *l, struct rig_data *p)
{
    rig_order(p, DLR_LOCAL_D_COMMIT, ROUND, -1, version(l->step), 0, "");
    rig_alive(p);
}

/* A transfer and, when it went well, its commit on both sides. */
static bool transfer(void *arg)
{
    struct link *l = arg;

    if (send_next(l) != 0)
        return false;
    l->step++;
    commit(l, &l->from);
    commit(l, &l->to);
    return true;
}

static void ready(void *arg)
{
    make_next(arg);
}

/* UCX 1.13 may end the other process by an assertion of its own (tcp_iface.c) when a
 * peer dies while it connects; an agent starts it again then. False: it lives.
 */
static bool revive_other(struct link *l)
{
    struct rig_data *p = l->kill_receiver ? &l->from : &l->to;

    if (rig_alive(p))
        return false;
    rig_kill(p);
    start(l, p, p->dir);
    make_next(l);
    return true;
}

/* After a kill: what is there, and that it goes on. */
static void go_on(void *arg)
{
    struct link *l = arg;
    struct rig_data *p = victim(l);

    assert_non_null(copy_of(l, l->step));
    copy_of(l, l->step + 1);
    start(l, p, p->dir);
    commit(l, p);
    assert_non_null(copy_of(l, l->step));
    make_next(l);
    assert_true(transfer(l) || (revive_other(l) && transfer(l)));
    assert_int_equal(dlr_slot_state(copy_of(l, l->step)), DLR_SLOT_COMMITTED);
    make_next(l);
}

static void bring_up(struct link *l)
{
    kill_data_init(&l->kill, "stepped-data");
    start(l, &l->from, NULL);
    start(l, &l->to, NULL);
    for (unsigned k = 0; k < 2; k++) {
        l->src[k] = rig_slot(&l->from, RANK, k);
        l->dst[k] = rig_slot(&l->to, RANK, k);
    }
    l->step = 1;
    make_next(l);
    assert_true(transfer(l));
    make_next(l);
}

static void take_down(struct link *l)
{
    for (unsigned k = 0; k < 2; k++) {
        dlr_slot_unmap(l->src[k]);
        dlr_slot_unmap(l->dst[k]);
    }
    rig_end(&l->from);
    rig_end(&l->to);
    rig_remove(&l->from);
    rig_remove(&l->to);
    kill_data_done(&l->kill);
}

static const struct kill_data_ops steps = {transfer, go_on, ready};

static void the_receiver(void **state)
{
    struct link l = {.kill_receiver = true};

    bring_up(&l);
    assert_true(kill_data_each(victim(&l), &steps, &l) > 0);
    take_down(&l);
}

static void the_sender(void **state)
{
    struct link l = {.kill_receiver = false};

    bring_up(&l);
    assert_true(kill_data_each(victim(&l), &steps, &l) > 0);
    take_down(&l);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_receiver),
        cmocka_unit_test(the_sender),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    setenv("UCX_TLS", "tcp,self", 1); /* shared memory would hide the network */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
