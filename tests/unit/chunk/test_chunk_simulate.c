/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator and the policies: counts that were predicted, closed forms, a second
 * simulator that looks everything up in the iteration itself, and every possible choice.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chunk/prefetch.h"

#define LAYERS 64
#define STATE 6 /* an optimizer chunk, in 16-bit chunks */
#define MOMENTS 4096
#define CHUNKS (2 * LAYERS)

static struct dlr_chunk_moment moments[MOMENTS];
static struct dlr_chunk_use uses[2 * MOMENTS];
static uint64_t bytes[CHUNKS];
static struct dlr_chunk_iteration it;
static uint32_t nuses;

/* --- iterations ----------------------------------------------------------------------- */

static void empty(uint32_t chunks)
{
    it = (struct dlr_chunk_iteration){moments, uses, bytes, 0, chunks};
    nuses = 0;
}

static void add_moment(const char *name, unsigned number, uint64_t others)
{
    struct dlr_chunk_moment *m = &moments[it.n++];

    assert_true(it.n < MOMENTS);
    *m = (struct dlr_chunk_moment){.first = nuses, .others = others};
    snprintf(m->name, sizeof(m->name), "%s %u", name, number);
}

static void add_use(uint32_t chunk, enum dlr_chunk_intent intent)
{
    uses[nuses++] = (struct dlr_chunk_use){chunk, intent};
    moments[it.n - 1].count++;
}

/* What the counts are about. */
struct setup {
    unsigned tide, batches;
    bool vertical;   /* all micro-batches of a layer, then the next layer */
    bool parameters; /* alone: gradients lie elsewhere */
    unsigned adam;   /* layers whose update runs on the device, the first ones */
    bool state;      /* their optimizer chunks come to the device as well */
};

static uint64_t tide_at(const struct setup *s, unsigned layer)
{
    return (s->tide * (layer + 1) + LAYERS - 1) / LAYERS;
}

static void pass(const struct setup *s, unsigned layer, bool forward)
{
    add_moment(forward ? "F" : "B", layer, tide_at(s, layer));
    add_use(layer, forward || s->parameters ? DLR_CHUNK_READ : DLR_CHUNK_WRITE);
}

static void passes(const struct setup *s, bool forward)
{
    for (unsigned k = 0; k < LAYERS; k++)
        for (unsigned batch = 0; batch < (s->vertical ? s->batches : 1); batch++)
            pass(s, forward ? k : LAYERS - 1 - k, forward);
}

static void make(const struct setup *s)
{
    empty(2 * LAYERS);
    for (unsigned k = 0; k < LAYERS; k++) {
        bytes[k] = 1;
        bytes[LAYERS + k] = STATE;
    }
    for (unsigned batch = 0; batch < (s->vertical ? 1 : s->batches); batch++) {
        passes(s, true);
        passes(s, false);
    }
    for (unsigned k = 0; k < LAYERS; k++) {
        add_moment("Adam", k, 0);
        add_use(k, k < s->adam ? DLR_CHUNK_WRITE : DLR_CHUNK_TAKE);
        if (k < s->adam && s->state)
            add_use(LAYERS + k, DLR_CHUNK_UPDATE);
    }
}

static struct dlr_chunk_counts play(uint64_t arena, const char *policy)
{
    const struct dlr_chunk_policy *p = dlr_chunk_policy_find(policy);
    struct dlr_chunk_counts counts = {0};
    struct dlr_chunk_shortage shortage;
    struct dlr_err err = {0};

    assert_non_null(p);
    if (dlr_chunk_simulate(&it, arena, p, &counts, &shortage, &err) < 0)
        fail_msg("%s", err.text);
    return counts;
}

static uint64_t moved(const struct setup *s, uint64_t arena, const char *policy)
{
    struct dlr_chunk_counts counts;

    make(s);
    counts = play(arena, policy);
    return counts.up + counts.down;
}

/* --- counts that were predicted ------------------------------------------------------- */

