/* SPDX-License-Identifier: Apache-2.0 */
/* build: sees=ckpt/open wrap=dlr_now_ns */
/* What the library tells of a save's cost, by a clock that is the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "tests/support/played_agent.h"

#define S INT64_C(1000000000)
#define STEP_S 100
#define EXTRA_S 40 /* of each of the two steps that a save overlaps */

int64_t __real_dlr_now_ns(void);
int64_t __wrap_dlr_now_ns(void);
static _Atomic int64_t later_ns;

int64_t __wrap_dlr_now_ns(void)
{
    return __real_dlr_now_ns() + later_ns;
}

/* A save in step, whose copies are on their way for one step more. */
static uint64_t save_one(struct played *f, uint64_t step, unsigned k)
{
    step = played_save_from(f, step, k);
    played_expect(f, DLR_LOCAL_SEALED);
    assert_int_equal(dlr_ckpt_fence(f->ck, NULL), 0);
    later_ns += (STEP_S + EXTRA_S) * S;
    assert_int_equal(dlr_ckpt_begin(f->ck, step + 1, NULL), 0);
    later_ns += (STEP_S + EXTRA_S) * S;
    atomic_store(&f->agent.page->committed_step, step);
    return step + 1;
}

static void a_save_costs_what_all_steps_that_it_overlaps_take_longer(void **state)
{
    struct played *f = *state;
    struct dlr_page *page = f->agent.page;
    uint64_t step = 1;

    played_join(f);
    assert_int_equal(dlr_ckpt_begin(f->ck, step, NULL), 0);
    played_slots(f);
    for (unsigned i = 0; i < 8; i++) {
        step = save_one(f, step + 1, i % 2);
        for (unsigned plain = 0; plain < 4; plain++) {
            assert_int_equal(dlr_ckpt_begin(f->ck, ++step, NULL), 0);
            later_ns += STEP_S * S;
        }
    }
    print_message("%llu saves, %.3f s\n", (unsigned long long)page->extra_saves,
                  (double)page->extra_ns / S);
    assert_in_range(page->extra_saves, 6,
                    8); /* the first had nothing to compare with */
    assert_int_equal((page->extra_ns + S) / (10 * S), 2 * EXTRA_S / 10);
    assert_int_equal((page->step_ns + S) / (10 * S), STEP_S / 10);
    dlr_ckpt_close(f->ck);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_save_costs_what_all_steps_that_it_overlaps_take_longer, played_setup,
            played_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
