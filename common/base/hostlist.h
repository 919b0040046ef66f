/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of nodes in an order that matters, short enough for one string of an
 * environment (execve(2): 128 KiB).
 */
#ifndef DLR_COMMON_BASE_HOSTLIST_H
#define DLR_COMMON_BASE_HOSTLIST_H

#include <stdbool.h>
#include <stddef.h>

#define DLR_HOSTLIST_MAX (120u << 10) /* bytes that fit with a variable's name */

/* The names with ',' between them. A list above 16 KiB is folded as Slurm folds it
 * ("n[7,1-3],login"), in the order given. *ret is the caller's. -E2BIG: it is longer
 * than DLR_HOSTLIST_MAX all the same; -ENOMEM.
 */
int dlr_hostlist_join(const char *const *names, unsigned n, char **ret);

/* A list being read, of either form: {.rest = list}. */
struct dlr_hostlist {
    const char *rest;
    const char *prefix; /* of the numbers in brackets, NULL: outside of them */
    size_t prefix_len;
    unsigned next, last,
        width; /* numbers of a range that are still to come; width 0: none */
};

/* The next name; false at the end, and at what is no list or does not fit. */
bool dlr_hostlist_next(struct dlr_hostlist *list, char *buf, size_t size);
/* Whether all of it has been read. */
bool dlr_hostlist_is_over(const struct dlr_hostlist *list);

#endif
