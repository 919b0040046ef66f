/* SPDX-License-Identifier: Apache-2.0 */
/* What the C examples share in reading their command line. */
#ifndef DLR_EXAMPLES_ARGS_H
#define DLR_EXAMPLES_ARGS_H

#include <stdint.h>

/* One line "program: text" on stderr, from the first rank only, then exit status 2. To
 * be called before MPI_Init(): the rank is taken from what the launcher left in the
 * environment.
 */
_Noreturn void args_bad(const char *program, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The decimal number in text, at least min and at most max; args_bad() for anything
 * else.
 */
uint64_t args_number(const char *program, const char *option, const char *text,
                     uint64_t min, uint64_t max);

#endif