static void each_policy_copies_what_was_predicted(void **state)
{
    static const struct setup cpu = {.tide = 24, .batches = 1},
                              device = {.tide = 24, .batches = 1, .adam = LAYERS},
                              high = {.tide = 40, .batches = 1, .adam = LAYERS},
                              four = {.tide = 40, .batches = 4, .parameters = true},
                              sixteen = {.tide = 40, .batches = 16, .parameters = true};
    static const struct {
        const struct setup *setup;
        const char *policy;
        unsigned copies;
    } rows[] = {
        {&cpu, "weighted", 168},     {&cpu, "furthest", 168},
        {&cpu, "lru", 168},          {&cpu, "fifo", 168},
        {&cpu, "static", 168},       {&cpu, "patrickstar", 255},
        {&device, "furthest", 148},  {&device, "weighted", 144},
        {&device, "lru", 202},       {&device, "static", 202},
        {&high, "furthest", 172},    {&high, "weighted", 172},
        {&high, "patrickstar", 182}, {&high, "static", 282},
        {&four, "furthest", 342},    {&four, "weighted", 342},
        {&four, "lru", 393},         {&sixteen, "weighted", 1230},
    };

    for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const uint64_t copies = moved(rows[i].setup, 48, rows[i].policy);

        if (copies != rows[i].copies)
            fail_msg("row %u, %s: %" PRIu64 " and not %u", i, rows[i].policy, copies,
                     rows[i].copies);
    }
}

/* The issue says 128: each parameter once in each pass. What the last layers have at the
 * turn needs no copy, 48 - 40 of them.
 */
static void the_vertical_schedule_copies_the_same_for_any_micro_batches(void **state)
{
    for (unsigned batches = 1; batches <= 16; batches++) {
        const struct setup s = {
            .tide = 40, .batches = batches, .vertical = true, .parameters = true};

        assert_int_equal(moved(&s, 48, "weighted"), 2 * LAYERS - (48 - 40));
    }
}

static void a_save_in_each_iteration_costs_what_was_predicted(void **state)
{
    static const struct {
        unsigned arena, tide, adam, none, copy, chunks;
    } rows[] = {
        {160, 120, 16, 160, 256, 160},
        {320, 300, 48, 348, 636, 348},
        {160, 80, 16, 132, 228, 144},
    };

    for (unsigned i = 0; i < 3; i++) {
        const struct setup s = {
            .tide = rows[i].tide, .batches = 1, .adam = rows[i].adam, .state = true};
        struct dlr_chunk_counts counts;

        make(&s);
        counts = play(rows[i].arena, "furthest");
        assert_int_equal(counts.down, rows[i].none);
        assert_int_equal(counts.down + counts.save_copy, rows[i].copy);
        assert_int_equal(counts.down + counts.save_chunks, rows[i].chunks);
    }
}

/* --- closed forms --------------------------------------------------------------------- */

/* With Adam on the host each parameter goes up in forward, what the turn does not keep
 * in backward, each gradient down: whatever the policy.
 */
static void one_micro_batch_with_adam_on_the_host_is_a_formula(void **state)
{
    for (unsigned arena = 2; arena < 80; arena++)
        for (unsigned tide = 0; tide < arena; tide++) {
            const struct setup s = {.tide = tide, .batches = 1};
            const unsigned kept = arena - tide < LAYERS ? arena - tide : LAYERS;

            for (unsigned i = 0; dlr_chunk_policy_at(i); i++)
                if (!dlr_chunk_policy_at(i)->exclusive && (arena + tide) % 7 == i)
                    assert_int_equal(moved(&s, arena, dlr_chunk_policy_at(i)->name),
                                     3 * LAYERS - kept);
        }
}

static void where_all_fits_only_gradients_and_parameters_are_copied(void **state)
{
    const struct setup host = {.tide = 9, .batches = 3},
                       device = {
                           .tide = 9, .batches = 3, .adam = LAYERS, .state = true};

    assert_int_equal(moved(&host, 7 * LAYERS + 9, NULL), 2 * LAYERS);
    assert_int_equal(moved(&device, 7 * LAYERS + 9, NULL), 0);
    assert_int_equal(moved(&device, 7 * LAYERS + 9, "static"), 0);
    assert_int_equal(moved(&device, 7 * LAYERS + 9, "patrickstar"), 0);
    assert_int_equal(play(7 * LAYERS + 9, NULL).peak, 7 * LAYERS);
}

/* --- another simulator ------------------------------------------------------------------ */

/* Everything is found by looking at the moments one after the other: O(n²). */
struct naive {
    bool here[CHUNKS], dirty[CHUNKS], went[CHUNKS];
    unsigned used[CHUNKS], loaded[CHUNKS], now;
    uint64_t up, down;
};

