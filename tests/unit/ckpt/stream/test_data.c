/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-data */
/* Two or three dlrover-data processes on this host, over UCX's TCP, and this program in
 * the role of their agents; test_data_midway.c has what comes in between.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ckpt/slot/meta.h"
#include "common/base/clock.h"
#include "common/base/str.h"
#include "tests/support/flip.h"
#include "tests/unit/ckpt/stream/data_pair.h"

static const struct dlr_version v7 = {ROUND, 7}, v8 = {ROUND, 8};

static void a_copy_is_bit_equal_and_told(void **state)
{
    struct dlr_local_msg msg;
    struct pair p;

    pair_up(&p, 64 * MIB + 12345, NULL);
    pair_send(&p, v7, 11);
    assert_int_equal(rig_done(&p.from, 11, NULL, 0), 0);
    rig_await(&p.to, DLR_LOCAL_D_COPIED, &msg);
    assert_int_equal(msg.rank, RANK);
    assert_int_equal(msg.step, 7);
    assert_int_equal(msg.arg[0], ROUND);
    assert_true(msg.arg[1] >= p.data && msg.arg[2] > 0);
    pair_expect_copy(&p, p.src);
    pair_send(&p, v7, 12); /* once more: it is there */
    assert_int_equal(rig_done(&p.from, 12, NULL, 0), 0);
    rig_await(&p.to, DLR_LOCAL_D_COPIED, &msg);
    pair_down(&p);
}

static void a_new_copy_waits_for_the_decision_about_the_old(void **state)
{
    struct dlr_slot *src8;
    struct pair p;

    pair_up(&p, 2 * MIB, NULL);
    rig_snapshot(p.dst[0], RANK, (struct dlr_version){ROUND, 5}, p.data);
    rig_snapshot(p.dst[1], RANK, (struct dlr_version){ROUND, 6}, p.data);
    pair_send(&p, v7, 1);
    assert_true(rig_silent(&p.from, 100)); /* both slots are undecided */
    rig_order(&p.to, DLR_LOCAL_D_COMMIT, ROUND, -1, (struct dlr_version){ROUND, 6}, 0,
              "");
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), 0);
    assert_int_equal(dlr_slot_state(p.dst[1]), DLR_SLOT_COMMITTED);
    src8 = rig_slot(&p.from, RANK, 1);
    rig_snapshot(src8, RANK, v8, p.data);
    pair_send(&p, v8, 2);
    assert_true(rig_silent(&p.from, 100)); /* one committed, one undecided */
    rig_order(&p.to, DLR_LOCAL_D_ABORT, ROUND, -1, v7, 0, "");
    assert_int_equal(rig_done(&p.from, 2, NULL, 0), 0);
    pair_expect_copy(&p, src8);
    assert_int_equal(dlr_slot_state(p.dst[1]), DLR_SLOT_COMMITTED);
    dlr_slot_unmap(src8);
    pair_down(&p);
}

static void a_full_receiver_refuses_after_its_limit(void **state)
{
    struct pair p;

    pair_up(&p, MIB, "--answer-timeout=200ms");
    rig_snapshot(p.dst[0], RANK, (struct dlr_version){ROUND, 5}, p.data);
    rig_snapshot(p.dst[1], RANK, (struct dlr_version){ROUND, 6}, p.data);
    pair_send(&p, v7, 1);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), EBUSY);
    pair_down(&p);
}

static void strangers_are_refused(void **state)
{
    const struct {
        const char *what, *token, *accept;
        uint32_t round;
        int want;
    } rows[] = {
        /* sealed, there is no connection on which to say why */
        {"token", "00112233445566778899aabbccddee00", "[3]", ROUND,
         dlr_streq(getenv(RIG_TRANSPORT), "ucx") ? EACCES : ESTALE},
        {"older round", RIG_TOKEN, "[3]", ROUND + 1, ESTALE},
        {"receiver behind", RIG_TOKEN, "[3]", ROUND - 1, ESTALE},
        {"rank", RIG_TOKEN, "[1,2,4]", ROUND, ESTALE},
    };
    struct pair p;

    pair_up(&p, MIB, "--answer-timeout=200ms");
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char why[256];
        int got;

        rig_config(&p.to, rows[i].round, rows[i].token, rows[i].accept);
        pair_settle(&p.to);
        pair_send(&p, v7, i);
        got = rig_done(&p.from, i, why, sizeof(why));
        if (got != rows[i].want)
            fail_msg("%s: not refused as it should be: %d, %s", rows[i].what, got, why);
        assert_false(pair_any_whole(&p));
    }
    pair_down(&p);
}

