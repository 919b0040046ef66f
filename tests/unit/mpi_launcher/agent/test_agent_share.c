/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs=dlrover-agent */
/* The agent of ranks that keep REPLICATED regions between them: who they are, and that
 * they name the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/support/worker_rig.h"

static struct rig rig;

/* Ranks 4 and 6 of one node, with slots. */
static void begin(struct worker w[2])
{
    dlr_rig_begin(&rig, NULL, 0, "[4, 6]", "null");
    for (int i = 0; i < 2; i++) {
        assert_true(rig_hello(&rig, &w[i], 0, 4 + 2 * i));
        rig_worker_slots(&w[i]);
        dlr_rig_await(&rig, "ready");
    }
}

static void order(struct worker w[2], int step)
{
    dlr_rig_say(&rig, "save_at", "s:i, s:i", "round", 0, "step", step);
    dlr_rig_sync(&rig);
    for (int i = 0; i < 2; i++)
        assert_true(dlr_page_ordered(w[i].page, (uint64_t)step));
}

static void end(struct worker w[2])
{
    rig_bye(&w[0]);
    rig_bye(&w[1]);
    dlr_rig_stop(&rig);
}

static void each_rank_is_told_who_else_is_here(void **state)
{
    static const int32_t mates[] = {4, 6};
    struct worker w[2];

    begin(w);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(w[i].page->nmates, 2);
        assert_memory_equal(w[i].page->mates, mates, sizeof(mates));
    }
    end(w);
}

static void a_version_with_holes_is_reported_and_not_sealed(void **state)
{
    struct worker w[2];
    json_t *msg;
    unsigned k;

    begin(w);
    w[0].shared = w[1].shared = 77;
    order(w, 10);
    order(w, 11);
    rig_worker_save(&w[0], 10);
    dlr_rig_await(&rig, "sealed");
    w[0].shared = 78; /* it has named one more; the other one is a step behind */
    rig_worker_save(&w[0], 11);
    dlr_rig_await(&rig, "sealed");
    rig_worker_save(&w[1], 10);
    dlr_rig_await(&rig, "sealed");
    k = rig_worker_save(&w[1], 11);
    msg = dlr_rig_expect(&rig, "missed");
    assert_int_equal(dlr_rig_int(msg, "rank"), 6);
    assert_int_equal(dlr_rig_int(msg, "step"), 11);
    assert_string_equal(dlr_rig_str(msg, "why"),
                        "the ranks of its node name different REPLICATED regions");
    json_decref(msg);
    dlr_rig_sync(&rig);
    assert_int_equal(dlr_slot_state(w[1].slots[k]), DLR_SLOT_DEAD);
    end(w);
}

RIG_MAIN(RIG_TEST(each_rank_is_told_who_else_is_here),
         RIG_TEST(a_version_with_holes_is_reported_and_not_sealed))
