/* SPDX-License-Identifier: Apache-2.0 */
/* The map of a model: what must hold of any model, and where tensors of known ones lie.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chunk/map.h"

#define MOST 400
#define E DLR_CHUNK_UNIT
#define UNTIED DLR_CHUNK_UNTIED

static char names[MOST][16];
static struct dlr_chunk_tensor tensors[MOST];

/* Tensor i of the model that is made next. */
static struct dlr_chunk_tensor *tensor(uint32_t i, uint32_t module, uint64_t elems)
{
    snprintf(names[i], sizeof(names[i]), "t%u", i);
    tensors[i] = (struct dlr_chunk_tensor){
        .name = names[i], .module = module, .tied = UNTIED, .elems = elems};
    return &tensors[i];
}

static struct dlr_chunk_map *make(uint32_t n, uint64_t elems)
{
    struct dlr_chunk_map *map = NULL;
    struct dlr_err err = {0};

    if (dlr_chunk_map_new(tensors, n, elems, &map, &err) < 0)
        fail_msg("%s", err.text);
    return map;
}

static void refused(uint32_t n, uint64_t elems, const char *says)
{
    struct dlr_chunk_map *map = NULL;
    struct dlr_err err = {0};

    assert_int_equal(dlr_chunk_map_new(tensors, n, elems, &map, &err), -EINVAL);
    assert_null(map);
    assert_string_equal(err.text, says);
}

static void lies(const struct dlr_chunk_map *map, uint32_t i, uint32_t chunk,
                 uint32_t chunks, uint64_t offset)
{
    const struct dlr_chunk_place p = dlr_chunk_map_place(map, i);

    if (p.chunk != chunk || p.chunks != chunks || p.offset != offset)
        fail_msg("tensor %u: %u chunks from %u at %" PRIu64, i, p.chunks, p.chunk,
                 p.offset);
}

/* --- any model ---------------------------------------------------------------------- */

static uint64_t random_elems(void)
{
    switch (rand() % 5) {
    case 0:
        return 1 + rand() % 1000;
    case 1:
        return rand() % 3; /* none, too */
    case 2:
        return E * (1 + rand() % 3) + rand() % 5 - 2;
    default:
        return 1 + rand() % (2 * E);
    }
}

static uint32_t random_model(void)
{
    const uint32_t n = 1 + rand() % MOST;
    uint32_t module = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct dlr_chunk_tensor *t;
        const uint32_t other = i > 0 ? rand() % i : 0;

        module += rand() % 4 == 0;
        t = tensor(i, module, random_elems());
        t->type = rand() % 8 ? DLR_CHUNK_BF16 : DLR_CHUNK_F16;
        t->group = rand() % 10 ? 0 : 1 + rand() % 3;
        t->flags = rand() % 8 ? 0 : rand() % 4;
        if (i > 0 && rand() % 10 == 0 && tensors[other].tied == UNTIED) {
            const char *name = t->name;

            *t = tensors[other];
            t->name = name;
            t->tied = other;
        }
    }
    return n;
}

static bool has_place(const struct dlr_chunk_tensor *t)
{
    return t->elems > 0 && !(t->flags & DLR_CHUNK_KEPT);
}

/* Its elements in one chunk: from *ret to before the end that is returned. */
static uint64_t part(const struct dlr_chunk_map *map, uint32_t i, uint32_t chunk,
                     uint64_t *ret)
{
    const struct dlr_chunk_place p = dlr_chunk_map_place(map, i);
    const uint64_t before = (uint64_t)(chunk - p.chunk) * dlr_chunk_map_elems(map);
    const uint64_t left = tensors[i].elems - before;

    *ret = p.offset;
    if (p.chunks == 1)
        return p.offset + tensors[i].elems;
    assert_int_equal(p.offset, 0);
    return left < dlr_chunk_map_elems(map) ? left : dlr_chunk_map_elems(map);
}

/* Tensors with a place of their own: no two share an element, each lies in chunks of its
 * kind, all that is used is a tensor's or alignment.
 */