static const struct dlr_chunk_use *use_at(uint32_t moment, uint32_t chunk)
{
    const struct dlr_chunk_moment *m = &moments[moment % it.n];

    for (uint32_t i = 0; i < m->count; i++)
        if (uses[m->first + i].chunk == chunk)
            return &uses[m->first + i];
    return NULL;
}

static unsigned distance(uint32_t moment, uint32_t chunk)
{
    unsigned far = 1;

    while (!use_at(moment + far, chunk))
        far++;
    return far;
}

static uint64_t held(const struct naive *n)
{
    uint64_t sum = 0;

    for (uint32_t c = 0; c < it.chunks; c++)
        sum += n->here[c] ? bytes[c] : 0;
    return sum;
}

static void away(struct naive *n, uint32_t c, bool exclusive)
{
    if (n->dirty[c] || exclusive) {
        n->down += bytes[c];
        n->went[c] = true;
    }
    n->here[c] = n->dirty[c] = false;
}

/* Higher goes first; the fields of a policy by its name. */
static double rank(const struct naive *n, const char *policy, uint32_t t, uint32_t c)
{
    if (policy[0] == 'w')
        return distance(t, c) / (n->dirty[c] ? 2.0 : 1.0);
    if (policy[0] == 'l')
        return -(double)n->used[c];
    return policy[1] == 'i' ? -(double)n->loaded[c] : distance(t, c);
}

static bool naive_moment(struct naive *n, const char *policy, uint64_t arena,
                         uint32_t t)
{
    const uint64_t o = moments[t].others > moments[(t + 1) % it.n].others
                           ? moments[t].others
                           : moments[(t + 1) % it.n].others;
    const bool exclusive = policy[0] == 'p';
    uint64_t more = 0;

    for (uint32_t c = 0; c < it.chunks; c++) {
        const struct dlr_chunk_use *u = use_at(t, c);

        if (u && u->intent == DLR_CHUNK_TAKE && n->here[c]) {
            n->down += exclusive ? bytes[c] : 0;
            away(n, c, exclusive);
        }
        more += u && u->intent != DLR_CHUNK_TAKE && !n->here[c] ? bytes[c] : 0;
    }
    while (held(n) + more + o > arena) {
        uint32_t best = it.chunks;

        for (uint32_t c = it.chunks; c-- > 0;)
            if (n->here[c] && !use_at(t, c) &&
                (best == it.chunks ||
                 rank(n, policy, t, c) >= rank(n, policy, t, best)))
                best = c;
        if (best == it.chunks)
            return false; /* nothing is left that may go */
        away(n, best, exclusive);
    }
    n->now++;
    for (uint32_t c = 0; c < it.chunks; c++) {
        const struct dlr_chunk_use *u = use_at(t, c);

        if (u && u->intent != DLR_CHUNK_TAKE) {
            n->up += n->here[c] ? 0 : bytes[c];
            n->loaded[c] = n->here[c] ? n->loaded[c] : n->now;
            n->here[c] = true;
            n->used[c] = n->now;
            n->dirty[c] |= u->intent != DLR_CHUNK_READ;
        }
    }
    return true;
}

/* False: it does not fit. */
static bool naive_play(const char *policy, uint64_t arena, unsigned iterations,
                       struct naive *n)
{
    memset(n, 0, sizeof(*n));
    for (unsigned k = 0; k < iterations; k++) {
        n->up = n->down = 0;
        memset(n->went, 0, sizeof(n->went));
        for (uint32_t t = 0; t < it.n; t++)
            if (!naive_moment(n, policy, arena, t))
                return false;
    }
    return true;
}

static void random_iteration(void)
{
    const unsigned chunks = 2 + rand() % 8;

    empty(chunks);
    for (unsigned c = 0; c < chunks; c++)
        bytes[c] = 1 + rand() % 4;
    for (unsigned t = 0, n = 3 + rand() % 30; t < n; t++) {
        add_moment("op", t, rand() % 6);
        for (unsigned c = 0; c < chunks; c++)
            if (rand() % chunks == 0)
                add_use(c, rand() % 6 ? rand() % 3 : DLR_CHUNK_TAKE);
    }
}

/* Of all that is updated on the device, what has not been written back anyway. */
static uint64_t naive_save(const struct naive *n)
{
    uint64_t sum = 0;

    for (uint32_t c = 0; c < it.chunks; c++) {
        bool updated = false;

        for (uint32_t t = 0; t < it.n; t++)
            updated |= use_at(t, c) && use_at(t, c)->intent == DLR_CHUNK_UPDATE;
        sum += updated && !n->went[c] ? bytes[c] : 0;
    }
    return sum;
}

