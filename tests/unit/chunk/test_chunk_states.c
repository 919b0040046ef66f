/* SPDX-License-Identifier: Apache-2.0 */
/* The states of tensors and chunks: what programs do, and random calls against a model
 * that counts everything in a list of what has happened.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chunk/states.h"

#define FORWARD DLR_CHUNK_FORWARD
#define BACKWARD DLR_CHUNK_BACKWARD
#define HOLD DLR_CHUNK_HOLD
#define AFTER_FWD DLR_CHUNK_HOLD_AFTER_FWD
#define AFTER_BWD DLR_CHUNK_HOLD_AFTER_BWD

static struct dlr_err why;

/* Tensors 0 and 1 in chunk 0, 2 in chunks 1 and 2, 3 in chunk 2, 4 in none; 5 is frozen,
 * in chunk 3.
 */
static const struct dlr_chunk_span spans[] = {{0, 1}, {0, 1}, {1, 2},
                                              {2, 1}, {0, 0}, {3, 1, true}};
#define TENSORS 6
#define CHUNKS 4

static struct dlr_chunk_states *make(void)
{
    struct dlr_chunk_states *s = NULL;

    assert_int_equal(dlr_chunk_states_new(spans, TENSORS, CHUNKS, &s), 0);
    return s;
}

static void go(struct dlr_chunk_states *s, enum dlr_chunk_stage stage)
{
    if (dlr_chunk_states_stage(s, stage, &why) < 0)
        fail_msg("%s", why.text);
}

static int begin(struct dlr_chunk_states *s, uint32_t tensor, enum dlr_chunk_pass pass)
{
    return dlr_chunk_states_access(s, tensor, pass, &why);
}

static int end(struct dlr_chunk_states *s, uint32_t tensor, enum dlr_chunk_pass pass)
{
    return dlr_chunk_states_release(s, tensor, pass, &why);
}

/* Begins and ends; what the end says. */
static int use(struct dlr_chunk_states *s, uint32_t tensor, enum dlr_chunk_pass pass)
{
    if (begin(s, tensor, pass) < 0)
        fail_msg("%s", why.text);
    return end(s, tensor, pass);
}

static void is(const struct dlr_chunk_states *s, uint32_t tensor,
               enum dlr_chunk_state state)
{
    assert_int_equal(dlr_chunk_states_tensor(s, tensor), state);
}

/* --- what programs do --------------------------------------------------------------- */

static void one_iteration_ends_with_gradients_in_every_chunk(void **state)
{
    struct dlr_chunk_states *s = make();

    go(s, DLR_CHUNK_FWD);
    for (uint32_t i = 0; i < TENSORS; i++) {
        assert_int_equal(begin(s, i, FORWARD), 1); /* it has no value yet */
        is(s, i, DLR_CHUNK_COMPUTE);
        assert_int_equal(end(s, i, FORWARD), 0);
        is(s, i, AFTER_FWD);
    }
    go(s, DLR_CHUNK_BWD);
    for (uint32_t i = TENSORS; i-- > 0;) {
        is(s, i, HOLD);
        assert_int_equal(use(s, i, BACKWARD), i != 5);
    }
    for (uint32_t c = 0; c < 3; c++)
        assert_true(dlr_chunk_states_reducible(s, c));
    assert_false(dlr_chunk_states_reducible(s, 3));
    go(s, DLR_CHUNK_ADAM);
    go(s, DLR_CHUNK_FWD);
    for (uint32_t i = 0; i < TENSORS; i++)
        is(s, i, HOLD);
    dlr_chunk_states_free(s);
}

static void a_pass_made_again_under_checkpointing_releases_nothing_early(void **state)
{
    struct dlr_chunk_states *s = make();

    go(s, DLR_CHUNK_FWD);
    use(s, 0, FORWARD);
    go(s, DLR_CHUNK_BWD);
    assert_int_equal(use(s, 0, FORWARD), 0);
    is(s, 0, HOLD);
    begin(s, 0, FORWARD); /* and again, with the backward pass within it */
    assert_int_equal(use(s, 0, BACKWARD), 0);
    is(s, 0, DLR_CHUNK_COMPUTE);
    assert_int_equal(end(s, 0, FORWARD), 1);
    is(s, 0, AFTER_BWD);
    dlr_chunk_states_free(s);
}