static void holds(const struct dlr_chunk_map *map, uint32_t n)
{
    const uint32_t chunks = dlr_chunk_map_chunks(map);
    uint64_t *ends = calloc(chunks + 1, sizeof(*ends)), sum = 0, from;

    for (uint32_t i = 0; i < n; i++) {
        const struct dlr_chunk_tensor *t = &tensors[i];
        const struct dlr_chunk_place p = dlr_chunk_map_place(map, i);

        if (!has_place(t)) {
            assert_int_equal(p.chunks, 0);
            continue;
        }
        if (t->tied != UNTIED) {
            const struct dlr_chunk_place other = dlr_chunk_map_place(map, t->tied);

            assert_memory_equal(&p, &other, sizeof(p));
            continue;
        }
        sum += t->elems;
        assert_true(p.chunks > 0 && p.chunk + p.chunks <= chunks);
        assert_int_equal(p.offset % DLR_CHUNK_ALIGN, 0);
        for (uint32_t c = p.chunk; c < p.chunk + p.chunks; c++) {
            const struct dlr_chunk_info info = dlr_chunk_map_info(map, c);
            const uint64_t to = part(map, i, c, &from);

            assert_int_equal(info.type, t->type);
            assert_int_equal(info.frozen, (t->flags & DLR_CHUNK_FROZEN) != 0);
            assert_true(from >= ends[c] && to > from);
            assert_true(from < ends[c] + DLR_CHUNK_ALIGN);
            assert_true(to <= info.used && info.used <= dlr_chunk_map_elems(map));
            ends[c] = to;
        }
    }
    for (uint32_t c = 0; c < chunks; c++)
        assert_int_equal(ends[c], dlr_chunk_map_info(map, c).used);
    assert_int_equal(dlr_chunk_map_wasted(map),
                     chunks * dlr_chunk_map_elems(map) - sum);
    free(ends);
}

static void random_models_keep_their_tensors_apart(void **state)
{
    srand(20);
    for (unsigned k = 0; k < 400; k++) {
        const uint32_t n = random_model();
        struct dlr_chunk_map *map = make(n, k % 3 ? E * (1 + rand() % 4) : 0);

        holds(map, n);
        dlr_chunk_map_free(map);
    }
}

static void a_module_that_fits_into_a_chunk_is_never_cut(void **state)
{
    srand(21);
    for (unsigned k = 0; k < 200; k++) {
        const uint32_t n = 1 + rand() % 100;
        struct dlr_chunk_map *map;

        for (uint32_t i = 0; i < n; i++) /* four of them fit, whatever their sizes */
            tensor(i, i / 4, 1 + rand() % (E / 4 - DLR_CHUNK_ALIGN));
        map = make(n, E);
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(dlr_chunk_map_place(map, i).chunk,
                             dlr_chunk_map_place(map, i / 4 * 4).chunk);
        dlr_chunk_map_free(map);
    }
}

/* The search against each size that it may take. */
static void no_size_near_the_one_found_wastes_less(void **state)
{
    srand(22);
    for (unsigned k = 0; k < 20; k++) {
        uint32_t n = 100 + rand() % 200;
        uint64_t sum = 0, found;
        struct dlr_chunk_map *map;

        for (uint32_t i = 0; i < n; i++)
            sum += tensor(i, i / 3, 1 + rand() % (4 * E))->elems;
        map = make(n, 0);
        found = dlr_chunk_map_elems(map);
        for (uint64_t units = 1; units <= sum / 16 / E; units++) {
            struct dlr_chunk_map *other = make(n, units * E);

            if (units * 4 >= sum / 16 / E && units <= 32)
                assert_true(dlr_chunk_map_wasted(map) <= dlr_chunk_map_wasted(other));
            if (units * E == found)
                assert_int_equal(dlr_chunk_map_hash(map), dlr_chunk_map_hash(other));
            dlr_chunk_map_free(other);
        }
        dlr_chunk_map_free(map);
    }
}

/* --- known models --------------------------------------------------------------------- */

static void a_tensor_longer_than_a_chunk_goes_on_in_the_next_ones(void **state)
{
    struct dlr_chunk_map *map;

    tensor(0, 0, 1000);
    tensor(1, 1, 2 * E + 5);
    tensor(2, 1, 7);
    tensor(3, 2, 3 * E);
    map = make(4, E);
    lies(map, 0, 0, 1, 0);
    lies(map, 1, 1, 3, 0);
    lies(map, 2, 3, 1, 128);
    lies(map, 3, 4, 3, 0);
    assert_int_equal(dlr_chunk_map_chunks(map), 7);
    assert_int_equal(dlr_chunk_map_info(map, 3).used, 128 + 7);
    dlr_chunk_map_free(map);
}

/* As transformers have them: no weight decay for norms and biases. */
static void small_groups_lie_in_one_resident_chunk(void **state)
{
    struct dlr_chunk_map *map;

    for (uint32_t i = 0; i < 40; i += 2) {
        tensor(i, i / 2, E - 10);
        tensor(i + 1, i / 2, 1000)->group = 1 + i % 3;
    }
    map = make(40, E);
    assert_int_equal(dlr_chunk_map_chunks(map), 21);
    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(
            dlr_chunk_map_info(map, dlr_chunk_map_place(map, i).chunk).resident, i % 2);
    dlr_chunk_map_free(map);
}

/* Together they fill a half: the third one, and what is larger, has chunks like others.
 */
