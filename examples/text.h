/* SPDX-License-Identifier: Apache-2.0 */
/* Text to train on: every regular file of a directory, one after the other. */
#ifndef DLR_EXAMPLES_TEXT_H
#define DLR_EXAMPLES_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Reads the files of dir in the order of their names, follows links and takes a file
 * with several names once, and turns each byte into its code. On success *ret_codes
 * (free()) has *ret_n codes. Negative errno: of what could not be read, -ENODATA for
 * less than a page.
 */
int text_load(const char *dir, uint8_t **ret_codes, size_t *ret_n);

/* Draws `batch` rows of `length` codes from n >= length codes into samples. What is
 * drawn depends on seed, step and rank only, so that there is no position to save.
 */
void text_draw(const uint8_t *codes, size_t n, uint64_t seed, uint64_t step,
               unsigned rank, size_t length, size_t batch, uint8_t *samples);

#endif