static void a_module_used_twice_is_complete_after_its_second_backward(void **state)
{
    struct dlr_chunk_states *s = make();

    go(s, DLR_CHUNK_FWD);
    use(s, 3, FORWARD);
    use(s, 3, FORWARD);
    go(s, DLR_CHUNK_BWD);
    assert_int_equal(use(s, 3, BACKWARD), 0);
    is(s, 3, HOLD);
    assert_int_equal(use(s, 3, BACKWARD), 1);
    is(s, 3, AFTER_BWD);
    assert_int_equal(begin(s, 3, FORWARD), -ESTALE);
    assert_string_equal(why.text, "tensor 3 is used after its gradient was complete");
    dlr_chunk_states_free(s);
}

static void a_module_not_used_holds_its_chunk_up_until_adam(void **state)
{
    struct dlr_chunk_states *s = make();

    go(s, DLR_CHUNK_FWD);
    use(s, 0, FORWARD);
    use(s, 2, FORWARD); /* in forward only: its output went nowhere */
    go(s, DLR_CHUNK_BWD);
    use(s, 0, BACKWARD);
    assert_false(dlr_chunk_states_reducible(s, 0));
    is(s, 1, DLR_CHUNK_FREE);
    go(s, DLR_CHUNK_ADAM);
    is(s, 2, HOLD);
    for (uint32_t c = 0; c < 3; c++)
        assert_true(dlr_chunk_states_reducible(s, c));
    assert_false(dlr_chunk_states_reducible(s, 3)); /* frozen */
    dlr_chunk_states_free(s);
}

static void nested_modules_pin_until_the_outer_one_ends(void **state)
{
    struct dlr_chunk_states *s = make();

    go(s, DLR_CHUNK_FWD);
    begin(s, 0, FORWARD);
    use(s, 3, FORWARD);
    begin(s, 0, FORWARD); /* the inner one has it as well */
    assert_int_equal(end(s, 0, FORWARD), 0);
    is(s, 0, DLR_CHUNK_COMPUTE);
    assert_true(dlr_chunk_states_pinned(s, 0));
    assert_false(dlr_chunk_states_pinned(s, 2));
    assert_int_equal(dlr_chunk_states_stage(s, DLR_CHUNK_BWD, &why), -EBUSY);
    assert_string_equal(why.text, "1 tensor(s) in use at the end of forward");
    end(s, 0, FORWARD);
    assert_false(dlr_chunk_states_pinned(s, 0));
    dlr_chunk_states_free(s);
}

static void gradients_may_come_in_any_order(void **state)
{
    static const uint32_t order[] = {2, 0, 3, 1};
    struct dlr_chunk_states *s = make();

    go(s, DLR_CHUNK_FWD);
    for (uint32_t i = 0; i < 4; i++)
        use(s, i, FORWARD);
    go(s, DLR_CHUNK_BWD);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(use(s, order[i], BACKWARD), 1);
        assert_int_equal(dlr_chunk_states_reducible(s, 0), i == 3);
        assert_int_equal(dlr_chunk_states_reducible(s, 1), true);
        assert_int_equal(dlr_chunk_states_reducible(s, 2), i >= 2);
    }
    dlr_chunk_states_free(s);
}

static void an_exception_leaves_values_and_no_use(void **state)
{
    struct dlr_chunk_states *s = make();

    go(s, DLR_CHUNK_FWD);
    use(s, 0, FORWARD);
    begin(s, 1, FORWARD);
    assert_int_equal(dlr_chunk_states_reset(s), 0);
    assert_int_equal(dlr_chunk_states_now(s), DLR_CHUNK_IDLE);
    is(s, 0, HOLD);
    is(s, 1, HOLD);
    is(s, 2, DLR_CHUNK_FREE);
    assert_false(dlr_chunk_states_pinned(s, 0));
    go(s, DLR_CHUNK_FWD);
    use(s, 0, FORWARD);
    use(s, 3, FORWARD);
    go(s, DLR_CHUNK_BWD);
    use(s, 3, BACKWARD);
    begin(s, 0, BACKWARD);
    assert_int_equal(dlr_chunk_states_reset(s), 1); /* 3: the gradient lies there */
    is(s, 3, DLR_CHUNK_FREE);
    is(s, 0, HOLD);
    dlr_chunk_states_free(s);
}

