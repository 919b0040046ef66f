/* SPDX-License-Identifier: Apache-2.0 */
/* A small character-level language model with its own forward, backward and Adam.
 *
 * From the last `context` characters it predicts the next one:
 *
 *     z1 = b1 + sum over p of table[p][character p]      an embedding for each position
 *     z2 = b2 + relu(z1) . w2
 *     z3 = b3 + relu(z2) . w3                            logits of the next character
 *
 * and the loss is the mean cross-entropy in nats. Most parameters are in the table,
 * which costs only additions, so that a model with a large state still makes a quick
 * step.
 *
 * Every sum has a fixed order: the same state and the same batch give the same bits.
 */
#ifndef DLR_EXAMPLES_CHARLM_H
#define DLR_EXAMPLES_CHARLM_H

#include <stddef.h>
#include <stdint.h>

#define CHARLM_VOCAB 96 /* newline and the 95 printable ASCII characters */

struct charlm_size {
    unsigned context; /* characters looked at */
    unsigned hidden;  /* width of z1 */
    unsigned inner;   /* width of z2 */
    unsigned batch;   /* samples of one gradient */
};

struct charlm; /* opaque */

/* Arrays of `params` floats each, owned by the model. weights and both moments are the
 * state that a checkpoint has to hold. gradient has one more: the loss is its last
 * item, so that one reduction over the ranks sums both.
 */
struct charlm_arrays {
    size_t params;
    float *weights, *moment1, *moment2;
    float *gradient;
};

/* Makes a model whose first weights depend only on size and seed. -EINVAL for a size of
 * 0 or out of all proportion, -ENOMEM. *ret_lm: charlm_free().
 */
int charlm_new(const struct charlm_size *size, uint64_t seed, struct charlm **ret_lm);

/* Accepts NULL. */
void charlm_free(struct charlm *lm);

struct charlm_arrays charlm_arrays(const struct charlm *lm);

/* The code, below CHARLM_VOCAB, of a byte of text: a byte not in the vocabulary reads
 * as a space.
 */
uint8_t charlm_code(unsigned char byte);

/* Computes loss and gradient of the mean over a batch. samples: `batch` rows of context
 * + 1 codes, the last of a row is the one to predict.
 */
void charlm_gradient(struct charlm *lm, const uint8_t *samples);

/* The loss alone. */
float charlm_loss(struct charlm *lm, const uint8_t *samples);

/* One step of Adam (Kingma and Ba 2015, algorithm 1) with the gradient multiplied by
 * scale. step counts from 1 and is all that Adam needs to know beside the moments.
 */
void charlm_adam(struct charlm *lm, uint64_t step, float rate, float scale);

/* XXH64 of weights and moments: equal states have equal hashes. */
uint64_t charlm_hash(const struct charlm *lm);

#endif