static void random_iterations_are_played_as_by_looking_everything_up(void **state)
{
    static const char *const names[] = {"weighted", "furthest", "lru", "fifo",
                                        "patrickstar"};
    static struct naive n;

    srand(21);
    for (unsigned k = 0; k < 600; k++) {
        const char *name = names[k % 5];
        struct dlr_chunk_counts counts;
        uint64_t arena;

        random_iteration();
        arena = dlr_chunk_least(&it) + rand() % 8;
        counts = play(arena, name);
        assert_true(naive_play(name, arena, counts.iterations < 64 ? 70 : 64, &n));
        assert_int_equal(counts.up, n.up);
        assert_int_equal(counts.down, n.down);
        assert_int_equal(counts.save_chunks, naive_save(&n));
    }
}

/* --- what fits ------------------------------------------------------------------------ */

static void it_says_no_exactly_where_a_run_would_fail(void **state)
{
    static struct naive n;

    srand(22);
    for (unsigned k = 0; k < 600; k++) {
        struct dlr_chunk_shortage shortage = {0};
        struct dlr_chunk_counts counts;
        struct dlr_err err;
        uint64_t arena;

        random_iteration();
        for (arena = 0; arena < dlr_chunk_least(&it); arena++) {
            assert_false(naive_play("lru", arena, 3, &n));
            assert_int_equal(dlr_chunk_simulate(&it, arena,
                                                dlr_chunk_policy_at(arena % 6), &counts,
                                                &shortage, &err),
                             -ENOSPC);
            assert_true(shortage.missing > 0 && shortage.moment < it.n);
            assert_int_equal(shortage.least, dlr_chunk_least(&it));
        }
        assert_true(naive_play("lru", arena, 3, &n));
        for (unsigned i = 0; dlr_chunk_policy_at(i); i++)
            assert_true(play(arena, dlr_chunk_policy_at(i)->name).peak <= arena);
    }
}

static void a_shortage_is_said_in_a_line(void **state)
{
    const struct setup s = {.tide = 24, .batches = 1, .adam = 1, .state = true};
    struct dlr_chunk_counts counts;
    struct dlr_chunk_shortage shortage;
    struct dlr_err err;

    make(&s);
    assert_int_equal(
        dlr_chunk_simulate(&it, 24, dlr_chunk_policy_at(0), &counts, &shortage, &err),
        -ENOSPC);
    assert_string_equal(err.text, "1 bytes are missing at operator 'F 60' (61 of 192): "
                                  "the device needs 25 bytes");
    assert_int_equal(shortage.moment, 60);
    uses[5].chunk = CHUNKS;
    assert_int_equal(
        dlr_chunk_simulate(&it, 48, dlr_chunk_policy_at(0), &counts, &shortage, &err),
        -EINVAL);
    assert_string_equal(err.text, "operator 'F 5' uses chunk 128 of 128");
    empty(1);
    assert_int_equal(
        dlr_chunk_simulate(&it, 48, dlr_chunk_policy_at(0), &counts, &shortage, &err),
        -EINVAL);
    assert_string_equal(err.text, "an iteration without operators");
}

/* --- copies beside operators ------------------------------------------------------------ */

static bool there[CHUNKS][MOMENTS];

/* From moment from to before moment to, where it was not; how many those are. */
static unsigned mark(uint32_t chunk, uint32_t from, uint32_t to)
{
    unsigned count = 0;

    for (uint32_t t = from % it.n; t != to % it.n; t = (t + 1) % it.n, count++) {
        assert_false(there[chunk][t]);
        there[chunk][t] = true;
    }
    return count;
}

/* From where it is needed to its last use, and where it is written back. */
static void mark_moves(const struct dlr_chunk_move *moves, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct dlr_chunk_move *m = &moves[i], *go = m;

        for (uint32_t k = 1; m->up && (go == m || go->chunk != m->chunk); k++)
            go = &moves[(i + k) % n];
        if (m->up) {
            assert_false(go->up);
            there[m->chunk][m->moment] = true;
            mark(m->chunk, m->moment + 1,
                 m->moment == go->used ? m->moment + 1 : go->used + 1);
            if (go->copied && (go->used + 1) % it.n != go->moment)
                mark(m->chunk, go->used + 1, go->used + 2);
        }
    }
}