static void another_micro_batch_and_an_evaluation_begin_with_forward(void **state)
{
    struct dlr_chunk_states *s = make();

    for (unsigned batch = 0; batch < 3; batch++) {
        go(s, DLR_CHUNK_FWD);
        is(s, 0, DLR_CHUNK_FREE); /* the gradient took its place */
        assert_true(dlr_chunk_states_empty(s, 0));
        assert_int_equal(begin(s, 0, FORWARD), 1);
        end(s, 0, FORWARD);
        go(s, DLR_CHUNK_BWD);
        assert_int_equal(begin(s, 0, BACKWARD), 0);
        assert_int_equal(end(s, 0, BACKWARD), 1);
    }
    go(s, DLR_CHUNK_ADAM);
    go(s, DLR_CHUNK_FWD);
    is(s, 0, HOLD); /* and Adam the gradient's */
    assert_int_equal(begin(s, 0, FORWARD), 0);
    end(s, 0, FORWARD);
    go(s, DLR_CHUNK_FWD); /* that was an evaluation */
    is(s, 0, HOLD);
    use(s, 0, FORWARD);
    go(s, DLR_CHUNK_BWD);
    assert_int_equal(use(s, 0, BACKWARD), 1);
    dlr_chunk_states_free(s);
}

static void what_is_dropped_once_complete_stays_complete(void **state)
{
    struct dlr_chunk_states *s = make();

    go(s, DLR_CHUNK_FWD);
    use(s, 0, FORWARD);
    use(s, 1, FORWARD);
    go(s, DLR_CHUNK_BWD);
    assert_int_equal(use(s, 0, BACKWARD), 1);
    assert_int_equal(dlr_chunk_states_drop(s, 0), 0);
    is(s, 0, DLR_CHUNK_FREE);
    assert_int_equal(begin(s, 0, FORWARD), -ESTALE);
    assert_int_equal(begin(s, 0, BACKWARD), -ESTALE);
    assert_false(dlr_chunk_states_reducible(s, 0));
    assert_int_equal(use(s, 1, BACKWARD), 1);
    assert_true(dlr_chunk_states_reducible(s, 0)); /* none is still to come */
    go(s, DLR_CHUNK_ADAM);
    go(s, DLR_CHUNK_FWD);
    assert_int_equal(begin(s, 0, FORWARD), 1);
    assert_int_equal(begin(s, 1, FORWARD), 0);
    dlr_chunk_states_free(s);
}

/* As where one of two outputs went nowhere. */
static void a_gradient_of_fewer_passes_than_forward_ones_is_there_in_adam(void **state)
{
    struct dlr_chunk_states *s = make();

    go(s, DLR_CHUNK_FWD);
    for (unsigned k = 0; k < 2; k++) {
        use(s, 3, FORWARD);
        use(s, 5, FORWARD);
    }
    use(s, 0, FORWARD);
    go(s, DLR_CHUNK_BWD);
    assert_int_equal(use(s, 3, BACKWARD), 0);
    assert_int_equal(use(s, 5, BACKWARD), 0);
    is(s, 3, HOLD);
    go(s, DLR_CHUNK_ADAM);
    is(s, 3, AFTER_BWD);
    is(s, 5, HOLD); /* frozen */
    is(s, 0, HOLD); /* no backward pass: no gradient */
    assert_int_equal(dlr_chunk_states_reset(s), 1);
    is(s, 3, DLR_CHUNK_FREE);
    dlr_chunk_states_free(s);
}

