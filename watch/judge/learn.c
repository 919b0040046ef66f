/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/judge/learn.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"

#define SECOND_NS 1000000000u
#define LEAST_NS (3ull * SECOND_NS)
#define STEPS 3 /* a step that takes so many is no step any more */
#define WORDS (sizeof(struct dlr_learn) / 8)
#define MAGIC 0x314e524c524c44ull /* "DLRLRN1" */

static_assert(sizeof(struct dlr_learn) % 8 == 0, "words only");

static size_t count_steps(const struct dlr_learn *l)
{
    return l->nsteps < DLR_LEARN_STEPS ? (size_t)l->nsteps : DLR_LEARN_STEPS;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Of n values, which are sorted for it. */
static uint64_t median_of(uint64_t *values, size_t n)
{
    if (n == 0)
        return 0;
    qsort(values, n, sizeof(*values), compare);
    return values[(n - 1) / 2];
}

uint64_t dlr_learn_median_ns(const struct dlr_learn *l)
{
    uint64_t values[DLR_LEARN_STEPS];

    memcpy(values, l->steps_ns, sizeof(values));
    return median_of(values, count_steps(l));
}

uint64_t dlr_learn_mad_ns(const struct dlr_learn *l)
{
    const uint64_t median = dlr_learn_median_ns(l);
    uint64_t values[DLR_LEARN_STEPS];

    for (size_t i = 0; i < count_steps(l); i++)
        values[i] =
            l->steps_ns[i] > median ? l->steps_ns[i] - median : median - l->steps_ns[i];
    return median_of(values, count_steps(l));
}

void dlr_learn_step(struct dlr_learn *l, uint64_t took_ns)
{
    l->steps_ns[l->nsteps++ % DLR_LEARN_STEPS] = took_ns;
}

static uint64_t limit_of_steps(const struct dlr_learn *l)
{
    const uint64_t median = dlr_learn_median_ns(l);

    if (median > UINT64_MAX / STEPS)
        return UINT64_MAX;
    return median * STEPS > LEAST_NS ? median * STEPS : LEAST_NS;
}

/* Of the phase, else of the operation that was entered last. */
static uint64_t key_of(const struct dlr_look *look)
{
    const struct dlr_look_comm *last = NULL;
    uint64_t words[2];

    if (look->phase_ns)
        return 1ull << 32 | dlr_hash(look->phase, strnlen(look->phase, DLR_LOOK_NAME));
    for (uint32_t i = 0; i < look->ncomms && i < DLR_LOOK_COMMS; i++)
        if (!last || look->comms[i].entered_ns > last->entered_ns)
            last = &look->comms[i];
    words[0] = last ? last->id : 0;
    words[1] = last ? last->op : 0;
    return 2ull << 32 | dlr_hash(words, sizeof(words));
}

static struct dlr_learn_place *find_place(struct dlr_learn *l, uint64_t key)
{
    for (size_t i = 0; i < DLR_LEARN_PLACES; i++)
        if (l->places[i].key == key)
            return &l->places[i];
    return NULL;
}

/* A free one, else the one that has come least often. */
static struct dlr_learn_place *take_place(struct dlr_learn *l)
{
    struct dlr_learn_place *least = &l->places[0];

    for (size_t i = 0; i < DLR_LEARN_PLACES; i++)
        if (l->places[i].times < least->times)
            least = &l->places[i];
    return least;
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* It comes again after so many steps, or after a part of that. */
static void learn_period(struct dlr_learn_place *p, uint64_t step)
{
    const uint64_t apart = step > p->step ? step - p->step : p->step - step;

    if (step == UINT64_MAX || p->step == UINT64_MAX)
        p->period = 0;
    else if (apart > 0)
        p->period = p->period ? divisor(p->period, apart) : apart;
    p->step = step;
}

void dlr_learn_gap(struct dlr_learn *l, const struct dlr_look *stood, uint64_t gap_ns)
{
    const uint64_t key = key_of(stood);
    struct dlr_learn_place *p = find_place(l, key);

    if (gap_ns < limit_of_steps(l) / STEPS)
        return;
    if (!p) {
        p = take_place(l);
        *p = (struct dlr_learn_place){.key = key, .step = stood->step};
    }
    learn_period(p, stood->step);
    p->times++;
    if (gap_ns > p->longest_ns)
        p->longest_ns = gap_ns;
}

static uint64_t limit_of_place(const struct dlr_learn *l, const struct dlr_look *look)
{
    const uint64_t key = key_of(look);

    for (size_t i = 0; i < DLR_LEARN_PLACES; i++) {
        const struct dlr_learn_place *p = &l->places[i];

        if (p->key == key &&
            (!p->period || look->step % p->period == p->step % p->period))
            return p->longest_ns > UINT64_MAX / 2 ? UINT64_MAX
                                                  : p->longest_ns + p->longest_ns / 4;
    }
    return 0;
}

uint64_t dlr_learn_limit_ns(const struct dlr_learn *l, const struct dlr_look *look,
                            uint64_t first_step_ns)
{
    const uint64_t place = limit_of_place(l, look);
    uint64_t limit = limit_of_steps(l);

    if (look->paused)
        return UINT64_MAX;
    if (look->phase_ns)
        limit = look->phase_limit_ns ? look->phase_limit_ns : first_step_ns;
    else if (look->step == UINT64_MAX || !look->steps_ns || !l->nsteps)
        limit = first_step_ns;
    return place > limit ? place : limit;
}

void dlr_learn_pack(const struct dlr_learn *l, unsigned char bytes[DLR_LEARN_BYTES])
{
    uint64_t words[WORDS + 2] = {htole64(MAGIC)};

    memcpy(&words[1], l, sizeof(*l));
    for (size_t i = 1; i <= WORDS; i++)
        words[i] = htole64(words[i]);
    words[WORDS + 1] = htole64(dlr_hash(words, (WORDS + 1) * 8));
    memcpy(bytes, words, sizeof(words));
}

int dlr_learn_unpack(const void *bytes, size_t size, struct dlr_learn *ret)
{
    uint64_t words[WORDS + 2];

    if (size != sizeof(words))
        return -EINVAL;
    memcpy(words, bytes, sizeof(words));
    if (le64toh(words[0]) != MAGIC ||
        le64toh(words[WORDS + 1]) != dlr_hash(words, (WORDS + 1) * 8))
        return -EINVAL;
    for (size_t i = 1; i <= WORDS; i++)
        words[i] = le64toh(words[i]);
    memcpy(ret, &words[1], sizeof(*ret));
    return 0;
}
