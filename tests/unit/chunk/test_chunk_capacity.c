/* SPDX-License-Identifier: Apache-2.0 */
/* build: lib=m */
/* Bytes of a model on nodes and devices: those of the documents' table, and sums by hand.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "chunk/capacity.h"

#define GIB (UINT64_C(1) << 30)
#define CHUNK (UINT64_C(8) << 20) /* elements */

static struct dlr_chunk_capacity capacity(const struct dlr_chunk_job *job)
{
    struct dlr_chunk_capacity c = {0};
    struct dlr_err err = {0};

    if (dlr_chunk_capacity(job, &c, &err) < 0)
        fail_msg("%s", err.text);
    return c;
}

/* 64 nodes of one GPU, 1,000 chunks each. Of parity the fullest node holds as much as of a
 * partner's copies, however long the sets are; the margin is a row of its own.
 */
static void bytes_for_a_parameter_are_those_of_the_table(void **state)
{
    static const struct {
        unsigned copies, members, spare;
        bool unprotected;
        double bytes;
    } rows[] = {
        {0, 0, 10, true, 14},    {0, 0, 10, false, 27.2}, {0, 0, 100, false, 38},
        {1, 0, 10, false, 51.2}, {1, 0, 100, false, 62},  {1, 4, 10, false, 51.2},
        {1, 4, 100, false, 62},  {2, 4, 10, false, 51.2}, {2, 4, 100, false, 62},
        {2, 0, 10, false, 75.2}, {4, 2, 10, false, 75.2}, {1, 32, 10, false, 51.2},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct dlr_chunk_job job = {.params = 64 * 1000 * CHUNK,
                                          .nodes = 64,
                                          .gpus = 64,
                                          .layers = 64,
                                          .spare_percent = rows[i].spare,
                                          .copies = rows[i].copies,
                                          .members = rows[i].members,
                                          .unprotected = rows[i].unprotected};
        const struct dlr_chunk_capacity c = capacity(&job);
        const double bytes = (double)(c.node_bytes - c.margin_bytes) / (1000.0 * CHUNK);

        if (fabs(bytes - rows[i].bytes) > 1e-9)
            fail_msg("row %u: %.3f and not %.3f", i, bytes, rows[i].bytes);
    }
}

static void thirteen_billion_on_sixteen_gpus(void **state)
{
    const struct dlr_chunk_job job = {.params = UINT64_C(13000000000),
                                      .nodes = 2,
                                      .gpus = 16,
                                      .layers = 40,
                                      .device_bytes = 80 * GIB,
                                      .program_bytes = 4 * GIB,
                                      .spare_percent = 10,
                                      .copies = 1};
    const struct dlr_chunk_capacity c = capacity(&job);

    assert_int_equal(c.elems, CHUNK);
    assert_int_equal(c.chunks, 1550);
    assert_int_equal(c.rank_chunks, 97);
    assert_int_equal(c.ranks, 8);
    assert_int_equal(c.live, 776);
    assert_int_equal(c.before, 776);
    assert_int_equal(c.spares, 78);
    assert_int_equal(c.others, 1552);
    assert_int_equal(c.margin_bytes,
                     (776 * 2 * CHUNK + (2 * 776 + 78 + 1552) * 12 * CHUNK + 19) / 20);
    assert_int_equal(c.node_bytes, 776 * 2 * CHUNK +
                                       (2 * 776 + 78 + 1552) * 12 * CHUNK +
                                       c.margin_bytes + 32 * GIB);
    assert_int_equal(c.layer, 39);
    assert_int_equal(c.margin, 3);
    assert_int_equal(c.device_least, 44 * 2 * CHUNK);
    assert_int_equal(c.sent, 776 * 12 * CHUNK);
    assert_int_equal(c.received, c.sent);
}

/* Ranks of a node with one chunk more than others are not all of its ranks. */
static void the_fullest_node_has_what_its_ranks_own(void **state)
{
    struct dlr_chunk_job job = {
        .params = 1003 * CHUNK, .nodes = 2, .gpus = 16, .layers = 1};

    job.unprotected = true; /* 62 for each rank, and 11 more */
    assert_int_equal(capacity(&job).rank_chunks, 63);
    assert_int_equal(capacity(&job).live, 8 * 62 + 8);
    job.params = 995 * CHUNK;
    assert_int_equal(capacity(&job).rank_chunks, 63);
    assert_int_equal(capacity(&job).live, 8 * 62 + 3);
}

/* A holder has one shard for all of a set, and two rows are on two nodes; sets are
 * smaller where holders must be outside of them.
 */
