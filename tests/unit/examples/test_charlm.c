/* SPDX-License-Identifier: Apache-2.0 */
/* build: lib=xxhash,m */
#include "examples/charlm.h"

#include "examples/matmul.h"
#include "examples/random.h"
#include "examples/text.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { CONTEXT = 3, BATCH = 5 };

static const struct charlm_size tiny = {
    .context = CONTEXT, .hidden = 10, .inner = 6, .batch = BATCH};

static struct charlm *model(uint64_t seed)
{
    struct charlm *lm = NULL;

    assert_int_equal(charlm_new(&tiny, seed, &lm), 0);
    return lm;
}

static void draw(uint64_t step, uint8_t *samples)
{
    for (unsigned i = 0; i < BATCH * (CONTEXT + 1); i++)
        samples[i] = (uint8_t)(random_at(step, i) % CHARLM_VOCAB);
}

static float uniform(uint64_t seed, uint64_t n)
{
    return (float)(random_at(seed, n) >> 40) * 0x1p-23f - 1.0f;
}

static void check_product(size_t m, size_t n, size_t k, int turned)
{
    float *a = calloc(m * k, sizeof(*a)), *b = calloc(k * n, sizeof(*b));
    float *c = calloc(m * n, sizeof(*c));
    struct matmul *mm = matmul_new();

    for (size_t i = 0; i < m * k; i++)
        a[i] = uniform(1, i);
    for (size_t i = 0; i < k * n; i++)
        b[i] = uniform(2, i);
    (turned ? matmul_turned : matmul)(mm, c, a, b, m, n, k);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;

            for (size_t l = 0; l < k; l++)
                sum += (double)(turned ? a[l * m + i] : a[i * k + l]) * b[l * n + j];
            if (fabs(sum - c[i * n + j]) > 1e-5 * (double)k)
                fail_msg("%zux%zux%zu, item %zu %zu: %g, not %g", m, n, k, i, j,
                         c[i * n + j], sum);
        }
    matmul_free(mm);
    free(a);
    free(b);
    free(c);
}

static void products_are_right_at_every_edge_of_the_blocks(void **state)
{
    static const size_t sizes[][3] = {
        {1, 1, 1},    {4, 8, 16},   {3, 7, 5},    {5, 9, 257},
        {65, 8, 256}, {4, 257, 12}, {67, 259, 3}, {64, 256, 256},
    };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int turned = 0; turned < 2; turned++)
            check_product(sizes[i][0], sizes[i][1], sizes[i][2], turned);
}

/* Where relu has its corner between the two losses the difference quotient is neither
 * slope: such a parameter differs at the larger distances only, a wrong gradient at all
 * of them.
 */
static int differs(struct charlm *lm, const uint8_t *samples, size_t i, float distance)
{
    struct charlm_arrays a = charlm_arrays(lm);
    float kept = a.weights[i], above, below;
    double slope;

    a.weights[i] = kept + distance;
    above = a.weights[i];
    slope = charlm_loss(lm, samples);
    a.weights[i] = kept - distance;
    below = a.weights[i];
    slope = (slope - charlm_loss(lm, samples)) / ((double)above - below);
    a.weights[i] = kept;
    return fabs(slope - a.gradient[i]) > 2e-3 + 2e-2 * fabs(slope);
}

static void gradient_is_the_slope_of_the_loss(void **state)
{
    uint8_t samples[BATCH * (CONTEXT + 1)];
    struct charlm *lm = model(7);
    struct charlm_arrays a = charlm_arrays(lm);
    size_t checked = 0;

    draw(1, samples);
    charlm_gradient(lm, samples);
    for (size_t i = 0; i < a.params; i++) {
        checked += a.gradient[i] != 0.0f;
        if (differs(lm, samples, i, 1e-2f) && differs(lm, samples, i, 2e-3f) &&
            differs(lm, samples, i, 5e-4f))
            fail_msg("parameter %zu of %zu: gradient %g", i, a.params, a.gradient[i]);
    }
    assert_true(checked > CHARLM_VOCAB + tiny.inner);
    charlm_free(lm);
}

static void gradient_carries_the_loss_behind_it(void **state)
{
    uint8_t samples[BATCH * (CONTEXT + 1)];
    struct charlm *lm = model(7);
    struct charlm_arrays a = charlm_arrays(lm);
    float loss;

    draw(1, samples);
    loss = charlm_loss(lm, samples);
    charlm_gradient(lm, samples);
    assert_true(a.gradient[a.params] == loss);
    assert_true(fabsf(loss - logf(CHARLM_VOCAB)) < 1.0f); /* knows nothing yet */
    charlm_free(lm);
}

/* Worked by hand: gradient 1 then -0.5, scaled by 2, rate 0.1. With g = 2, -1:
 * m = 0.2, 0.08; v = 0.004, 0.004996; unbiased m 2, 0.08/0.19; v 4, 0.004996/0.001999.
 */
static void adam_does_what_the_paper_says(void **state)
{
    static const struct {
        float gradient;
        double m, v, change;
    } rows[] = {
        {1.0f, 0.2, 0.004, -0.1 * 2.0 / (2.0 + 1e-8)},
        {-0.5f, 0.08, 0.004996, -0.1 * (0.08 / 0.19) / (1.5809015 + 1e-8)},
    };
    struct charlm *lm = model(7);
    struct charlm_arrays a = charlm_arrays(lm);

    for (unsigned step = 1; step <= 2; step++) {
        float before = a.weights[0];

        a.gradient[0] = rows[step - 1].gradient;
        charlm_adam(lm, step, 0.1f, 2.0f);
        assert_true(fabs(a.moment1[0] - rows[step - 1].m) < 1e-6);
        assert_true(fabs(a.moment2[0] - rows[step - 1].v) < 1e-6);
        assert_true(fabs(a.weights[0] - before - rows[step - 1].change) < 1e-6);
    }
    charlm_free(lm);
}