static void groups_that_fit_no_more_are_not_resident(void **state)
{
    static const uint64_t elems[] = {E / 4, E / 4, E / 4, E, E};
    struct dlr_chunk_map *map;

    for (uint32_t i = 0; i < 5; i++)
        tensor(i, i, elems[i])->group = i;
    map = make(5, E);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(
            dlr_chunk_map_info(map, dlr_chunk_map_place(map, i).chunk).resident, i < 2);
    dlr_chunk_map_free(map);
}

static void a_module_longer_than_a_chunk_begins_in_the_rest_of_one(void **state)
{
    struct dlr_chunk_map *map;

    tensor(0, 0, E / 2);
    tensor(1, 1, E / 2);
    tensor(2, 1, E);
    map = make(3, E);
    lies(map, 1, 0, 1, E / 2);
    lies(map, 2, 1, 1, 0);
    dlr_chunk_map_free(map);
}

/* What lies in the resident chunk takes no room among the others. */
static void a_module_is_as_long_as_what_of_it_is_not_resident(void **state)
{
    struct dlr_chunk_map *map;

    tensor(0, 0, E / 2);
    tensor(1, 1, E / 4)->group = 1;
    tensor(2, 1, E / 2);
    tensor(3, 2, E);
    map = make(4, E);
    lies(map, 2, 0, 1, E / 2);
    dlr_chunk_map_free(map);
}

static void chunks_of_a_huge_model_are_not_huge(void **state)
{
    struct dlr_chunk_map *map;

    for (uint32_t i = 0; i < 300; i++)
        tensor(i, i, 128 * E);
    map = make(300, 0);
    assert_int_equal(dlr_chunk_map_elems(map), DLR_CHUNK_USUAL);
    dlr_chunk_map_free(map);
}

static void frozen_tensors_share_no_chunk_with_trained_ones(void **state)
{
    struct dlr_chunk_map *map;

    tensor(0, 0, 10)->flags = DLR_CHUNK_FROZEN;
    tensor(1, 0, 10);
    tensor(2, 0, 10)->flags = DLR_CHUNK_FROZEN;
    tensor(3, 0, 10)->flags = DLR_CHUNK_KEPT;
    tensor(4, 0, 0);
    map = make(5, 0);
    lies(map, 0, 0, 1, 0);
    lies(map, 1, 1, 1, 0);
    lies(map, 2, 0, 1, 128);
    lies(map, 3, 0, 0, 0);
    lies(map, 4, 0, 0, 0);
    assert_true(dlr_chunk_map_info(map, 0).frozen);
    assert_false(dlr_chunk_map_info(map, 0).resident);
    dlr_chunk_map_free(map);
}

/* 24 layers of 12 d² + 13 d parameters, d = 1024, words and places before them. */
static void a_real_model_wastes_less_than_one_in_twenty(void **state)
{
    const uint64_t d = 1024;
    const uint64_t of_layer[] = {d, d, 3 * d * d, 3 * d, d * d,     d,
                                 d, d, 4 * d * d, 4 * d, 4 * d * d, d};
    struct dlr_chunk_map *map;
    uint32_t n = 2;

    tensor(0, 0, 50257 * d);
    tensor(1, 1, 1024 * d);
    for (unsigned layer = 0; layer < 24; layer++)
        for (unsigned k = 0; k < 12; k++, n++)
            tensor(n, 2 + layer, of_layer[k])->group = of_layer[k] < d * d;
    map = make(n, 0);
    assert_true(dlr_chunk_map_wasted(map) * 20 <
                dlr_chunk_map_chunks(map) * dlr_chunk_map_elems(map));
    assert_true(dlr_chunk_map_elems(map) >= 4 * DLR_CHUNK_UNIT);
    dlr_chunk_map_free(map);
}

static void lists_have_the_same_offsets_and_begin_at_check_blocks(void **state)
{
    struct dlr_chunk_map *map;

    tensor(0, 0, 10);
    map = make(1, 2 * E);
    assert_int_equal(dlr_chunk_map_at(map, DLR_CHUNK_PARAM, 256), 512);
    assert_int_equal(dlr_chunk_map_at(map, DLR_CHUNK_MASTER, 256), 1024);
    assert_int_equal(dlr_chunk_map_at(map, DLR_CHUNK_MOMENTUM, 256), 8 * E + 1024);
    assert_int_equal(dlr_chunk_map_at(map, DLR_CHUNK_VARIANCE, 256), 16 * E + 1024);
    assert_int_equal(dlr_chunk_map_at(map, DLR_CHUNK_VARIANCE, 0) % (1 << 20), 0);
    assert_int_equal(dlr_chunk_owner(7, 4), 3);
    dlr_chunk_map_free(map);
}