static void calls_that_cannot_be_are_refused_in_a_line(void **state)
{
    struct dlr_chunk_states *s = make();

    assert_int_equal(dlr_chunk_states_stage(s, DLR_CHUNK_BWD, &why), -EINVAL);
    assert_string_equal(why.text, "the stage after idle is not backward");
    assert_int_equal(begin(s, 0, FORWARD), -EINVAL);
    assert_string_equal(why.text,
                        "tensor 0 is used in a forward pass, in the stage idle");
    go(s, DLR_CHUNK_FWD);
    assert_int_equal(begin(s, 0, BACKWARD), -EINVAL);
    assert_int_equal(end(s, 0, FORWARD), -EINVAL);
    assert_string_equal(why.text, "tensor 0 is released, and is not in use");
    begin(s, 0, FORWARD);
    assert_int_equal(dlr_chunk_states_drop(s, 0), -EBUSY);
    assert_int_equal(end(s, 0, BACKWARD), -EINVAL);
    end(s, 0, FORWARD);
    assert_int_equal(dlr_chunk_states_drop(s, 0), 0);
    assert_true(dlr_chunk_states_empty(s, 0));
    dlr_chunk_states_free(s);
}

/* --- the model ------------------------------------------------------------------------ */

enum what { STAGE, BEGIN, END, DROP, RESET, WHATS };

struct event {
    enum what what;
    uint32_t tensor;
    int arg;                    /* stage or pass */
    enum dlr_chunk_stage stage; /* in which it was */
};

#define LONGEST 600
static struct event events[LONGEST];
static unsigned happened;

/* Of one tensor, counted from the whole list. */
struct count {
    int open[2], forward, backward;
    bool value, complete;
};

static bool has_gradient(const struct count *c, uint32_t tensor)
{
    return c->backward > 0 && !spans[tensor].frozen;
}

static struct count count(uint32_t tensor)
{
    struct count c = {0};

    for (unsigned i = 0; i < happened; i++) {
        const struct event *e = &events[i];

        if (e->what == RESET)
            c = (struct count){.value = c.value && !c.complete};
        else if (e->what == STAGE && e->arg == DLR_CHUNK_FWD)
            c = (struct count){.value = c.value &&
                                        (!c.complete || e->stage == DLR_CHUNK_ADAM)};
        else if (e->what == STAGE && e->arg == DLR_CHUNK_ADAM)
            c.complete = has_gradient(&c, tensor);
        else if (e->what == STAGE || e->tensor != tensor)
            continue;
        else if (e->what == BEGIN) {
            c.open[e->arg]++;
            c.value = true;
        } else if (e->what == DROP)
            c.value = false;
        else {
            c.open[e->arg]--;
            c.forward += e->stage == DLR_CHUNK_FWD;
            c.backward += e->arg == BACKWARD;
            c.complete = c.open[0] + c.open[1] == 0 && has_gradient(&c, tensor) &&
                         c.backward >= c.forward;
        }
    }
    return c;
}

static enum dlr_chunk_stage stage_now(void)
{
    enum dlr_chunk_stage stage = DLR_CHUNK_IDLE;

    for (unsigned i = 0; i < happened; i++)
        if (events[i].what == STAGE)
            stage = events[i].arg;
        else if (events[i].what == RESET)
            stage = DLR_CHUNK_IDLE;
    return stage;
}

static enum dlr_chunk_state expected(uint32_t tensor)
{
    const struct count c = count(tensor);

    if (c.open[0] + c.open[1] > 0)
        return DLR_CHUNK_COMPUTE;
    if (!c.value)
        return DLR_CHUNK_FREE;
    if (c.complete)
        return AFTER_BWD;
    return stage_now() == DLR_CHUNK_FWD && c.forward > 0 ? AFTER_FWD : HOLD;
}

static void compare(const struct dlr_chunk_states *s)
{
    for (uint32_t i = 0; i < TENSORS; i++)
        assert_int_equal(dlr_chunk_states_tensor(s, i), expected(i));
    for (uint32_t c = 0; c < CHUNKS; c++) {
        bool pinned = false, empty = true, complete = true, trained = false;

        for (uint32_t i = 0; i < TENSORS; i++) {
            if (c < spans[i].chunk || c >= spans[i].chunk + spans[i].chunks)
                continue;
            pinned |= expected(i) == DLR_CHUNK_COMPUTE;
            empty &= expected(i) == DLR_CHUNK_FREE;
            complete &= spans[i].frozen || count(i).complete;
            trained |= !spans[i].frozen;
        }
        assert_int_equal(dlr_chunk_states_pinned(s, c), pinned);
        assert_int_equal(dlr_chunk_states_empty(s, c), empty);
        assert_int_equal(dlr_chunk_states_reducible(s, c),
                         trained && (complete || stage_now() == DLR_CHUNK_ADAM));
    }
}

