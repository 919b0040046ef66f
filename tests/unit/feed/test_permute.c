/* SPDX-License-Identifier: Apache-2.0 */
/* build: lib=m */
/* The permutation of a feed: each index once, back again, and as random as a shuffled
 * deck. The bounds of chi square are six deviations above the mean: a sound one passes
 * them, 4 rounds do not (tests/negative/few_rounds.patch).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "feed/permute.h"

#define MOST 3000
#define SMALL 50

static void each_index_comes_once_for_every_size(void **state)
{
    static unsigned char seen[MOST];
    struct dlr_permute p;

    for (uint64_t size = 1; size <= MOST; size++) {
        memset(seen, 0, sizeof(seen));
        dlr_permute_init(&p, size, size * 7 + 1);
        for (uint64_t place = 0; place < size; place++) {
            const uint64_t index = dlr_permute_at(&p, place);

            assert_true(index < size && !seen[index]);
            seen[index] = 1;
            assert_int_equal(dlr_permute_find(&p, index), place);
        }
    }
}

static void sizes_up_to_the_largest_come_back(void **state)
{
    static const uint64_t sizes[] = {
        UINT64_C(1000000000000), UINT64_C(999999999989),  (UINT64_C(1) << 32) - 1,
        UINT64_C(1) << 32,       (UINT64_C(1) << 32) + 1, (UINT64_C(1) << 52) + 12345,
        DLR_PERMUTE_MAX - 1,     DLR_PERMUTE_MAX,
    };
    struct dlr_permute p;

    for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        dlr_permute_init(&p, sizes[s], s);
        for (unsigned i = 0; i < 20000; i++) {
            uint64_t place = dlr_permute_mix(s, i) % sizes[s];

            if (i < 2)
                place = i ? sizes[s] - 1 : 0;
            const uint64_t index = dlr_permute_at(&p, place);

            assert_true(index < sizes[s]);
            assert_int_equal(dlr_permute_find(&p, index), place);
        }
    }
}

/* Of counts that are expected to be alike; degrees of freedom are one less. */
static double chi_square(const unsigned *count, unsigned n, double expected)
{
    double sum = 0;

    for (unsigned i = 0; i < n; i++)
        sum += (count[i] - expected) * (count[i] - expected) / expected;
    return sum;
}

static void assert_even(const char *what, const unsigned *count, unsigned n,
                        double expected)
{
    const double freedom = n - 1, chi = chi_square(count, n, expected);

    if (chi > freedom + 6 * sqrt(2 * freedom))
        fail_msg("%s: chi square %.0f at %.0f degrees of freedom", what, chi, freedom);
}

/* Over keys that are alike but for one bit or one step, as those of epochs are. */
static void neighbours_are_at_any_distance(void **state)
{
    enum { KEYS = 200000 };
    static unsigned count[SMALL - 1];
    struct dlr_permute p;

    memset(count, 0, sizeof(count));
    for (unsigned key = 0; key < KEYS; key++) {
        dlr_permute_init(&p, SMALL, key);
        const uint64_t a = dlr_permute_at(&p, key % (SMALL - 1)),
                       b = dlr_permute_at(&p, key % (SMALL - 1) + 1);

        count[(b + SMALL - a) % SMALL - 1]++;
    }
    assert_even("distance of neighbours", count, SMALL - 1, KEYS / (SMALL - 1.0));
}

static void every_index_comes_at_every_place(void **state)
{
    enum { KEYS = 50000 };
    static unsigned count[SMALL * SMALL];
    struct dlr_permute p;

    memset(count, 0, sizeof(count));
    for (unsigned key = 0; key < KEYS; key++) {
        dlr_permute_init(&p, SMALL, key);
        for (unsigned place = 0; place < SMALL; place++)
            count[place * SMALL + dlr_permute_at(&p, place)]++;
    }
    assert_even("positions", count, SMALL * SMALL, (double)KEYS / SMALL);
}

/* Their number has mean 1 and is 0, 1, 2, 3 or more as a Poisson's. */
static void fixed_points_are_as_many_as_of_a_shuffled_deck(void **state)
{
    enum { KEYS = 40000 };
    static const double part[] = {0.367879, 0.367879, 0.183940, 0.080301};
    unsigned count[4] = {0};
    struct dlr_permute p;
    double chi = 0;

    for (unsigned key = 0; key < KEYS; key++) {
        unsigned fixed = 0;

        dlr_permute_init(&p, SMALL, dlr_permute_mix(1, key));
        for (unsigned place = 0; place < SMALL; place++)
            fixed += dlr_permute_at(&p, place) == place;
        count[fixed < 3 ? fixed : 3]++;
    }
    for (unsigned i = 0; i < 4; i++)
        chi += pow(count[i] - part[i] * KEYS, 2) / (part[i] * KEYS);
    if (chi > 3 + 6 * sqrt(6))
        fail_msg("fixed points: chi square %.1f at 3 degrees of freedom", chi);
}

static void another_key_is_another_order(void **state)
{
    struct dlr_permute a, b;
    unsigned same = 0;

    dlr_permute_init(&a, 1000000, 5);
    dlr_permute_init(&b, 1000000, 6);
    for (unsigned place = 0; place < 10000; place++)
        same += dlr_permute_at(&a, place) == dlr_permute_at(&b, place);
    assert_true(same < 5);
    dlr_permute_init(&b, 1000000, 5);
    for (unsigned place = 0; place < 100; place++)
        assert_int_equal(dlr_permute_at(&a, place), dlr_permute_at(&b, place));
}

/* Versions are restored years later: the order is a format. */
static void the_order_is_the_one_that_was_released(void **state)
{
    static const uint64_t of_ten[] = {2, 9, 6, 5, 7, 3, 4, 1, 8, 0};
    struct dlr_permute p;

    dlr_permute_init(&p, 10, 1);
    for (unsigned place = 0; place < 10; place++)
        assert_int_equal(dlr_permute_at(&p, place), of_ten[place]);
    dlr_permute_init(&p, UINT64_C(1000000000000), 1);
    assert_int_equal(dlr_permute_at(&p, 0), UINT64_C(547505839852));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_index_comes_once_for_every_size),
        cmocka_unit_test(sizes_up_to_the_largest_come_back),
        cmocka_unit_test(neighbours_are_at_any_distance),
        cmocka_unit_test(every_index_comes_at_every_place),
        cmocka_unit_test(fixed_points_are_as_many_as_of_a_shuffled_deck),
        cmocka_unit_test(another_key_is_another_order),
        cmocka_unit_test(the_order_is_the_one_that_was_released),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