static void a_paced_copy_takes_its_time_and_is_whole(void **state)
{
    struct dlr_local_msg msg;
    struct pair p;
    int64_t began;

    pair_up(&p, 8 * MIB, NULL);
    dlr_local_init(&msg, DLR_LOCAL_D_PACE);
    msg.arg[0] = 20 * MIB;
    assert_int_equal(dlr_local_send(p.from.fd, &msg, NULL, 0), 0);
    began = dlr_now_ms();
    rig_send_save(&p.from, ROUND, RANK, v7, 1, p.to.address);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), 0);
    assert_true(dlr_now_ms() - began >=
                300); /* 8 MiB less what the bucket and one piece hold */
    pair_expect_copy(&p, p.src);
    pair_down(&p);
}

/* Another rank's copy, which does not wait for anything, overtakes it. */
static void a_saves_copy_waits_while_a_slot_of_its_node_is_filled(void **state)
{
    struct dlr_slot *filled, *other;
    struct dlr_local_msg msg;
    struct pair p;

    pair_up(&p, MIB, "--fill-limit=60s");
    assert_int_equal(rig_reserve(&p.from, RANK - 1, rig_slot_bytes(MIB)), 0);
    assert_int_equal(rig_reserve(&p.to, RANK - 1, rig_slot_bytes(MIB)), 0);
    other = rig_slot(&p.from, RANK - 1, 0);
    rig_snapshot(other, RANK - 1, v7, MIB);
    filled = rig_slot(&p.from, RANK, 1);
    assert_true(dlr_slot_take(filled)); /* as the rank's worker does */
    rig_send_save(&p.from, ROUND, RANK, v7, 1, p.to.address);
    rig_order(&p.from, DLR_LOCAL_D_SEND, ROUND, RANK - 1, v7, 2, p.to.address);
    rig_await(&p.from, DLR_LOCAL_D_DONE, &msg);
    assert_int_equal(msg.arg[1], 2);
    assert_int_equal(msg.arg[2], 0);
    dlr_slot_set_state(filled, DLR_SLOT_DEAD);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), 0);
    pair_expect_copy(&p, p.src);
    dlr_slot_unmap(filled);
    dlr_slot_unmap(other);
    pair_down(&p);
}

static void a_saves_copy_does_not_wait_for_a_rank_that_died_in_its_fill(void **state)
{
    struct dlr_slot *filled;
    struct pair p;

    pair_up(&p, MIB, "--fill-limit=50ms");
    filled = rig_slot(&p.from, RANK, 1);
    assert_true(dlr_slot_take(filled));
    rig_send_save(&p.from, ROUND, RANK, v7, 1, p.to.address);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), 0);
    pair_expect_copy(&p, p.src);
    dlr_slot_unmap(filled);
    pair_down(&p);
}

static char task_state(pid_t pid, int tid)
{
    char path[64], state;
    FILE *f;

    dlr_format(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, tid);
    f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
    fclose(f);
    return state;
}

/* CPU time of the process's threads of idle priority, in ns; 0: one of them is not at
 * rest.
 */
static uint64_t ran_idle(pid_t pid)
{
    char path[64];
    struct dirent *e;
    uint64_t all = 0, ns;
    bool rests = true;
    DIR *dir;

    dlr_format(path, sizeof(path), "/proc/%d/task", (int)pid);
    dir = opendir(path);
    assert_non_null(dir);
    while ((e = readdir(dir))) {
        int tid = atoi(e->d_name);
        FILE *f;

        if (tid <= 0 || sched_getscheduler(tid) != SCHED_IDLE)
            continue;
        dlr_format(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)pid, tid);
        f = fopen(path, "re");
        assert_non_null(f);
        assert_int_equal(fscanf(f, "%" SCNu64, &ns), 1);
        fclose(f);
        rests = rests && task_state(pid, tid) == 'S';
        all += ns;
    }
    closedir(dir);
    return rests ? all : 0;
}

static void only_what_no_restart_waits_for_is_moved_at_idle_priority(void **state)
{
    struct pair p;
    uint64_t before;

    pair_up(&p, MIB, NULL);
    while ((before = ran_idle(p.from.pid)) == 0)
        sched_yield(); /* until it is there, and has begun to wait */
    pair_send(&p, v7, 1);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), 0);
    assert_int_equal(ran_idle(p.from.pid), before);
    rig_send_save(&p.from, ROUND, RANK, v7, 2, p.to.address);
    assert_int_equal(rig_done(&p.from, 2, NULL, 0), 0);
    assert_true(ran_idle(p.from.pid) != before); /* more, or it is at work still */
    pair_down(&p);
}