static int expected_stage(int to)
{
    const enum dlr_chunk_stage from = stage_now();

    if (to == DLR_CHUNK_IDLE || (to == DLR_CHUNK_BWD && from != DLR_CHUNK_FWD) ||
        (to == DLR_CHUNK_ADAM && from != DLR_CHUNK_BWD))
        return -EINVAL;
    for (uint32_t i = 0; i < TENSORS; i++)
        if (expected(i) == DLR_CHUNK_COMPUTE)
            return -EBUSY;
    return 0;
}

static int expected_begin(uint32_t tensor, int pass)
{
    const enum dlr_chunk_stage stage = stage_now();

    if (stage != DLR_CHUNK_BWD && (stage != DLR_CHUNK_FWD || pass == BACKWARD))
        return -EINVAL;
    if (count(tensor).complete)
        return -ESTALE;
    return expected(tensor) == DLR_CHUNK_FREE;
}

/* Both are told of one random call, and say the same. */
static void step(struct dlr_chunk_states *s)
{
    struct event e = {rand() % 40 == 0 ? RESET : rand() % 4, rand() % TENSORS, 0,
                      stage_now()};
    int want = 0, got = 0;

    e.arg = e.what == STAGE ? rand() % 4 : rand() % 2;
    if (e.what == DROP && rand() % 4)
        e.what = END;
    if (e.what == STAGE) {
        want = expected_stage(e.arg);
        got = dlr_chunk_states_stage(s, e.arg, &why);
    } else if (e.what == BEGIN) {
        want = expected_begin(e.tensor, e.arg);
        got = begin(s, e.tensor, e.arg);
    } else if (e.what == END) {
        want = count(e.tensor).open[e.arg] > 0 ? 0 : -EINVAL;
        got = end(s, e.tensor, e.arg);
    } else if (e.what == DROP) {
        want = expected(e.tensor) == DLR_CHUNK_COMPUTE ? -EBUSY : 0;
        got = dlr_chunk_states_drop(s, e.tensor);
    } else {
        for (uint32_t i = 0; i < TENSORS; i++)
            want += expected(i) == AFTER_BWD;
        got = dlr_chunk_states_reset(s);
    }
    if (want >= 0)
        events[happened++] = e;
    if (e.what == END && want == 0)
        want = count(e.tensor).complete;
    assert_int_equal(got, want);
    compare(s);
}

static void random_calls_are_as_counted_from_all_that_happened(void **state)
{
    srand(20);
    for (unsigned k = 0; k < 150; k++) {
        struct dlr_chunk_states *s = make();

        for (happened = 0; happened < LONGEST / 3;)
            step(s);
        dlr_chunk_states_free(s);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_iteration_ends_with_gradients_in_every_chunk),
        cmocka_unit_test(a_pass_made_again_under_checkpointing_releases_nothing_early),
        cmocka_unit_test(a_module_used_twice_is_complete_after_its_second_backward),
        cmocka_unit_test(a_module_not_used_holds_its_chunk_up_until_adam),
        cmocka_unit_test(nested_modules_pin_until_the_outer_one_ends),
        cmocka_unit_test(gradients_may_come_in_any_order),
        cmocka_unit_test(an_exception_leaves_values_and_no_use),
        cmocka_unit_test(another_micro_batch_and_an_evaluation_begin_with_forward),
        cmocka_unit_test(what_is_dropped_once_complete_stays_complete),
        cmocka_unit_test(a_gradient_of_fewer_passes_than_forward_ones_is_there_in_adam),
        cmocka_unit_test(calls_that_cannot_be_are_refused_in_a_line),
        cmocka_unit_test(random_calls_are_as_counted_from_all_that_happened),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
