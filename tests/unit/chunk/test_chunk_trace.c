/* SPDX-License-Identifier: Apache-2.0 */
/* The record of an iteration: what is in it, when it is made anew, and what leaves it as
 * it was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chunk/simulate.h"
#include "chunk/trace.h"

#define CHUNKS 4
static const uint64_t bytes[CHUNKS] = {10, 20, 30, 40};

static struct dlr_chunk_trace *make(void)
{
    struct dlr_chunk_trace *trace = NULL;

    assert_int_equal(dlr_chunk_trace_new(bytes, CHUNKS, &trace), 0);
    return trace;
}

/* One with an operator for each chunk; others in bytes, and a chunk more in the second.
 * What was not foreseen.
 */
static int iterate(struct dlr_chunk_trace *trace, uint64_t others, uint32_t more)
{
    int surprises = 0;

    for (uint32_t c = 0; c < CHUNKS - 1; c++) {
        assert_int_equal(dlr_chunk_trace_tick(trace, c == 1 ? "second" : "other"), 0);
        surprises += dlr_chunk_trace_use(trace, c, DLR_CHUNK_READ);
        surprises += dlr_chunk_trace_others(trace, others + c);
        if (c == 1 && more < CHUNKS)
            surprises += dlr_chunk_trace_use(trace, more, DLR_CHUNK_WRITE);
    }
    return surprises;
}

static struct dlr_chunk_trace *warm(void)
{
    struct dlr_chunk_trace *trace = make();

    assert_true(dlr_chunk_trace_begin(trace, 1));
    assert_int_equal(iterate(trace, 100, CHUNKS), 0);
    assert_int_equal(dlr_chunk_trace_end(trace, false), 1);
    return trace;
}

static void the_first_iteration_is_recorded(void **state)
{
    struct dlr_chunk_trace *trace = make();
    struct dlr_chunk_iteration it;

    assert_false(dlr_chunk_trace_get(trace, &it));
    assert_true(dlr_chunk_trace_begin(trace, 1));
    assert_int_equal(dlr_chunk_trace_use(trace, 3, DLR_CHUNK_READ), 0); /* before all */
    iterate(trace, 100, 3);
    dlr_chunk_trace_use(trace, 2, DLR_CHUNK_UPDATE); /* once more, and worse */
    dlr_chunk_trace_use(trace, 2, DLR_CHUNK_READ);
    dlr_chunk_trace_others(trace, 7);
    assert_false(dlr_chunk_trace_get(trace, &it));
    assert_int_equal(dlr_chunk_trace_end(trace, false), 1);
    assert_true(dlr_chunk_trace_get(trace, &it));
    assert_int_equal(it.n, 3);
    assert_int_equal(it.chunks, CHUNKS);
    assert_string_equal(it.moments[1].name, "second");
    assert_int_equal(it.moments[1].count, 2);
    assert_int_equal(it.uses[it.moments[1].first + 1].chunk, 3);
    assert_int_equal(it.moments[2].count, 1);
    assert_int_equal(it.uses[it.moments[2].first].intent, DLR_CHUNK_UPDATE);
    assert_int_equal(it.moments[2].others, 102);
    assert_int_equal(dlr_chunk_least(&it), 60 + 102);
    dlr_chunk_trace_free(trace);
}

static void the_same_again_is_foreseen(void **state)
{
    struct dlr_chunk_trace *trace = warm();

    for (unsigned k = 0; k < 10; k++) {
        assert_false(dlr_chunk_trace_begin(trace, 1));
        assert_int_equal(iterate(trace, 100 - k, CHUNKS), 0);
        assert_int_equal(dlr_chunk_trace_end(trace, false), 0);
    }
    dlr_chunk_trace_free(trace);
}

static void other_shapes_are_recorded_at_once(void **state)
{
    struct dlr_chunk_trace *trace = warm();
    struct dlr_chunk_iteration it;

    assert_true(dlr_chunk_trace_begin(trace, 2));
    assert_int_equal(iterate(trace, 500, CHUNKS), 0);
    assert_int_equal(dlr_chunk_trace_end(trace, false), 1);
    assert_true(dlr_chunk_trace_get(trace, &it));
    assert_int_equal(it.moments[0].others, 500);
    assert_false(dlr_chunk_trace_begin(trace, 2));
    dlr_chunk_trace_free(trace);
}

static void three_surprises_in_a_row_record_again(void **state)
{
    struct dlr_chunk_trace *trace = warm();

    for (unsigned k = 0; k < 7; k++) {
        assert_false(dlr_chunk_trace_begin(trace, 1));
        assert_int_equal(iterate(trace, 100, k == 2 || k == 3 ? CHUNKS : 3),
                         k != 2 && k != 3);
        assert_int_equal(dlr_chunk_trace_end(trace, false), 0);
    }
    assert_true(dlr_chunk_trace_begin(trace, 1));
    iterate(trace, 100, 3);
    assert_int_equal(dlr_chunk_trace_end(trace, false), 1);
    assert_false(dlr_chunk_trace_begin(trace, 1));
    assert_int_equal(iterate(trace, 100, 3), 0);
    dlr_chunk_trace_free(trace);
}