static void another_model_has_another_hash(void **state)
{
    uint64_t hash[8];

    for (unsigned k = 0; k < 8; k++) {
        struct dlr_chunk_map *map;

        tensor(0, 0, k == 1 ? 11 : 10);
        tensor(1, 0, 20)->group = k == 2;
        tensors[1].type = k == 3 ? DLR_CHUNK_BF16 : DLR_CHUNK_F16;
        if (k == 4)
            tensors[1].name = "other";
        tensors[1].flags = k == 5 ? DLR_CHUNK_FROZEN : k == 6 ? DLR_CHUNK_KEPT : 0;
        map = make(2, k == 7 ? 2 * E : E);
        hash[k] = dlr_chunk_map_hash(map);
        for (unsigned i = 0; i < k; i++)
            assert_true(hash[i] != hash[k]);
        dlr_chunk_map_free(map);
    }
}

/* Of tensors without a place, which could tell it as well. */
static void other_ties_have_another_hash(void **state)
{
    static const uint32_t ties[] = {UNTIED, 0, 1};
    uint64_t hash[3];

    for (unsigned k = 0; k < 3; k++) {
        struct dlr_chunk_map *map;

        for (uint32_t i = 0; i < 3; i++)
            tensor(i, 0, 20)->flags = DLR_CHUNK_KEPT;
        tensors[2].tied = ties[k];
        map = make(3, E);
        hash[k] = dlr_chunk_map_hash(map);
        for (unsigned i = 0; i < k; i++)
            assert_true(hash[i] != hash[k]);
        dlr_chunk_map_free(map);
    }
}

/* --- what is no model ------------------------------------------------------------------- */

static void bad_models_are_refused_in_a_line(void **state)
{
    tensor(0, 0, 10);
    refused(0, 0, "a model has 1 to 16777216 tensors, not 0");
    refused(1, 7,
            "7 elements are no chunk: it must be a multiple of 524288, up to "
            "67108864");
    tensors[0].name = "";
    refused(1, 0, "tensor 0 has no name");
    tensor(0, 0, 10)->type = 7;
    refused(1, 0, "tensor 't0' is neither fp16 nor bf16");
    tensor(0, 0, 10)->flags = 8;
    refused(1, 0, "tensor 't0' has unknown flags 0x8");
    tensor(0, 0, DLR_CHUNK_ELEMS_MAX + 1);
    refused(1, 0, "tensor 't0' has 17592186044417 elements");
    tensor(0, 0, DLR_CHUNK_ELEMS_MAX);
    tensor(1, 0, 1);
    refused(2, 0, "the model has more than 17592186044416 elements");
    tensor(0, 0, 10);
    tensor(1, 0, 10)->name = names[0];
    refused(2, 0, "two tensors are called 't0'");
}

static void bad_ties_are_refused_in_a_line(void **state)
{
    tensor(0, 0, 10);
    tensor(1, 0, 10)->tied = 1;
    refused(2, 0, "tensor 't1' is tied to number 1, which is not before it");
    tensor(1, 0, 10)->tied = 0;
    tensor(2, 0, 10)->tied = 1;
    refused(3, 0, "tensor 't2' is tied to 't1', which is tied itself");
    tensors[1].type = DLR_CHUNK_BF16;
    refused(2, 0, "tensor 't1' has another precision than 't0', to which it is tied");
    tensor(1, 0, 11)->tied = 0;
    refused(2, 0,
            "tensor 't1' has not the elements, group and flags of 't0', to which "
            "it is tied");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_models_keep_their_tensors_apart),
        cmocka_unit_test(a_module_that_fits_into_a_chunk_is_never_cut),
        cmocka_unit_test(no_size_near_the_one_found_wastes_less),
        cmocka_unit_test(a_tensor_longer_than_a_chunk_goes_on_in_the_next_ones),
        cmocka_unit_test(small_groups_lie_in_one_resident_chunk),
        cmocka_unit_test(groups_that_fit_no_more_are_not_resident),
        cmocka_unit_test(a_module_longer_than_a_chunk_begins_in_the_rest_of_one),
        cmocka_unit_test(a_module_is_as_long_as_what_of_it_is_not_resident),
        cmocka_unit_test(chunks_of_a_huge_model_are_not_huge),
        cmocka_unit_test(frozen_tensors_share_no_chunk_with_trained_ones),
        cmocka_unit_test(a_real_model_wastes_less_than_one_in_twenty),
        cmocka_unit_test(lists_have_the_same_offsets_and_begin_at_check_blocks),
        cmocka_unit_test(another_model_has_another_hash),
        cmocka_unit_test(other_ties_have_another_hash),
        cmocka_unit_test(bad_models_are_refused_in_a_line),
        cmocka_unit_test(bad_ties_are_refused_in_a_line),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
