/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/charlm.h"

#include "examples/matmul.h"
#include "examples/random.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

enum { LIMIT = 1 << 16 }; /* of each size: products stay far below SIZE_MAX */

static const float BETA1 = 0.9f, BETA2 = 0.999f, EPSILON = 1e-8f;

struct charlm {
    struct charlm_size size;
    size_t params;
    float *weights, *moment1, *moment2, *gradient;
    float *a1, *a2;      /* relu(z1), relu(z2): batch rows */
    float *d1, *d2, *d3; /* gradients of z1, z2, z3 */
    float *turned;       /* a transposed matrix of weights */
    struct matmul *blocks;
};

/* Where each matrix lies in an array of parameters. */
struct parts {
    float *table, *b1, *w2, *b2, *w3, *b3, *end;
};

static size_t count_params(const struct charlm_size *s)
{
    return ((size_t)s->context * CHARLM_VOCAB + 1) * s->hidden +
           ((size_t)s->hidden + 1) * s->inner + ((size_t)s->inner + 1) * CHARLM_VOCAB;
}

static struct parts parts_of(const struct charlm_size *s, float *base)
{
    struct parts p = {.table = base};

    p.b1 = p.table + (size_t)s->context * CHARLM_VOCAB * s->hidden;
    p.w2 = p.b1 + s->hidden;
    p.b2 = p.w2 + (size_t)s->hidden * s->inner;
    p.w3 = p.b2 + s->inner;
    p.b3 = p.w3 + (size_t)s->inner * CHARLM_VOCAB;
    p.end = p.b3 + CHARLM_VOCAB;
    return p;
}

static float *floats(size_t n)
{
    void *p = NULL;

    return posix_memalign(&p, 64, n * sizeof(float)) == 0
               ? memset(p, 0, n * sizeof(float))
               : NULL;
}

/* Uniform in (-limit, limit), numbered from *counter. */
static void fill(float *w, const float *end, float limit, uint64_t seed,
                 uint64_t *counter)
{
    for (; w < end; w++) {
        uint64_t x = random_at(seed, (*counter)++);

        *w = ((float)(x >> 40) * 0x1p-23f - 1.0f) * limit;
    }
}

static void first_weights(struct charlm *lm, uint64_t seed)
{
    struct parts p = parts_of(&lm->size, lm->weights);
    uint64_t counter = 0;

    fill(p.table, p.b1, sqrtf(3.0f / lm->size.context), seed, &counter);
    fill(p.w2, p.b2, sqrtf(6.0f / lm->size.hidden), seed, &counter);
    fill(p.w3, p.b3, sqrtf(1.0f / lm->size.inner), seed, &counter);
}

static int allocate(struct charlm *lm)
{
    size_t batch = lm->size.batch, hidden = lm->size.hidden, inner = lm->size.inner;

    lm->weights = floats(lm->params);
    lm->moment1 = floats(lm->params);
    lm->moment2 = floats(lm->params);
    lm->gradient = floats(lm->params + 1);
    lm->a1 = floats(batch * hidden);
    lm->d1 = floats(batch * hidden);
    lm->a2 = floats(batch * inner);
    lm->d2 = floats(batch * inner);
    lm->d3 = floats(batch * CHARLM_VOCAB);
    lm->turned = floats(inner * (hidden > CHARLM_VOCAB ? hidden : CHARLM_VOCAB));
    lm->blocks = matmul_new();
    return lm->weights && lm->moment1 && lm->moment2 && lm->gradient && lm->a1 &&
                   lm->d1 && lm->a2 && lm->d2 && lm->d3 && lm->turned && lm->blocks
               ? 0
               : -ENOMEM;
}

