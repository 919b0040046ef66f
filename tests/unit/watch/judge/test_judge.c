/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/cleanup.h"
#include "tests/unit/watch/judge/program_model.h"
#include "watch/judge/judge.h"
#include "watch/judge/learn.h"

#define PROGRAMS 10000
#define HEALTHY_PROGRAMS 2500
#define TICKS_MAX 4000
#define APART 12 /* ticks between two looks, more than any computing takes */
#define SKEW 3
#define FIRST_STEP 1800ull

struct looks {
    struct dlr_look before[MODEL_RANKS], after[MODEL_RANKS];
    struct dlr_judge_rank ranks[MODEL_RANKS];
    struct dlr_learn learn;
    uint8_t parts[MODEL_RANKS];
    struct dlr_verdict verdict;
};

static struct model model;
static struct looks looks;

static void learn(struct dlr_learn *l)
{
    *l = (struct dlr_learn){0};
    dlr_learn_step(l, 10ull * MODEL_TICK_NS / 3);
}

static void look_at(const struct model *m, uint32_t rank, bool second)
{
    struct dlr_judge_rank *r = &looks.ranks[rank];

    r->before = &looks.before[rank];
    r->after = &looks.after[rank];
    model_look(m, rank, second ? &looks.after[rank] : &looks.before[rank]);
    if (!second)
        return;
    r->still_ns = model_still_ns(m, rank);
    r->limit_ns =
        dlr_learn_limit_ns(&looks.learn, r->after, FIRST_STEP * MODEL_TICK_NS);
}

static void judge(const struct model *m)
{
    const struct dlr_judge_input in = {
        .ranks = looks.ranks, .n = m->n, .calls = model_calls, .ncalls = MODEL_CALLS};

    assert_int_equal(dlr_judge(&in, looks.parts, &looks.verdict), 0);
}

/* Not all ranks at once, as agents do. */
static void look_and_judge(struct model *m)
{
    uint32_t skew[MODEL_RANKS];

    for (uint32_t r = 0; r < m->n; r++)
        skew[r] = model_random(m, SKEW);
    for (uint32_t tick = 0; tick < APART + SKEW; tick++) {
        for (uint32_t r = 0; r < m->n; r++) {
            if (tick == skew[r])
                look_at(m, r, false);
            if (tick == APART + skew[r])
                look_at(m, r, true);
        }
        model_tick(m);
    }
    judge(m);
}

static bool is_culprit(uint32_t rank)
{
    return looks.parts[rank] == DLR_PART_CULPRIT;
}

static bool only_culprits(const struct model *m, uint32_t a, uint32_t b)
{
    for (uint32_t r = 0; r < m->n; r++)
        if (is_culprit(r) != (r == a || r == b))
            return false;
    return true;
}

static bool only_members(const struct model *m, uint32_t comm)
{
    uint32_t members = 0;

    for (uint32_t i = 0; i < m->sizes[comm]; i++)
        members += is_culprit(m->members[comm][i]);
    return members == m->sizes[comm] && looks.verdict.culprits == members;
}

static bool all_have_left(const struct model *m)
{
    for (uint32_t r = 0; r < m->n; r++)
        if (is_culprit(r) && !m->ranks[r].finished)
            return false;
    return true;
}