static uint64_t hash_after(uint64_t seed, unsigned steps, float *ret_loss)
{
    uint8_t samples[BATCH * (CONTEXT + 1)];
    struct charlm *lm = model(seed);
    struct charlm_arrays a = charlm_arrays(lm);
    uint64_t hash;

    draw(1, samples);
    for (unsigned step = 1; step <= steps; step++) {
        charlm_gradient(lm, samples);
        charlm_adam(lm, step, 1e-2f, 1.0f);
    }
    *ret_loss = a.gradient[a.params];
    hash = charlm_hash(lm);
    charlm_free(lm);
    return hash;
}

static void training_learns_and_is_the_same_each_time(void **state)
{
    float first, last;
    uint64_t hash = hash_after(1, 100, &last);

    assert_true(hash_after(1, 100, &last) == hash);
    assert_true(hash_after(2, 100, &last) != hash);
    assert_true(hash_after(1, 1, &first) != hash);
    assert_true(last < 0.5f * first);
}

static void hash_sees_each_array(void **state)
{
    struct charlm *lm = model(1);
    struct charlm_arrays a = charlm_arrays(lm);
    float *const last[] = {a.weights + a.params - 1, a.moment1 + a.params - 1,
                           a.moment2 + a.params - 1};

    for (unsigned i = 0; i < 3; i++) {
        uint64_t hash = charlm_hash(lm);

        *last[i] += 1.0f;
        assert_true(charlm_hash(lm) != hash);
    }
    charlm_free(lm);
}

static void sizes_out_of_proportion_are_refused(void **state)
{
    struct charlm_size size = tiny;
    struct charlm *lm = NULL;

    size.inner = 0;
    assert_int_equal(charlm_new(&size, 1, &lm), -EINVAL);
    size.inner = 1u << 20;
    assert_int_equal(charlm_new(&size, 1, &lm), -EINVAL);
    assert_null(lm);
    charlm_free(NULL);
}

static void write_file(const char *dir, const char *name, char byte, size_t n)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < n; i++)
        fputc(byte, file);
    assert_int_equal(fclose(file), 0);
}

static void remove_in(const char *dir, const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    remove(path);
}

static void text_is_each_file_once_in_the_order_of_names(void **state)
{
    char dir[] = "/tmp/test_charlm.XXXXXX", path[256];
    uint8_t *codes = NULL;
    size_t n = 0;

    assert_non_null(mkdtemp(dir));
    write_file(dir, "b", 'b', 3000);
    write_file(dir, "c", 'c', 3000);
    snprintf(path, sizeof(path), "%s/a", dir);
    assert_int_equal(symlink("c", path), 0);
    snprintf(path, sizeof(path), "%s/d", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(text_load(dir, &codes, &n), 0);
    assert_int_equal(n, 6000);
    assert_int_equal(codes[0], charlm_code('c'));
    assert_int_equal(codes[5999], charlm_code('b'));
    free(codes);
    for (const char *name = "abcd"; *name; name++)
        remove_in(dir, (char[]){*name, '\0'});
    assert_int_equal(text_load(dir, &codes, &n), -ENODATA);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(text_load(dir, &codes, &n), -ENOENT);
}

static void what_is_drawn_depends_on_seed_step_and_rank(void **state)
{
    static const struct {
        uint64_t seed, step;
        unsigned rank;
    } rows[] = {{1, 5, 0}, {1, 6, 0}, {2, 5, 0}, {1, 5, 1}};
    uint8_t codes[200], first[4 * 8], other[4 * 8];

    for (unsigned i = 0; i < sizeof(codes); i++)
        codes[i] = (uint8_t)i;
    for (unsigned i = 0; i < 4; i++) {
        text_draw(codes, sizeof(codes), rows[i].seed, rows[i].step, rows[i].rank, 8, 4,
                  other);
        if (i == 0)
            memcpy(first, other, sizeof(first));
        else
            assert_memory_not_equal(first, other, sizeof(first));
    }
    text_draw(codes, sizeof(codes), 1, 5, 0, 8, 4, other);
    assert_memory_equal(first, other, sizeof(first));
    text_draw(codes, 8, 1, 5, 0, 8, 4, other);
    assert_memory_equal(other + 8, codes, 8);
}

static void every_byte_has_a_code(void **state)
{
    for (unsigned byte = 0; byte < 256; byte++)
        assert_true(charlm_code((unsigned char)byte) < CHARLM_VOCAB);
    assert_int_equal(charlm_code('\n'), 0);
    assert_int_equal(charlm_code(' '), 1);
    assert_int_equal(charlm_code('~'), CHARLM_VOCAB - 1);
    assert_int_equal(charlm_code('\t'), charlm_code(' '));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_right_at_every_edge_of_the_blocks),
        cmocka_unit_test(gradient_is_the_slope_of_the_loss),
        cmocka_unit_test(gradient_carries_the_loss_behind_it),
        cmocka_unit_test(adam_does_what_the_paper_says),
        cmocka_unit_test(training_learns_and_is_the_same_each_time),
        cmocka_unit_test(hash_sees_each_array),
        cmocka_unit_test(sizes_out_of_proportion_are_refused),
        cmocka_unit_test(text_is_each_file_once_in_the_order_of_names),
        cmocka_unit_test(what_is_drawn_depends_on_seed_step_and_rank),
        cmocka_unit_test(every_byte_has_a_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