/* Each chunk has its uses, and is not there, nor on its way, where the host takes it; no
 * moment has more than its budget. How many chunks of those that come are there so many
 * moments before.
 */
static unsigned copies_fit(uint64_t arena, const char *policy, unsigned early)
{
    const struct dlr_chunk_policy *p = dlr_chunk_policy_find(policy);
    struct dlr_chunk_shortage shortage;
    struct dlr_chunk_move *moves = NULL;
    struct dlr_chunk_copy *copies = NULL;
    struct dlr_err err = {0};
    uint32_t n = 0, ncopies = 0;
    unsigned count = 0;

    memset(there, 0, sizeof(there));
    if (dlr_chunk_simulate_moves(&it, arena, p, &moves, &n, &shortage, &err) == -EDOM)
        return 0;
    assert_int_equal(
        dlr_chunk_prefetch(&it, arena, p, &copies, &ncopies, &shortage, &err), 0);
    mark_moves(moves, n);
    for (uint32_t i = 0; i < ncopies; i++)
        count += copies[i].up &&
                 mark(copies[i].chunk, copies[i].begin, copies[i].end) >= early;
    for (uint32_t t = 0; t < it.n; t++) {
        uint64_t sum = 0;

        for (uint32_t c = 0; c < it.chunks; c++) {
            const struct dlr_chunk_use *u = use_at(t, c);
            bool moves_ever = false;

            for (uint32_t i = 0; i < n; i++)
                moves_ever |= moves[i].chunk == c;
            if (u && u->intent != DLR_CHUNK_TAKE && moves_ever)
                assert_true(there[c][t]);
            if (u && u->intent == DLR_CHUNK_TAKE)
                assert_false(there[c][t]);
            for (uint32_t k = 0; k < it.n && !moves_ever && !there[c][t]; k++)
                there[c][t] = use_at(k, c) && use_at(k, c)->intent != DLR_CHUNK_TAKE;
            sum += there[c][t] ? bytes[c] : 0;
        }
        assert_true(sum <= dlr_chunk_budget(&it, arena, t));
    }
    free(moves);
    free(copies);
    return count;
}

static void copies_begin_early_and_never_take_more_than_the_budget(void **state)
{
    srand(24);
    for (unsigned k = 0; k < 600; k++) {
        random_iteration();
        copies_fit(dlr_chunk_least(&it) + rand() % 8, dlr_chunk_policy_at(k % 6)->name,
                   0);
    }
}

/* So many layers, each a chunk of one byte, with Adam on the host in one moment or in one
 * for each.
 */
static void make_layers(unsigned layers, bool one)
{
    empty(layers);
    for (unsigned k = 0; k < layers; k++) {
        bytes[k] = 1;
        add_moment("F", k, 0);
        add_use(k, DLR_CHUNK_READ);
    }
    for (unsigned k = layers; k-- > 0;) {
        add_moment("B", k, 0);
        add_use(k, DLR_CHUNK_WRITE);
    }
    for (unsigned k = 0; k < layers; k++) {
        if (k == 0 || !one)
            add_moment("Adam", k, 0);
        add_use(k, DLR_CHUNK_TAKE);
    }
}

/* Moments between the beginning of the copy and this use of the chunk. */
static unsigned ahead(uint64_t arena, uint32_t chunk, uint32_t moment)
{
    struct dlr_chunk_shortage shortage;
    struct dlr_chunk_copy *copies = NULL;
    struct dlr_err err = {0};
    uint32_t n = 0;
    unsigned moments_ahead = UINT32_MAX;

    assert_int_equal(dlr_chunk_prefetch(&it, arena, dlr_chunk_policy_at(0), &copies, &n,
                                        &shortage, &err),
                     0);
    for (uint32_t i = 0; i < n; i++)
        if (copies[i].up && copies[i].chunk == chunk && copies[i].end == moment)
            moments_ahead = (moment + it.n - copies[i].begin) % it.n;
    free(copies);
    return moments_ahead;
}