int charlm_new(const struct charlm_size *size, uint64_t seed, struct charlm **ret_lm)
{
    const unsigned each[] = {size->context, size->hidden, size->inner, size->batch};
    struct charlm *lm;

    for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
        if (each[i] == 0 || each[i] > LIMIT)
            return -EINVAL;
    lm = calloc(1, sizeof(*lm));
    if (!lm)
        return -ENOMEM;
    lm->size = *size;
    lm->params = count_params(size);
    if (allocate(lm) < 0) {
        charlm_free(lm);
        return -ENOMEM;
    }
    first_weights(lm, seed);
    *ret_lm = lm;
    return 0;
}

void charlm_free(struct charlm *lm)
{
    if (!lm)
        return;
    free(lm->weights);
    free(lm->moment1);
    free(lm->moment2);
    free(lm->gradient);
    free(lm->a1);
    free(lm->d1);
    free(lm->a2);
    free(lm->d2);
    free(lm->d3);
    free(lm->turned);
    matmul_free(lm->blocks);
    free(lm);
}

struct charlm_arrays charlm_arrays(const struct charlm *lm)
{
    return (struct charlm_arrays){
        .params = lm->params,
        .weights = lm->weights,
        .moment1 = lm->moment1,
        .moment2 = lm->moment2,
        .gradient = lm->gradient,
    };
}

uint8_t charlm_code(unsigned char byte)
{
    if (byte == '\n')
        return 0;
    return byte > ' ' && byte <= '~' ? byte - ' ' + 1 : 1;
}

/* x = max(x + bias, 0) for each row */
static void add_bias_and_clip(float *x, const float *bias, size_t rows, size_t n)
{
    for (; rows; rows--, x += n)
        for (size_t i = 0; i < n; i++) {
            float y = x[i] + bias[i];

            x[i] = y > 0.0f ? y : 0.0f;
        }
}

/* d = 0 where the activation was clipped */
static void clip_back(float *d, const float *activation, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = activation[i] > 0.0f ? d[i] : 0.0f;
}

static void sum_rows(float *restrict sum, const float *x, size_t rows, size_t n)
{
    memset(sum, 0, n * sizeof(float));
    for (; rows; rows--, x += n)
        for (size_t i = 0; i < n; i++)
            sum[i] += x[i];
}

static void transpose(float *to, const float *from, size_t rows, size_t columns)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            to[c * rows + r] = from[r * columns + c];
}

/* The row of the table for the character at a position. */
static size_t table_row(const struct charlm *lm, unsigned position, uint8_t code)
{
    return ((size_t)position * CHARLM_VOCAB + code) * lm->size.hidden;
}

static void look_up(struct charlm *lm, const float *table, const uint8_t *samples)
{
    size_t hidden = lm->size.hidden;

    memset(lm->a1, 0, lm->size.batch * hidden * sizeof(float));
    for (size_t s = 0; s < lm->size.batch; s++) {
        const uint8_t *codes = samples + s * (lm->size.context + 1);
        float *restrict sum = lm->a1 + s * hidden;

        for (unsigned p = 0; p < lm->size.context; p++) {
            const float *row = table + table_row(lm, p, codes[p]);

            for (size_t i = 0; i < hidden; i++)
                sum[i] += row[i];
        }
    }
}

/* Turns logits into the gradient of the mean loss with respect to them; returns that
 * loss.
 */
static float softmax(struct charlm *lm, const float *bias, const uint8_t *samples)
{
    float share = 1.0f / (float)lm->size.batch;
    double loss = 0;

    for (size_t s = 0; s < lm->size.batch; s++) {
        uint8_t target = samples[(s + 1) * (lm->size.context + 1) - 1];
        float *z = lm->d3 + s * CHARLM_VOCAB, top = -INFINITY, sum = 0, log_sum;

        for (size_t i = 0; i < CHARLM_VOCAB; i++) {
            z[i] += bias[i];
            top = z[i] > top ? z[i] : top;
        }
        log_sum = top - z[target];
        for (size_t i = 0; i < CHARLM_VOCAB; i++) {
            z[i] = expf(z[i] - top);
            sum += z[i];
        }
        loss += log_sum + logf(sum);
        for (size_t i = 0; i < CHARLM_VOCAB; i++)
            z[i] *= share / sum;
        z[target] -= share;
    }
    return (float)(loss / lm->size.batch);
}