static bool is_right(const struct model *m)
{
    const struct dlr_verdict *v = &looks.verdict;
    const bool only = only_culprits(m, m->who, m->who);

    switch (m->fault) {
    case MODEL_LOOP:
        return only && v->kind == DLR_VERDICT_STILL && v->blame > DLR_BLAME_DISK;
    case MODEL_STOP:
        return only && v->kind == DLR_VERDICT_STUCK && v->blame == DLR_BLAME_STOPPED;
    case MODEL_LEAVE: /* who receives from anybody may miss any that has left */
        return is_culprit(m->who) &&
               (v->blame == DLR_BLAME_DEADLOCK ||
                (v->kind == (v->number ? DLR_VERDICT_STUCK : DLR_VERDICT_STILL) &&
                 v->blame == DLR_BLAME_LEFT && (only || all_have_left(m))));
    case MODEL_CROSS:
        return only_culprits(m, m->who, m->other) && v->kind == DLR_VERDICT_STILL &&
               v->blame == DLR_BLAME_DEADLOCK;
    case MODEL_MISMATCH:
        return is_culprit(m->who) && v->kind == DLR_VERDICT_STUCK &&
               v->blame == DLR_BLAME_MISMATCH &&
               (only || m->sizes[m->events[m->fault_event].comm] == 2);
    case MODEL_SKIP:
    case MODEL_SWAP:
        return is_culprit(m->who) &&
               (v->kind == DLR_VERDICT_STUCK || v->blame == DLR_BLAME_AHEAD ||
                v->blame == DLR_BLAME_DEADLOCK);
    case MODEL_LOST:
        return v->kind == DLR_VERDICT_STILL && v->blame == DLR_BLAME_NETWORK &&
               only_members(m, m->events[m->fault_event].comm);
    default: /* a message that is slow may be named, and proves nothing */
        return v->kind == DLR_VERDICT_NONE ||
               (v->kind == DLR_VERDICT_STILL && m->now < m->flies + SKEW &&
                (v->blame == DLR_BLAME_NETWORK || v->blame == DLR_BLAME_DEADLOCK));
    }
}

static void show(const struct model *m)
{
    const struct dlr_verdict *v = &looks.verdict;

    print_message(
        "seed %llu, fault %d, rank %u (%u), %u ranks: kind %d, %s, comm %llu number "
        "%llu, culprits",
        (unsigned long long)m->seed, m->fault, m->who, m->other, m->n, v->kind,
        dlr_blame_name(v->blame), (unsigned long long)v->comm,
        (unsigned long long)v->number);
    for (uint32_t r = 0; r < m->n; r++)
        print_message("%s %u", is_culprit(r) ? " culprit" : "", r);
    print_message(", parts");
    for (uint32_t r = 0; r < m->n; r++)
        print_message(" %d", looks.parts[r]);
    print_message("\n");
}

static bool run_until_still(struct model *m)
{
    for (uint32_t i = 0; i < TICKS_MAX && !model_is_still(m); i++)
        model_tick(m);
    return model_is_still(m);
}

/* Whether the fault has made the program stand still. */
static bool has_trouble(const struct model *m)
{
    return !model_is_over(m);
}

/* The same programs each time; others by DLROVER_TEST_SEED. */
static uint64_t seed_of_run(void)
{
    const char *given = getenv("DLROVER_TEST_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 10) : 20260705;

    print_message("DLROVER_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static void culprit_is_right_in_random_programs(void **state)
{
    uint64_t seed = seed_of_run();
    unsigned tried = 0, wrong = 0;

    learn(&looks.learn);
    while (tried < PROGRAMS && wrong < 5) {
        const enum model_fault fault = MODEL_LOOP + tried % (MODEL_FAULTS - 1);

        if (!model_make(&model, seed++, fault))
            continue;
        assert_true(run_until_still(&model));
        if (!has_trouble(&model))
            continue;
        model.now += FIRST_STEP + APART;
        look_and_judge(&model);
        tried++;
        if (!is_right(&model)) {
            show(&model);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void no_verdict_on_programs_without_a_fault(void **state)
{
    uint64_t seed = seed_of_run();
    unsigned wrong = 0, judged = 0;

    learn(&looks.learn);
    for (unsigned i = 0; i < HEALTHY_PROGRAMS && wrong < 5; i++) {
        assert_true(model_make(&model, seed++, MODEL_HEALTHY));
        while (!model_is_over(&model) && wrong < 5) {
            assert_true(model.now < TICKS_MAX);
            look_and_judge(&model);
            judged++;
            if (!is_right(&model)) {
                show(&model);
                wrong++;
            }
            for (uint32_t t = model_random(&model, 2 * APART); t > 0; t--)
                model_tick(&model);
        }
    }
    print_message("%u verdicts\n", judged);
    assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(culprit_is_right_in_random_programs),
        cmocka_unit_test(no_verdict_on_programs_without_a_fault),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