/* Not for lack of room: before, the copy would be of what Adam is about to change. */
static void no_chunk_comes_before_the_host_has_changed_it(void **state)
{
    for (unsigned layers = 1; layers <= 6; layers++)
        for (unsigned one = 0; one < 2; one++)
            for (uint64_t arena = 1; arena <= layers + 1; arena++) {
                make_layers(layers, one);
                copies_fit(arena, NULL, 0);
            }
    make_layers(4, true);
    for (unsigned k = 0; k < 4; k++)
        assert_int_equal(ahead(5, k, k), k);
    make_layers(2, false);
    assert_int_equal(ahead(3, 0, 0), 1);
    assert_int_equal(ahead(3, 1, 1), 1);
}

/* All of them, where memory is twice the least; with the least itself 113 of 127. */
static void chunks_come_two_operators_ahead_where_there_is_room(void **state)
{
    const struct setup s = {.tide = 24, .batches = 1};

    make(&s);
    assert_int_equal(copies_fit(48, NULL, 0), 104);
    assert_int_equal(copies_fit(48, NULL, 2), 104);
    assert_int_equal(copies_fit(25, NULL, 0), 127);
    assert_int_equal(copies_fit(25, NULL, 2), 113);
}

/* --- every possible choice -------------------------------------------------------------- */

#define SMALL 5
#define DEPTH 14

/* The fewest chunks that must be loaded from moment t on, whoever goes: one chunk of one
 * byte in each moment, nothing written. here: a set of chunks.
 */
static unsigned fewest(uint32_t t, unsigned here, unsigned room)
{
    unsigned one, least = UINT32_MAX;

    if (t == DEPTH)
        return 0;
    one = 1u << uses[moments[t].first].chunk;
    if (here & one)
        return fewest(t + 1, here, room);
    if ((unsigned)__builtin_popcount(here) < room)
        return 1 + fewest(t + 1, here | one, room);
    for (unsigned c = 0; c < SMALL; c++)
        if (here & 1u << c) {
            const unsigned n = 1 + fewest(t + 1, (here & ~(1u << c)) | one, room);

            least = n < least ? n : least;
        }
    return least;
}

/* The host takes all at the end, so that each iteration begins with nothing. */
static void no_choice_loads_less_than_the_furthest_next_use(void **state)
{
    srand(23);
    for (unsigned k = 0; k < 60; k++) {
        const unsigned room = 2 + rand() % 2;

        empty(SMALL);
        for (unsigned t = 0; t < DEPTH; t++) {
            add_moment("op", t, 0);
            bytes[t % SMALL] = 1;
            add_use(rand() % SMALL, DLR_CHUNK_READ);
        }
        add_moment("end", 0, 0);
        for (unsigned c = 0; c < SMALL; c++)
            add_use(c, DLR_CHUNK_TAKE);
        assert_int_equal(play(room, "furthest").up, fewest(0, 0, room));
        assert_int_equal(play(room, NULL).up, fewest(0, 0, room));
    }
}

/* --- names ------------------------------------------------------------------------------ */

static void policies_have_names(void **state)
{
    assert_ptr_equal(dlr_chunk_policy_find(NULL), dlr_chunk_policy_at(0));
    assert_string_equal(dlr_chunk_policy_at(0)->name, "weighted");
    assert_null(dlr_chunk_policy_find("best"));
    for (unsigned i = 0; dlr_chunk_policy_at(i); i++)
        assert_ptr_equal(dlr_chunk_policy_find(dlr_chunk_policy_at(i)->name),
                         dlr_chunk_policy_at(i));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_policy_copies_what_was_predicted),
        cmocka_unit_test(the_vertical_schedule_copies_the_same_for_any_micro_batches),
        cmocka_unit_test(a_save_in_each_iteration_costs_what_was_predicted),
        cmocka_unit_test(one_micro_batch_with_adam_on_the_host_is_a_formula),
        cmocka_unit_test(where_all_fits_only_gradients_and_parameters_are_copied),
        cmocka_unit_test(random_iterations_are_played_as_by_looking_everything_up),
        cmocka_unit_test(it_says_no_exactly_where_a_run_would_fail),
        cmocka_unit_test(a_shortage_is_said_in_a_line),
        cmocka_unit_test(copies_begin_early_and_never_take_more_than_the_budget),
        cmocka_unit_test(no_chunk_comes_before_the_host_has_changed_it),
        cmocka_unit_test(chunks_come_two_operators_ahead_where_there_is_room),
        cmocka_unit_test(no_choice_loads_less_than_the_furthest_next_use),
        cmocka_unit_test(policies_have_names),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