static void a_receiver_that_hears_of_the_round_later_takes_it(void **state)
{
    struct pair p;

    pair_up(&p, MIB, NULL);
    rig_config(&p.to, ROUND - 1, "ffffffffffffffffffffffffffffffff", "[3]");
    pair_settle(&p.to);
    pair_send(&p, v7, 1);
    assert_true(rig_silent(&p.from, 100));
    rig_config(&p.to, ROUND, RIG_TOKEN, "[3]");
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), 0);
    pair_expect_copy(&p, p.src);
    pair_down(&p);
}

static void a_snapshot_too_large_for_the_slot_is_refused(void **state)
{
    struct rig_data small;
    struct pair p;

    pair_up(&p, 4 * MIB, NULL);
    rig_start(&small, NULL, NULL);
    rig_config(&small, ROUND, RIG_TOKEN, "[3]");
    assert_int_equal(rig_reserve(&small, RANK, rig_slot_bytes(MIB)), 0);
    rig_order(&p.from, DLR_LOCAL_D_SEND, ROUND, RANK, v7, 1, small.address);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), EBADMSG);
    rig_end(&small);
    rig_remove(&small);
    pair_down(&p);
}

static void damaged_data_never_becomes_whole(const char *option)
{
    unsigned char *data;
    size_t bytes;
    uint32_t crc;
    void *at;
    struct pair p;

    pair_up(&p, 8 * MIB, option);
    assert_int_equal(dlr_slot_block(p.src, 5, &at, &bytes, &crc), 0);
    data = at;
    data[777] ^= 4;
    pair_send(&p, v7, 1);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), EBADMSG);
    assert_false(pair_any_whole(&p));
    data[777] ^= 4;
    pair_send(&p, v7, 2); /* its slot is free again */
    assert_int_equal(rig_done(&p.from, 2, NULL, 0), 0);
    pair_expect_copy(&p, p.src);
    pair_down(&p);
}

static void the_networks_thread_lets_nothing_damaged_become_whole(void **state)
{
    damaged_data_never_becomes_whole("--full-core=100");
}

static void threads_that_check_let_nothing_damaged_become_whole(void **state)
{
    damaged_data_never_becomes_whole("--full-core=0");
}

static void a_file_gives_back_what_was_saved(void **state)
{
    char path[128], why[256];
    struct pair p;

    pair_up(&p, 3 * MIB + 99, NULL);
    dlr_format(path, sizeof(path), "%s/saved.safetensors", p.from.dir);
    rig_order(&p.from, DLR_LOCAL_D_SAVE, ROUND, RANK, v7, 1, path);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), 0);
    rig_order(&p.from, DLR_LOCAL_D_SAVE, ROUND, RANK, v8, 2, path);
    assert_int_equal(rig_done(&p.from, 2, NULL, 0), ENOENT);

    flip_bit(p.from.dir, "saved.safetensors", 2 * MIB);
    rig_order(&p.to, DLR_LOCAL_D_LOAD, ROUND, RANK, v7, 3, path);
    assert_int_equal(rig_done(&p.to, 3, why, sizeof(why)), EBADMSG);
    assert_string_equal(why, "block 1 of 4 is corrupt: Bad message");
    assert_false(pair_any_whole(&p));
    flip_bit(p.from.dir, "saved.safetensors", 2 * MIB);

    rig_order(&p.to, DLR_LOCAL_D_LOAD, ROUND, RANK, v8, 4, path);
    assert_int_equal(rig_done(&p.to, 4, NULL, 0), EBADMSG); /* another version */
    rig_order(&p.to, DLR_LOCAL_D_LOAD, ROUND, RANK, v7, 5, path);
    assert_int_equal(rig_done(&p.to, 5, NULL, 0), 0);
    pair_expect_copy(&p, p.src);
    unlink(path);
    pair_down(&p);
}

/* Ranks 3, 5 and 4 of a node into one file, in this order. */
static const int32_t shared[] = {RANK, 5, 4};
#define SHARED (sizeof(shared) / sizeof(*shared))