float charlm_loss(struct charlm *lm, const uint8_t *samples)
{
    struct parts w = parts_of(&lm->size, lm->weights);
    size_t batch = lm->size.batch, hidden = lm->size.hidden, inner = lm->size.inner;

    look_up(lm, w.table, samples);
    add_bias_and_clip(lm->a1, w.b1, batch, hidden);
    matmul(lm->blocks, lm->a2, lm->a1, w.w2, batch, inner, hidden);
    add_bias_and_clip(lm->a2, w.b2, batch, inner);
    matmul(lm->blocks, lm->d3, lm->a2, w.w3, batch, CHARLM_VOCAB, inner);
    return softmax(lm, w.b3, samples);
}

/* A row of the table takes the gradient of z1 of every sample that looked it up. */
static void look_up_back(struct charlm *lm, float *table, const uint8_t *samples)
{
    size_t hidden = lm->size.hidden;

    memset(table, 0, (size_t)lm->size.context * CHARLM_VOCAB * hidden * sizeof(float));
    for (unsigned p = 0; p < lm->size.context; p++)
        for (size_t s = 0; s < lm->size.batch; s++) {
            uint8_t code = samples[s * (lm->size.context + 1) + p];
            float *restrict row = table + table_row(lm, p, code);
            const float *d = lm->d1 + s * hidden;

            for (size_t i = 0; i < hidden; i++)
                row[i] += d[i];
        }
}

void charlm_gradient(struct charlm *lm, const uint8_t *samples)
{
    struct parts w = parts_of(&lm->size, lm->weights);
    struct parts g = parts_of(&lm->size, lm->gradient);
    size_t batch = lm->size.batch, hidden = lm->size.hidden, inner = lm->size.inner;

    *g.end = charlm_loss(lm, samples);

    sum_rows(g.b3, lm->d3, batch, CHARLM_VOCAB);
    matmul_turned(lm->blocks, g.w3, lm->a2, lm->d3, inner, CHARLM_VOCAB, batch);
    transpose(lm->turned, w.w3, inner, CHARLM_VOCAB);
    matmul(lm->blocks, lm->d2, lm->d3, lm->turned, batch, inner, CHARLM_VOCAB);
    clip_back(lm->d2, lm->a2, batch * inner);

    sum_rows(g.b2, lm->d2, batch, inner);
    matmul_turned(lm->blocks, g.w2, lm->a1, lm->d2, hidden, inner, batch);
    transpose(lm->turned, w.w2, hidden, inner);
    matmul(lm->blocks, lm->d1, lm->d2, lm->turned, batch, hidden, inner);
    clip_back(lm->d1, lm->a1, batch * hidden);

    sum_rows(g.b1, lm->d1, batch, hidden);
    look_up_back(lm, g.table, samples);
}

void charlm_adam(struct charlm *lm, uint64_t step, float rate, float scale)
{
    float *restrict w = lm->weights, *restrict m = lm->moment1,
                    *restrict v = lm->moment2;
    const float *restrict gradient = lm->gradient;
    float unbias1 = (float)(1.0 / (1.0 - pow((double)BETA1, (double)step)));
    float unbias2 = (float)(1.0 / (1.0 - pow((double)BETA2, (double)step)));

    for (size_t i = 0; i < lm->params; i++) {
        float g = gradient[i] * scale;

        m[i] = BETA1 * m[i] + (1.0f - BETA1) * g;
        v[i] = BETA2 * v[i] + (1.0f - BETA2) * g * g;
        w[i] -= rate * (m[i] * unbias1) / (sqrtf(v[i] * unbias2) + EPSILON);
    }
}

uint64_t charlm_hash(const struct charlm *lm)
{
    const float *const arrays[] = {lm->weights, lm->moment1, lm->moment2};
    uint64_t hash = 0;

    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++)
        hash = XXH64(arrays[i], lm->params * sizeof(float), hash);
    return hash;
}