static void more_of_anything_is_a_surprise(void **state)
{
    struct dlr_chunk_trace *trace = warm();

    dlr_chunk_trace_begin(trace, 1);
    assert_int_equal(iterate(trace, 101, CHUNKS), 3);
    dlr_chunk_trace_tick(trace, "one more");
    assert_int_equal(dlr_chunk_trace_use(trace, 0, DLR_CHUNK_READ), 1);
    dlr_chunk_trace_begin(trace, 1);
    dlr_chunk_trace_tick(trace, "other");
    assert_int_equal(dlr_chunk_trace_use(trace, 0, DLR_CHUNK_WRITE), 1);
    dlr_chunk_trace_free(trace);
}

/* One that did less than all, and was not cut short. */
static void a_shorter_iteration_counts_as_another_one(void **state)
{
    struct dlr_chunk_trace *trace = warm();

    for (unsigned k = 0; k < DLR_CHUNK_TRACE_MISSES; k++) {
        assert_false(dlr_chunk_trace_begin(trace, 1));
        dlr_chunk_trace_tick(trace, "other");
        dlr_chunk_trace_end(trace, false);
    }
    assert_true(dlr_chunk_trace_begin(trace, 1));
    dlr_chunk_trace_free(trace);
}

static void an_iteration_that_overflowed_leaves_all_as_it_was(void **state)
{
    struct dlr_chunk_trace *trace = warm();
    struct dlr_chunk_iteration before, after;

    dlr_chunk_trace_get(trace, &before);
    for (unsigned k = 0; k < 9; k++) {
        assert_int_equal(dlr_chunk_trace_begin(trace, k % 2), k % 2 == 0);
        iterate(trace, 1000, 3);
        assert_int_equal(dlr_chunk_trace_end(trace, true), 0);
    }
    assert_false(dlr_chunk_trace_begin(trace, 1));
    dlr_chunk_trace_get(trace, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_int_equal(iterate(trace, 100, CHUNKS), 0);
    dlr_chunk_trace_end(trace, false);
    assert_int_equal(dlr_chunk_trace_end(trace, false), 0); /* no iteration */
    dlr_chunk_trace_free(trace);
}

static void use(struct dlr_chunk_trace *trace, uint32_t chunk,
                enum dlr_chunk_intent intent, int surprise)
{
    assert_int_equal(dlr_chunk_trace_use(trace, chunk, intent), surprise);
}

/* The host takes chunk 0 when the operator has written it, and the operator goes on with
 * chunk 2; 1 may be in use all the time.
 */
static void operator_and_host(struct dlr_chunk_trace *trace)
{
    dlr_chunk_trace_tick(trace, "B");
    assert_int_equal(dlr_chunk_trace_others(trace, 5), 0);
    use(trace, 0, DLR_CHUNK_WRITE, 0);
    use(trace, 1, DLR_CHUNK_READ, 0);
    use(trace, 0, DLR_CHUNK_TAKE, 0);
    use(trace, 2, DLR_CHUNK_WRITE, 0);
}

static void what_the_host_takes_of_an_operator_was_on_the_device(void **state)
{
    struct dlr_chunk_trace *trace = make();
    struct dlr_chunk_iteration it;

    dlr_chunk_trace_begin(trace, 1);
    operator_and_host(trace);
    dlr_chunk_trace_end(trace, false);
    dlr_chunk_trace_get(trace, &it);
    assert_int_equal(it.n, 2);
    assert_string_equal(it.moments[1].name, "B");
    assert_int_equal(it.moments[1].others, 5);
    assert_int_equal(it.uses[0].intent, DLR_CHUNK_WRITE);
    assert_int_equal(it.moments[1].count, 3);
    assert_int_equal(dlr_chunk_least(&it), 20 + 30 + 5); /* chunks 1 and 2 */
    assert_false(dlr_chunk_trace_begin(trace, 1));
    operator_and_host(trace);
    dlr_chunk_trace_end(trace, false);
    dlr_chunk_trace_begin(trace, 2); /* alone: it needs its chunk */
    dlr_chunk_trace_tick(trace, "B");
    use(trace, 3, DLR_CHUNK_WRITE, 0);
    use(trace, 3, DLR_CHUNK_TAKE, 0);
    dlr_chunk_trace_end(trace, false);
    dlr_chunk_trace_get(trace, &it);
    assert_int_equal(dlr_chunk_least(&it), 40);
    dlr_chunk_trace_begin(trace, 3); /* the other way round */
    dlr_chunk_trace_tick(trace, "B");
    use(trace, 3, DLR_CHUNK_TAKE, 0);
    use(trace, 3, DLR_CHUNK_READ, 0);
    dlr_chunk_trace_end(trace, false);
    dlr_chunk_trace_get(trace, &it);
    assert_int_equal(it.n, 2);
    assert_int_equal(dlr_chunk_least(&it), 40);
    dlr_chunk_trace_free(trace);
}

/* Several go in one moment, until the operator uses one of them again. */
static void chunks_that_the_host_takes_together_open_one_moment(void **state)
{
    struct dlr_chunk_trace *trace = make();
    struct dlr_chunk_iteration it;

    dlr_chunk_trace_begin(trace, 1);
    dlr_chunk_trace_tick(trace, "B");
    for (uint32_t c = 0; c < CHUNKS; c++)
        use(trace, c, DLR_CHUNK_WRITE, 0);
    for (uint32_t c = 0; c < CHUNKS - 1; c++)
        use(trace, c, DLR_CHUNK_TAKE, 0);
    use(trace, 3, DLR_CHUNK_UPDATE, 0);
    use(trace, 3, DLR_CHUNK_TAKE, 0);
    dlr_chunk_trace_end(trace, false);
    dlr_chunk_trace_get(trace, &it);
    assert_int_equal(it.n, 3);
    assert_int_equal(it.moments[1].count, CHUNKS);
    for (uint32_t i = 0; i < it.moments[1].count; i++) {
        const struct dlr_chunk_use *u = &it.uses[it.moments[1].first + i];

        assert_int_equal(u->intent, u->chunk == 3 ? DLR_CHUNK_UPDATE : DLR_CHUNK_TAKE);
    }
    assert_int_equal(it.moments[2].count, 1);
    assert_int_equal(dlr_chunk_least(&it), 100);
    dlr_chunk_trace_free(trace);
}

/* Each iteration has a few bytes more somewhere, each time elsewhere. */
static void bytes_that_jitter_are_recorded_until_the_most_is_known(void **state)
{
    struct dlr_chunk_trace *trace = make();
    struct dlr_chunk_iteration it;
    unsigned recorded = 0;

    srand(25);
    for (unsigned k = 0; k < 600; k++) {
        const unsigned more = rand() % 40;

        recorded += dlr_chunk_trace_begin(trace, 1);
        for (unsigned t = 0; t < 40; t++) {
            dlr_chunk_trace_tick(trace, "other");
            dlr_chunk_trace_others(trace, t == more ? 103 : 100);
        }
        dlr_chunk_trace_end(trace, false);
    }
    assert_true(recorded > 1 && recorded <= 40);
    dlr_chunk_trace_get(trace, &it);
    for (unsigned t = 0, low = 0; t < it.n; t++)
        assert_true((low += it.moments[t].others < 103) < 10);
    dlr_chunk_trace_begin(trace, 2); /* other shapes know nothing of it */
    iterate(trace, 7, CHUNKS);
    dlr_chunk_trace_end(trace, false);
    dlr_chunk_trace_get(trace, &it);
    assert_int_equal(it.moments[0].others, 7);
    dlr_chunk_trace_free(trace);
}

static void a_long_iteration_is_recorded_whole(void **state)
{
    struct dlr_chunk_trace *trace = make();
    struct dlr_chunk_iteration it;

    dlr_chunk_trace_begin(trace, 1);
    for (unsigned k = 0; k < 10000; k++) {
        dlr_chunk_trace_tick(trace,
                             "an operator with a name that is longer than names are");
        dlr_chunk_trace_use(trace, k % CHUNKS, DLR_CHUNK_READ);
    }
    assert_int_equal(dlr_chunk_trace_end(trace, false), 1);
    dlr_chunk_trace_get(trace, &it);
    assert_int_equal(it.n, 10000);
    for (unsigned k = 0; k < it.n; k++)
        assert_int_equal(it.uses[it.moments[k].first].chunk, k % CHUNKS);
    assert_int_equal(strlen(it.moments[9].name), DLR_CHUNK_OPERATOR - 1);
    dlr_chunk_trace_free(trace);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_iteration_is_recorded),
        cmocka_unit_test(the_same_again_is_foreseen),
        cmocka_unit_test(other_shapes_are_recorded_at_once),
        cmocka_unit_test(three_surprises_in_a_row_record_again),
        cmocka_unit_test(more_of_anything_is_a_surprise),
        cmocka_unit_test(a_shorter_iteration_counts_as_another_one),
        cmocka_unit_test(an_iteration_that_overflowed_leaves_all_as_it_was),
        cmocka_unit_test(what_the_host_takes_of_an_operator_was_on_the_device),
        cmocka_unit_test(chunks_that_the_host_takes_together_open_one_moment),
        cmocka_unit_test(bytes_that_jitter_are_recorded_until_the_most_is_known),
        cmocka_unit_test(a_long_iteration_is_recorded_whole),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