/* The answers may come in any order. */
static void save_shared(struct pair *p, const char *path, const int want[SHARED])
{
    static uint64_t id = 100;
    struct dlr_local_msg msg;

    for (unsigned i = 0; i < SHARED; i++)
        rig_save(&p->from, ROUND, shared[i], v7, id + i, path,
                 (unsigned)(SHARED - 1 - i));
    for (unsigned i = 0; i < SHARED; i++) {
        rig_await(&p->from, DLR_LOCAL_D_DONE, &msg);
        assert_in_range(msg.arg[1], id, id + SHARED - 1);
        assert_int_equal(msg.arg[2], want[msg.arg[1] - id]);
        assert_int_equal(msg.rank, shared[msg.arg[1] - id]);
    }
    id += SHARED;
}

static void ranks_of_a_node_share_a_file(void **state)
{
    static const int fine[SHARED] = {0}, spoilt[SHARED] = {EBADMSG, 0, 0};
    struct dlr_slot *slots[SHARED];
    char path[128];
    struct pair p;

    pair_up(&p, 3 * MIB + 99, NULL);
    dlr_format(path, sizeof(path), "%s/node.safetensors", p.from.dir);
    slots[0] = p.src;
    for (unsigned i = 1; i < SHARED; i++) {
        assert_int_equal(
            rig_reserve(&p.from, shared[i], rig_slot_bytes(i * MIB + 1000)), 0);
        slots[i] = rig_slot(&p.from, shared[i], 0);
        rig_snapshot(slots[i], shared[i], v7, i * MIB + 1000);
    }
    save_shared(&p, path, fine);
    rig_order(&p.to, DLR_LOCAL_D_LOAD, ROUND, RANK, v7, 1, path);
    assert_int_equal(rig_done(&p.to, 1, NULL, 0), 0);
    pair_expect_copy(&p, p.src);
    assert_int_equal(rig_reserve(&p.to, 4, rig_slot_bytes(2 * MIB + 1000)), 0);
    rig_order(&p.to, DLR_LOCAL_D_LOAD, ROUND, 4, v7, 2, path);
    assert_int_equal(rig_done(&p.to, 2, NULL, 0), 0);
    rig_order(&p.to, DLR_LOCAL_D_LOAD, ROUND, 2, v7, 3, path);
    assert_int_not_equal(rig_done(&p.to, 3, NULL, 0), 0); /* it is not in it */

    /* A corrupt slot costs nobody else the file. */
    ((unsigned char *)dlr_slot_base(p.src))[2 * MIB] ^= 1;
    save_shared(&p, path, spoilt);
    rig_order(&p.to, DLR_LOCAL_D_DROP, ROUND, -1,
              (struct dlr_version){UINT32_MAX, UINT64_MAX}, 0, "");
    rig_order(&p.to, DLR_LOCAL_D_LOAD, ROUND, 4, v7, 4, path);
    assert_int_equal(rig_done(&p.to, 4, NULL, 0), 0);
    rig_order(&p.to, DLR_LOCAL_D_LOAD, ROUND, RANK, v7, 5, path);
    assert_int_equal(rig_done(&p.to, 5, NULL, 0), EBADMSG);
    for (unsigned i = 1; i < SHARED; i++)
        dlr_slot_unmap(slots[i]);
    unlink(path);
    pair_down(&p);
}

static void an_order_that_is_cut_short_is_answered(void **state)
{
    char path[128], other[128];
    struct pair p;

    pair_up(&p, MIB, NULL);
    dlr_format(path, sizeof(path), "%s/a.safetensors", p.from.dir);
    dlr_format(other, sizeof(other), "%s/b.safetensors", p.from.dir);
    rig_save(&p.from, ROUND, RANK, v7, 1, path, 1);
    rig_save(&p.from, ROUND, RANK, v7, 2, other, 0);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), EPROTO);
    assert_int_equal(rig_done(&p.from, 2, NULL, 0), 0);
    assert_int_equal(access(path, F_OK), -1);
    unlink(other);
    pair_down(&p);
}

