/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open */
/* The library under a job: what it loads, and what it refuses to. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ckpt/slot/meta.h"
#include "common/base/clock.h"
#include "tests/support/played_agent.h"

static void a_restore_loads_what_was_sealed(void **state)
{
    struct played *f = *state;
    struct dlr_ckpt_version v[2];
    uint64_t step = 0;

    played_former_life(f, 7000, 1);
    played_offer(f, 7000, 1);
    played_join(f);
    assert_int_equal(dlr_ckpt_list(f->ck, v, 2), 1);
    assert_int_equal(v[0].round, PLAYED_ROUND);
    assert_int_equal(v[0].step, 7000);
    assert_int_equal(dlr_ckpt_restore(f->ck, &step), 1);
    pthread_join(f->agent.thread, NULL);
    assert_int_equal(step, 7000);
    played_filled(f, 7000);
    assert_int_equal(f->agent.restored.type, DLR_LOCAL_RESTORED);
    assert_int_equal(f->agent.restored.step, 7000);
    assert_int_equal(f->agent.restored.arg[0], PLAYED_ROUND);
    assert_int_equal(f->agent.restored.arg[1], 0);
    played_slots(f); /* RESERVE comes after the restore, and saving goes on */
    played_save_from(f, 8000, 0);
    played_expect(f, DLR_LOCAL_SEALED);
    dlr_ckpt_close(f->ck);
}

/* What is done to the sealed slot, or said about it, and how it must be refused. */
struct fault {
    const char *name;
    off_t at; /* byte of the file whose bit is flipped, 0: none */
    const char *key;
    uint64_t step, slot;
    int state;
    const char *text;
};
static const struct fault faults[] = {
    {"head", 4096 + 57, PLAYED_KEY, 7000, 1, 0, "the snapshot's head is corrupt"},
    {"region table", 4096 + 130, PLAYED_KEY, 7000, 1, 0,
     "the meta block's checksum is wrong"},
    {"a block's checksum", 4096 + 369, PLAYED_KEY, 7000, 1, 0,
     "the meta block's checksum is wrong"},
    {"first block", 8192 + 1000, PLAYED_KEY, 7000, 1, 0, "block 0 of 2 is corrupt"},
    {"last block", 8192 + 1999999, PLAYED_KEY, 7000, 1, 0, "block 1 of 2 is corrupt"},
    {"another run", 0, "cluster.8.run", 7000, 1, 0, "the snapshot is another run's"},
    {"another version", 0, PLAYED_KEY, 8000, 1, 0,
     "the slot holds version 4.7000, not 4.8000"},
    {"a slot that was not sent", 0, PLAYED_KEY, 7000, 9, 0,
     "the agent did not send the slot it names"},
    {"an open slot", 0, PLAYED_KEY, 7000, 1, DLR_SLOT_OPEN,
     "the slot is in state 1, not sealed"},
};

static void refused(void **state)
{
    struct played *f = *state;

    played_former_life(f, 7000, 1);
    for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        const struct fault *x = &faults[i];
        unsigned char *byte = (unsigned char *)dlr_slot_base(f->agent.slots[1]) + x->at;
        struct dlr_ckpt_version v;
        uint64_t step = 99;

        print_message("  %s\n", x->name);
        if (x->at)
            *byte ^= 8;
        dlr_slot_set_state(f->agent.slots[1], x->state ? x->state : DLR_SLOT_COMMITTED);
        played_offer(f, x->step, x->slot);
        f->agent.key = x->key;
        f->agent.hang_up = true; /* the supervisor ends the round */
        played_join(f);
        assert_int_equal(dlr_ckpt_list(f->ck, &v, 1),
                         x->at > 4096 + 128 ? 1 : -EBADMSG); /* of the head alone */
        assert_int_equal(dlr_ckpt_restore(f->ck, &step), -EBADMSG);
        pthread_join(f->agent.thread, NULL);
        assert_string_equal(dlr_ckpt_error(f->ck), x->text);
        assert_int_equal(f->agent.restored.type, DLR_LOCAL_RESTORED);
        assert_int_equal(f->agent.restored.arg[1], EBADMSG);
        assert_int_equal(f->agent.restored.arg[2], 0); /* the copy, not the program */
        assert_string_equal(f->agent.restored.text, x->text);
        assert_int_equal(step, 99);
        dlr_ckpt_close(f->ck);
        if (x->at)
            *byte ^= 8;
    }
}

static void a_slot_of_another_world_is_refused(void **state)
{
    struct played *f = *state;
    uint64_t step;

    played_former_life(f, 7000, 1);
    setenv("WORLD_SIZE", "9", 1);
    played_offer(f, 7000, 1);
    f->agent.hang_up = true;
    played_join(f);
    assert_int_equal(dlr_ckpt_restore(f->ck, &step), -EBADMSG);
    assert_string_equal(dlr_ckpt_error(f->ck), "the snapshot is of 8 ranks, not of 9");
    pthread_join(f->agent.thread, NULL);
    dlr_ckpt_close(f->ck);
}

static void a_go_that_never_comes_is_waited_for_within_the_limit(void **state)
{
    struct played *f = *state;
    uint64_t step;
    int64_t t0;

    played_former_life(f, 7000, 1);
    setenv("DLROVER_RESTORE_MS", "300", 1);
    played_offer(f, 7000, 1);
    f->agent.no_go = true;
    played_join(f);
    t0 = dlr_now_ms();
    assert_int_equal(dlr_ckpt_restore(f->ck, &step), -ETIMEDOUT);
    assert_true(dlr_now_ms() - t0 >= 290);
    pthread_join(f->agent.thread, NULL);
    dlr_ckpt_close(f->ck);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, played_setup, played_teardown)
    const struct CMUnitTest tests[] = {
        T(a_restore_loads_what_was_sealed),
        T(refused),
        T(a_slot_of_another_world_is_refused),
        T(a_go_that_never_comes_is_waited_for_within_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