static void the_fullest_node_holds_parity_of_whole_sets(void **state)
{
    static const struct {
        unsigned nodes, copies, members, shards, gets;
    } rows[] = {
        {4, 1, 4, 1, 2},    /* two sets of two */
        {8, 1, 4, 1, 4},    /* two of four */
        {64, 1, 4, 1, 4},   /* 16 of four */
        {64, 2, 4, 1, 4},   /* 32 shards on 64 nodes */
        {64, 4, 2, 2, 4},   /* 128 shards on 64 nodes */
        {9, 2, 4, 1, 3},    /* three of three */
        {5, 4, 32, 4, 4},   /* each node alone */
        {6, 4, 4, 2, 4},    /* three of two: 12 shards on 6 nodes */
        {33, 1, 32, 1, 17}, /* two of 17 and 16 */
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct dlr_chunk_job job = {.params = rows[i].nodes * 100 * CHUNK,
                                          .nodes = rows[i].nodes,
                                          .gpus = rows[i].nodes,
                                          .layers = 1,
                                          .copies = rows[i].copies,
                                          .members = rows[i].members};
        const struct dlr_chunk_capacity c = capacity(&job);

        assert_int_equal(c.others, 2 * 100 * rows[i].shards);
        assert_int_equal(c.sent, rows[i].copies * 100 * 12 * CHUNK);
        assert_int_equal(c.received, rows[i].gets * 100 * 12 * CHUNK);
    }
}

static void few_nodes_share_more_parity(void **state)
{
    struct dlr_chunk_job job = {.params = 5 * CHUNK * 100,
                                .nodes = 5,
                                .gpus = 5,
                                .layers = 1,
                                .copies = 1,
                                .members = 4};

    assert_int_equal(capacity(&job).others, 200);
    job.nodes = job.gpus = 3;
    assert_int_equal(capacity(&job).live, 167);
    assert_int_equal(capacity(&job).others, 2 * 167);
    job.copies = 2;
    assert_int_equal(capacity(&job).others, 4 * 167);
    assert_int_equal(capacity(&job).sent, 2 * 167 * 12 * CHUNK);
}

static void small_models_have_small_chunks(void **state)
{
    struct dlr_chunk_job job = {.params = 1, .nodes = 1, .gpus = 3, .layers = 9};
    const struct dlr_chunk_capacity c = capacity(&job);

    assert_int_equal(c.elems, 1 << 19);
    assert_int_equal(c.live, 1);
    job.params = UINT64_C(20) * (1 << 19) * 3;
    assert_int_equal(capacity(&job).elems, 3 << 19);
}

static void what_cannot_be_is_refused_in_a_line(void **state)
{
    static const struct {
        struct dlr_chunk_job job;
        const char *says;
    } rows[] = {
        {{0}, "0 parameters: it must be 1 to 17592186044416"},
        {{.params = 1}, "0 GPUs on 0 nodes: each node has one at least"},
        {{.params = 1, .nodes = 2, .gpus = 1},
         "1 GPUs on 2 nodes: each node has one at least"},
        {{.params = 1, .nodes = 1, .gpus = 1}, "a model has 1 layer at least"},
        {{.params = 1, .nodes = 1, .gpus = UINT32_MAX, .layers = 1},
         "4294967295 GPUs: it must be 1048576 at most"},
        {{.params = 1, .nodes = 1, .gpus = 1, .layers = 1, .spare_percent = 101},
         "101 % of frames to spare: 100 is all that is used"},
        {{.params = 1, .nodes = 1, .gpus = 1, .layers = 1, .copies = 1},
         "copies on 1 other nodes need more than 1 nodes: redundancy none needs no "
         "other"},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_chunk_capacity c;
        struct dlr_err err;

        assert_int_equal(dlr_chunk_capacity(&rows[i].job, &c, &err), -EINVAL);
        assert_string_equal(err.text, rows[i].says);
    }
}

static void what_cannot_be_counted_is_refused_in_a_line(void **state)
{
    const struct dlr_chunk_job most = {.params = UINT64_C(1) << 44,
                                       .nodes = 1u << 20,
                                       .gpus = 1u << 20,
                                       .layers = 1,
                                       .spare_percent = 100,
                                       .copies = 4,
                                       .members = 32},
                               rows[] = {
                                   {.params = 1,
                                    .nodes = 1,
                                    .gpus = 8,
                                    .layers = 1,
                                    .program_bytes = UINT64_C(1) << 61},
                                   {.params = 1,
                                    .nodes = 1,
                                    .gpus = 1,
                                    .layers = 1,
                                    .program_bytes = INT64_MAX},
                               };

    assert_true(capacity(&most).node_bytes > 0);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dlr_chunk_capacity c;
        struct dlr_err err;

        assert_int_equal(dlr_chunk_capacity(&rows[i], &c, &err), -EOVERFLOW);
        assert_string_equal(err.text, "a node would need more bytes than there are");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_for_a_parameter_are_those_of_the_table),
        cmocka_unit_test(thirteen_billion_on_sixteen_gpus),
        cmocka_unit_test(the_fullest_node_has_what_its_ranks_own),
        cmocka_unit_test(the_fullest_node_holds_parity_of_whole_sets),
        cmocka_unit_test(few_nodes_share_more_parity),
        cmocka_unit_test(small_models_have_small_chunks),
        cmocka_unit_test(what_cannot_be_is_refused_in_a_line),
        cmocka_unit_test(what_cannot_be_counted_is_refused_in_a_line),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