static void another_runs_file_is_adopted_only_when_told(void **state)
{
    struct dlr_slot_info info;
    char path[300], why[600];
    struct pair p;
    void *meta;
    size_t bytes;

    pair_up(&p, 2 * MIB + 99, NULL);
    dlr_slot_meta(p.src, (const void **)&meta, &bytes);
    dlr_slot_rekey(meta, bytes, dlr_slot_key("c.older.run"), NULL);
    dlr_format(path, sizeof(path), "%s/saved.safetensors", p.from.dir);
    rig_order(&p.from, DLR_LOCAL_D_SAVE, ROUND, RANK, v7, 1, path);
    assert_int_equal(rig_done(&p.from, 1, NULL, 0), 0);
    rig_order(&p.to, DLR_LOCAL_D_LOAD, ROUND, RANK, v7, 2, path);
    assert_int_equal(rig_done(&p.to, 2, why, sizeof(why)), EBADMSG);
    assert_non_null(strstr(why, "of another run"));
    rig_order(&p.to, DLR_LOCAL_D_ADOPT, ROUND, RANK, v8, 3, path);
    assert_int_equal(rig_done(&p.to, 3, NULL, 0), EBADMSG); /* another version */
    rig_order(&p.to, DLR_LOCAL_D_ADOPT, ROUND, RANK, v7, 4, path);
    assert_int_equal(rig_done(&p.to, 4, NULL, 0), 0);
    for (unsigned k = 0; k < 2; k++)
        if (dlr_slot_state(p.dst[k]) == DLR_SLOT_SEALED) {
            assert_int_equal(dlr_slot_verify(p.dst[k], NULL), 0);
            assert_int_equal(dlr_slot_info(p.dst[k], &info), 0);
            assert_int_equal(info.key, dlr_slot_key(RIG_KEY));
        }
    dlr_slot_rekey(meta, bytes, dlr_slot_key(RIG_KEY), NULL);
    pair_expect_copy(&p, p.src);
    unlink(path);
    pair_down(&p);
}

static void decisions_change_the_states_of_slots(void **state)
{
    struct dlr_version v5 = {ROUND, 5}, none = {UINT32_MAX, UINT64_MAX};
    struct pair p;

    pair_up(&p, MIB, NULL);
    rig_snapshot(p.dst[0], RANK, v7, p.data);
    rig_snapshot(p.dst[1], RANK, v8, p.data);
    rig_order(&p.to, DLR_LOCAL_D_COMMIT, ROUND, -1, v7, 0, "");
    rig_order(&p.to, DLR_LOCAL_D_ABORT, ROUND, -1, v7, 0, ""); /* decided: no effect */
    pair_settle(&p.to);
    assert_int_equal(dlr_slot_state(p.dst[0]), DLR_SLOT_COMMITTED);
    assert_int_equal(dlr_slot_state(p.dst[1]), DLR_SLOT_SEALED);
    rig_order(&p.to, DLR_LOCAL_D_COMMIT, ROUND, -1, v8, 0, "");
    pair_settle(&p.to);
    assert_int_equal(dlr_slot_state(p.dst[0]), DLR_SLOT_FREE);
    assert_int_equal(dlr_slot_state(p.dst[1]), DLR_SLOT_COMMITTED);
    rig_snapshot(p.dst[0], RANK, v5, p.data);
    rig_order(&p.to, DLR_LOCAL_D_DROP, ROUND, -1, v5, 0, "");
    pair_settle(&p.to);
    assert_int_equal(dlr_slot_state(p.dst[0]), DLR_SLOT_SEALED);
    assert_int_equal(dlr_slot_state(p.dst[1]), DLR_SLOT_DEAD);
    rig_order(&p.to, DLR_LOCAL_D_DROP, ROUND, -1, none, 0, "");
    pair_settle(&p.to);
    assert_int_equal(dlr_slot_state(p.dst[0]), DLR_SLOT_DEAD);
    pair_down(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_bit_equal_and_told),
        cmocka_unit_test(a_new_copy_waits_for_the_decision_about_the_old),
        cmocka_unit_test(a_full_receiver_refuses_after_its_limit),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(a_paced_copy_takes_its_time_and_is_whole),
        cmocka_unit_test(a_saves_copy_waits_while_a_slot_of_its_node_is_filled),
        cmocka_unit_test(a_saves_copy_does_not_wait_for_a_rank_that_died_in_its_fill),
        cmocka_unit_test(only_what_no_restart_waits_for_is_moved_at_idle_priority),
        cmocka_unit_test(a_receiver_that_hears_of_the_round_later_takes_it),
        cmocka_unit_test(a_snapshot_too_large_for_the_slot_is_refused),
        cmocka_unit_test(the_networks_thread_lets_nothing_damaged_become_whole),
        cmocka_unit_test(threads_that_check_let_nothing_damaged_become_whole),
        cmocka_unit_test(a_file_gives_back_what_was_saved),
        cmocka_unit_test(ranks_of_a_node_share_a_file),
        cmocka_unit_test(an_order_that_is_cut_short_is_answered),
        cmocka_unit_test(decisions_change_the_states_of_slots),
        cmocka_unit_test(another_runs_file_is_adopted_only_when_told),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    setenv("UCX_TLS", "tcp,self", 1); /* shared memory would hide the network */
    return RIG_RUN(tests);
}
