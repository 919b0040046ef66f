/* SPDX-License-Identifier: Apache-2.0 */
/* Names of nodes in the words of a command: found where they are addresses ("n1:29500",
 * "tcp://n1/x", "--master_addr=n1", in a list, in a shell's line), and replaced. Pure.
 */
#ifndef DLR_MPI_LAUNCHER_STEP_PLAN_HOST_WORDS_H
#define DLR_MPI_LAUNCHER_STEP_PLAN_HOST_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* Says what a host found in the words is to be called: returns its new name, or NULL to
 * leave it. host has len bytes: a name up to its first dot, or an IPv4 address. bare:
 * nothing says that it is an address; it is a whole word ("n1") or a whole value that
 * might be something else.
 */
typedef const char *(*dlr_host_words_fn)(void *arg, const char *host, size_t len,
                                         bool bare);

/* A copy of the words (NULL-terminated, one heap block: free()) with what fn says. NULL
 * when out of memory.
 */
char **dlr_host_words_map(char *const *words, dlr_host_words_fn fn, void *arg);

#endif
